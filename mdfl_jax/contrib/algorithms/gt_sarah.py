"""GT-SARAH: gradient tracking whose minibatch noise is reduced by differences of consecutive gradients."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.algorithms.local import AlgorithmNumbers, Settings, decayed_gradient, recursion_step
from mdfl_jax.algorithms.registry import RECURSION, register
from mdfl_jax.core import contract
from mdfl_jax.core.message_bits import count_bits, dense_bits, double_dense_bits, messages_sent
from mdfl_jax.core.numbers import number
from mdfl_jax.core.sharding import choose
from mdfl_jax.core.trees import where_rows
from mdfl_jax.core.types import SYMMETRIC, Algorithm, ClientParams, Links, RoundContext, RoundStats, Traits


class GTSarahState(NamedTuple):
    """The state that one round hands to the next.

    Attributes:
      params: [N, ...] the models x.
      before: [N, ...] the models of the round before.
      estimate: [N, ...] v, the estimates of the clients' own gradients in the round before.
      tracked: [N, ...] y, each client's estimate of the mean gradient.
      begun: [N] bool, whether the client has taken part in a round, so that it has an estimate.
      round: [] int32, from 0.
    """

    params: ClientParams
    before: ClientParams
    estimate: ClientParams
    tracked: ClientParams
    begun: jax.Array
    round: jax.Array


class GTSarahNumbers(AlgorithmNumbers):
    """The numbers of GT-SARAH."""

    whole_every: int = number(
        10, "rounds from one gradient over all samples to the next, q + 1", at_least=1, at_most=10**9
    )


@register(
    "gt_sarah",
    GTSarahNumbers,
    ignores=(*RECURSION, "compressor"),
    keeps_sum=True,
    formula="v+ = grad f(x) every whole_every rounds, else g(x) - g(x_prev) + v\n"
    "y+ = W y + v+ - v;  x+ = W x - eta y+;  y^0 = v^(-1) = 0",
    cite="xin2022: algorithm 2.1",
)
def gt_sarah(settings: Settings = Settings()) -> Algorithm:
    """GT-SARAH: tracked gradients that sum the differences of minibatch gradients, and begin anew now and then.

    g are gradients on one minibatch, at both models. With whole_every = 1 it is DIGing, gradient tracking with whole
    gradients whose step follows the average (`gradient_tracking` averages after the step). A client that was away in
    its first rounds begins with its whole gradient. Round 0 sends one message a link, x. Later rounds send two, y and
    x. In a round without links both recursions run with W = I and nothing is sent.
    """

    def init(hparams: GTSarahNumbers, client_params: ClientParams) -> GTSarahState:
        nothing = jax.tree.map(jnp.zeros_like, client_params)
        begun = jnp.zeros(jax.tree.leaves(client_params)[0].shape[0], bool)
        return GTSarahState(client_params, client_params, nothing, nothing, begun, jnp.int32(0))

    def do_round(
        hparams: GTSarahNumbers, state: GTSarahState, links: Links, context: RoundContext
    ) -> tuple[GTSarahState, RoundStats]:
        gradient = context.gradient
        contract.takes(gradient, "whole", "by which gt_sarah asks for the gradient over all samples of a client")
        x, key = state.params, jax.random.fold_in(context.key, 0)
        step = recursion_step(settings, hparams, state.round)
        decayed = decayed_gradient(gradient, hparams, step)
        loss, here = decayed(x, key)
        there = decayed(state.before, key)[1]  # on the same minibatch
        summed = jax.tree.map(lambda g, h, v: g - h + v, here, there, state.estimate)
        renewed = (state.round % hparams.whole_every == 0) | ~state.begun
        whole = choose(
            jnp.any(renewed),
            lambda models, known: decayed_gradient(functools.partial(gradient, whole=True), hparams, step)(
                models, jax.random.fold_in(context.key, 1)
            )[1],
            lambda models, known: known,
            x,
            summed,
        )
        estimate = where_rows(renewed, whole, summed)
        heard, of_tracked = settings.aggregate(hparams, links, state.tracked, context)  # all zeros in round 0
        tracked = jax.tree.map(lambda h, new, old: h + new - old, heard, estimate, state.estimate)
        mixed, of_params = settings.aggregate(hparams, links, x, context, which=1)
        params = jax.tree.map(lambda m, y: m - step.astype(m.dtype) * y, mixed, tracked)
        messages = messages_sent(links.adjacency, links.senders) * jnp.where(state.round == 0, 1, 2)
        report = of_params.after(of_tracked)._replace(whole=renewed)
        stats = RoundStats(loss, messages, count_bits(messages, dense_bits(x)), report=report)
        return GTSarahState(params, x, estimate, tracked, jnp.ones_like(state.begun), state.round + 1), stats

    needs = frozenset({"adjacency", "mix", SYMMETRIC})
    return Algorithm(needs, init, do_round, lambda state: state.params, traits=Traits(double_dense_bits))
