"""DCD-PSGD: D-PSGD in which models change only by compressed differences, so that neighbours know them exactly."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.algorithms.innovations import NEEDS, compressor_of, finished, flat_gradient, pull, send
from mdfl_jax.algorithms.local import CompressedNumbers, Settings, recursion_step
from mdfl_jax.algorithms.registry import RECURSION, register
from mdfl_jax.core.rng import own_draws
from mdfl_jax.core.trees import ravel
from mdfl_jax.core.types import Algorithm, ClientParams, Links, RoundContext, RoundStats


class DCDState(NamedTuple):
    """The state that one round hands to the next.

    Attributes:
      params: [N, ...] the models x.
      known: [N, n] the copies of x that all receivers hold.
      round: [] int32, from 0.
    """

    params: ClientParams
    known: jax.Array
    round: jax.Array


class DCDNumbers(CompressedNumbers):
    """The numbers of DCD-PSGD."""

    own_compressor = "qsgd"


@register(
    "dcd_psgd",
    DCDNumbers,
    ignores=(*RECURSION, "aggregation"),
    formula="y = W x - eta g;  x+ = x + C(y - x)",
    cite="tang2018dcd: algorithm 1",
)
def dcd_psgd(settings: Settings = Settings()) -> Algorithm:
    """DCD-PSGD: D-PSGD in which models change only by compressed differences, by default with qsgd.

    The theory assumes an unbiased C with a small relative error (theorem 1). All clients know the common x^0. The paper
    has no rounds without links. In such a round a client takes its local step without compression, and its next message
    compresses the difference between y and the copy that the others hold.
    """
    compressor = compressor_of(settings, DCDNumbers)

    def init(hparams: DCDNumbers, client_params: ClientParams) -> DCDState:
        return DCDState(client_params, ravel(client_params)[0], jnp.int32(0))

    def do_round(
        hparams: DCDNumbers, state: DCDState, links: Links, context: RoundContext
    ) -> tuple[DCDState, RoundStats]:
        x, unravel = ravel(state.params)
        step = recursion_step(settings, hparams, state.round).astype(x.dtype)
        loss, found = flat_gradient(hparams, context, state.params, step)
        wanted = x + pull(links, state.known, settings) - step * found
        sent = send(settings, compressor, hparams, own_draws(context.key), wanted, state.known, links)
        moved = jnp.where((sent.messages > 0)[:, None], sent.estimate, wanted)
        return DCDState(unravel(moved), sent.estimate, state.round + 1), RoundStats(loss, sent.messages, sent.bits)

    return finished(Algorithm(NEEDS, init, do_round, lambda state: state.params), settings, DCDNumbers)
