"""NIDS with quantised innovations.

It converges exactly with few bits, because the absolute error of the quantiser shrinks from round to round.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.algorithms.innovations import NEEDS, compressor_of, finished, flat_gradient, pull, send
from mdfl_jax.algorithms.local import CompressedNumbers, Settings, recursion_step, waiting
from mdfl_jax.algorithms.registry import RECURSION, register
from mdfl_jax.core.numbers import number
from mdfl_jax.core.rng import own_draws
from mdfl_jax.core.trees import ravel
from mdfl_jax.core.types import Algorithm, ClientParams, Links, RoundContext, RoundStats
from mdfl_jax.exchange.compressors import ANQNumbers
from mdfl_jax.metrics.values import HEARD


class ANQNIDSState(NamedTuple):
    """The state that one round hands to the next.

    Attributes:
      params: [N, ...] the models x.
      before: [N, n] the models of the round before.
      descent: [N, n] eta grad f(x) of the round before.
      known: [N, n] y_hat, the estimates of y that all receivers hold.
      round: [] int32 k, the number of steps that the recursion has taken.
    """

    params: ClientParams
    before: jax.Array
    descent: jax.Array
    known: jax.Array
    round: jax.Array


class ANQNIDSNumbers(CompressedNumbers):
    """The numbers of NIDS with quantisation."""

    own_compressor = "anq"
    eta_decay: float = number(0.99, "factor a round of the quantiser's absolute error", at_least=0, at_most=1)


@register(
    "anq_nids",
    ANQNIDSNumbers,
    ignores=(*RECURSION, "aggregation"),
    keeps_sum=True,
    formula="x^1 = x^0 - eta grad f(x^0);  y_hat^0 = 0\n"
    "y = 2 x - x_prev - eta (grad f(x) - grad f(x_prev))\n"
    "y_hat <- y_hat + C(y - y_hat);  x+ = y + (W - I) / 2 y_hat",
    cite="li2019nids: algorithm 1; michelusi2022",
)
def anq_nids(settings: Settings = Settings()) -> Algorithm:
    """ANQ-NIDS: NIDS, smooth case, with quantised messages, by default with the compressor anq.

    Without quantisation errors x+ is (I + W) / 2 y. A client's own y is not quantised, so quantisation does not change
    the mean of the models. Round 0 sends nothing. A round in which no client has a link changes nothing, as in NIDS.
    In step k the absolute error of anq is its number ``eta`` times eta_decay^k. Other compressors can replace anq;
    their numbers stay the same in every round.
    """
    compressor = compressor_of(settings, ANQNIDSNumbers)

    def init(hparams: ANQNIDSNumbers, client_params: ClientParams) -> ANQNIDSState:
        x = ravel(client_params)[0]
        return ANQNIDSState(client_params, x, jnp.zeros_like(x), jnp.zeros_like(x), jnp.int32(0))

    def do_round(
        hparams: ANQNIDSNumbers, state: ANQNIDSState, links: Links, context: RoundContext
    ) -> tuple[ANQNIDSState, RoundStats]:
        x, unravel = ravel(state.params)
        step = recursion_step(settings, hparams, state.round).astype(x.dtype)
        loss, found = flat_gradient(hparams, context, state.params, step)
        descent = step * found
        planned = 2 * x - state.before - (descent - state.descent)
        shrink = jnp.power(jnp.asarray(hparams.eta_decay, x.dtype), state.round.astype(x.dtype))
        numbers = hparams.compressor
        if isinstance(numbers, ANQNumbers):
            numbers = numbers.replace(eta=jnp.asarray(numbers.eta, x.dtype) * shrink)
        shrunk = hparams.replace(compressor=numbers)
        sent = send(settings, compressor, shrunk, own_draws(context.key), planned, state.known, links, state.round > 0)
        mixed = jnp.where(state.round > 0, planned + pull(links, sent.estimate, settings) / 2, planned)
        following = ANQNIDSState(unravel(mixed), x, descent, sent.estimate, state.round + 1)
        return following, RoundStats(loss, sent.messages, sent.bits)

    algorithm = Algorithm(NEEDS, init, do_round, lambda state: state.params, metrics=(HEARD,))
    return finished(waiting(algorithm), settings, ANQNIDSNumbers)
