"""CHOCO-SGD: a local step, then a gossip step on estimates that compressed innovations update."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.algorithms.innovations import NEEDS, compressor_of, finished, flat_gradient, pull, send
from mdfl_jax.algorithms.local import CompressedNumbers, Settings, recursion_step
from mdfl_jax.algorithms.registry import RECURSION, register
from mdfl_jax.core.numbers import number
from mdfl_jax.core.rng import own_draws
from mdfl_jax.core.trees import ravel
from mdfl_jax.core.types import Algorithm, ClientParams, Links, RoundContext, RoundStats


class ChocoState(NamedTuple):
    """The state that one round hands to the next.

    Attributes:
      params: [N, ...] the models x.
      estimate: [N, n] x_hat, the estimates of x that all receivers hold.
      round: [] int32, from 0.
    """

    params: ClientParams
    estimate: jax.Array
    round: jax.Array


class ChocoNumbers(CompressedNumbers):
    """The numbers of CHOCO-SGD."""

    own_compressor = "top_k"
    consensus_lr: float = number(0.4, "step of the compressed gossip, gamma", at_least=0, at_most=1)


@register(
    "choco",
    ChocoNumbers,
    ignores=(*RECURSION, "aggregation"),
    formula="y = x - eta g;  x_hat+ = x_hat + C(y - x_hat);  x+ = y + gamma (W - I) x_hat+;  x_hat^0 = 0",
    cite="koloskova2019: algorithm 2; koloskova2020",
)
def choco(settings: Settings = Settings()) -> Algorithm:
    """CHOCO-SGD: a local step, then gossip of estimates that compressed innovations update, by default with top_k."""
    compressor = compressor_of(settings, ChocoNumbers)

    def init(hparams: ChocoNumbers, client_params: ClientParams) -> ChocoState:
        return ChocoState(client_params, jnp.zeros_like(ravel(client_params)[0]), jnp.int32(0))

    def do_round(
        hparams: ChocoNumbers, state: ChocoState, links: Links, context: RoundContext
    ) -> tuple[ChocoState, RoundStats]:
        x, unravel = ravel(state.params)
        step = recursion_step(settings, hparams, state.round).astype(x.dtype)
        loss, found = flat_gradient(hparams, context, state.params, step)
        stepped = x - step * found
        sent = send(settings, compressor, hparams, own_draws(context.key), stepped, state.estimate, links)
        mixed = stepped + jnp.asarray(hparams.consensus_lr, x.dtype) * pull(links, sent.estimate, settings)
        following = ChocoState(unravel(mixed), sent.estimate, state.round + 1)
        return following, RoundStats(loss, sent.messages, sent.bits)

    return finished(Algorithm(NEEDS, init, do_round, lambda state: state.params), settings, ChocoNumbers)
