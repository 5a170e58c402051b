"""BEER: gradient tracking with compressed innovations of the model and of the tracked gradient."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.algorithms.innovations import NEEDS, compressor_of, finished, flat_gradient, pull, send
from mdfl_jax.algorithms.local import CompressedNumbers, Settings, recursion_step
from mdfl_jax.algorithms.registry import RECURSION, register
from mdfl_jax.core.message_bits import add_bits
from mdfl_jax.core.numbers import number
from mdfl_jax.core.rng import own_draws
from mdfl_jax.core.trees import ravel
from mdfl_jax.core.types import Algorithm, ClientParams, Links, RoundContext, RoundStats


class BEERState(NamedTuple):
    """The state that one round hands to the next.

    Attributes:
      params: [N, ...] the models X.
      tracked: [N, n] V, each client's estimate of the mean gradient.
      known_params: [N, n] H, the estimates of X that all receivers hold.
      known_tracked: [N, n] G, the estimates of V that all receivers hold.
      gradient: [N, n] grad F(X) of the round before.
      round: [] int32, from 0.
    """

    params: ClientParams
    tracked: jax.Array
    known_params: jax.Array
    known_tracked: jax.Array
    gradient: jax.Array
    round: jax.Array


class BEERNumbers(CompressedNumbers):
    """The numbers of BEER."""

    own_compressor = "top_k"
    consensus_lr: float = number(0.4, "step of the compressed gossip, gamma", at_least=0, at_most=1)


@register(
    "beer",
    BEERNumbers,
    ignores=(*RECURSION, "aggregation"),
    keeps_sum=True,
    formula="x+ = x + gamma (W - I) h - eta v;  h+ = h + C(x+ - h)\n"
    "v+ = v + gamma (W - I) g + grad f(x+) - grad f(x);  g+ = g + C(v+ - g)\n"
    "v^0 = grad f(x^0);  h^0 = g^0 = 0",
    cite="zhao2022: algorithm 1",
)
def beer(settings: Settings = Settings()) -> Algorithm:
    """BEER: gradient tracking with compressed innovations of both vectors, by default with top_k.

    Here a round begins with the second line of the paper's previous iteration, so that it needs one gradient. Round 0
    sends one message a link, for x^1. Every later round t sends two, for v^t and for x^(t+1). The iterates are the same
    as in the paper.
    """
    compressor = compressor_of(settings, BEERNumbers)

    def init(hparams: BEERNumbers, client_params: ClientParams) -> BEERState:
        nothing = jnp.zeros_like(ravel(client_params)[0])
        return BEERState(client_params, nothing, nothing, nothing, nothing, jnp.int32(0))

    def do_round(
        hparams: BEERNumbers, state: BEERState, links: Links, context: RoundContext
    ) -> tuple[BEERState, RoundStats]:
        key_tracked, key_params = jax.random.split(own_draws(context.key))
        x, unravel = ravel(state.params)
        pace, step = jnp.asarray(hparams.consensus_lr, x.dtype), recursion_step(settings, hparams, state.round)
        loss, found = flat_gradient(hparams, context, state.params, step)
        tracked = state.tracked + pace * pull(links, state.known_tracked, settings) + found - state.gradient
        of_tracked = send(
            settings, compressor, hparams, key_tracked, tracked, state.known_tracked, links, state.round > 0
        )
        x = x + pace * pull(links, state.known_params, settings) - step.astype(x.dtype) * tracked
        of_params = send(settings, compressor, hparams, key_params, x, state.known_params, links)
        following = BEERState(unravel(x), tracked, of_params.estimate, of_tracked.estimate, found, state.round + 1)
        messages = of_tracked.messages + of_params.messages
        return following, RoundStats(loss, messages, add_bits(of_tracked.bits, of_params.bits))

    return finished(Algorithm(NEEDS, init, do_round, lambda state: state.params), settings, BEERNumbers)
