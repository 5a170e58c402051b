"""Gradient tracking: every client steps along an estimate of the mean gradient, and gossips that estimate too."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.algorithms.local import AlgorithmNumbers, Settings, decayed_gradient, recursion_step
from mdfl_jax.algorithms.registry import RECURSION, register
from mdfl_jax.core.message_bits import count_bits, dense_bits, double_dense_bits, messages_sent
from mdfl_jax.core.types import SYMMETRIC, Algorithm, ClientParams, Links, RoundContext, RoundStats, Traits


class TrackingState(NamedTuple):
    """The state that one round hands to the next.

    Attributes:
      params: [N, ...] the models x^k.
      tracked: [N, ...] y^(k-1), each client's estimate of the mean gradient.
      gradient: [N, ...] grad f(x^(k-1)).
      round: [] int32, k.
    """

    params: ClientParams
    tracked: ClientParams
    gradient: ClientParams
    round: jax.Array


@register(
    "gradient_tracking",
    AlgorithmNumbers,
    ignores=(*RECURSION, "compressor"),
    keeps_sum=True,
    formula="x+ = W (x - eta y);  y+ = W y + grad f(x+) - grad f(x);  y^0 = grad f(x^0)",
    cite="pu2021; nedic2017",
)
def gradient_tracking(settings: Settings = Settings()) -> Algorithm:
    """DSGT, gradient tracking: clients step along an estimate of the mean gradient, and gossip that estimate too.

    This form takes the step before it averages the models; DIGing (Nedic, Olshevsky, Shi, 2017) has x+ = W x - eta y
    and the same y. The mean of all y is the mean gradient in every round.

    Here a round begins with the y update of the paper's previous iteration, so that it needs one gradient. Round 0
    sends one message a link, x - eta y. Later rounds send two, y and x - eta y. In a round without links both
    recursions run with W = I and nothing is sent.
    """
    return track_gradients(settings, sends_newest=False)


def track_gradients(settings: Settings, sends_newest: bool) -> Algorithm:
    """Make an algorithm of gradient tracking.

    Args:
      settings: the rule of aggregation and the schedule of the learning rate.
      sends_newest: whether clients average the estimates after the change of the gradients is added, and not before.
    """

    def add_change(estimate: jax.Array, gradient: jax.Array, before: jax.Array) -> jax.Array:
        return estimate + gradient - before

    def init(hparams: AlgorithmNumbers, client_params: ClientParams) -> TrackingState:
        nothing = jax.tree.map(jnp.zeros_like, client_params)
        return TrackingState(client_params, nothing, nothing, jnp.int32(0))

    def do_round(
        hparams: AlgorithmNumbers, state: TrackingState, links: Links, context: RoundContext
    ) -> tuple[TrackingState, RoundStats]:
        x, is_first = state.params, state.round == 0
        step = recursion_step(settings, hparams, state.round)
        loss, found = decayed_gradient(context.gradient, hparams, step)(x, jax.random.fold_in(context.key, 0))
        if sends_newest:
            planned = jax.tree.map(add_change, state.tracked, found, state.gradient)
            received, of_tracked = settings.aggregate(hparams, links, planned, context)
            tracked = jax.tree.map(lambda own, mixed: jnp.where(is_first, own, mixed), planned, received)
        else:
            received, of_tracked = settings.aggregate(hparams, links, state.tracked, context)  # all zeros in round 0
            tracked = jax.tree.map(add_change, received, found, state.gradient)
        stepped = jax.tree.map(lambda x, y: x - step.astype(x.dtype) * y, x, tracked)
        params, of_params = settings.aggregate(hparams, links, stepped, context, which=1)
        messages = messages_sent(links.adjacency, links.senders) * jnp.where(is_first, 1, 2)
        stats = RoundStats(loss, messages, count_bits(messages, dense_bits(x)), report=of_params.after(of_tracked))
        return TrackingState(params, tracked, found, state.round + 1), stats

    needs = frozenset({"adjacency", "mix", SYMMETRIC})
    return Algorithm(needs, init, do_round, lambda state: state.params, traits=Traits(double_dense_bits))
