"""D-PSGD: local steps, then one gossip step with the neighbours. `local_only` leaves the gossip out, for reference."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.algorithms.local import LocalNumbers, Settings, init_optimizer, local_steps
from mdfl_jax.algorithms.registry import register
from mdfl_jax.core import contract
from mdfl_jax.core.message_bits import count_bits, dense_bits, double_dense_bits, messages_sent
from mdfl_jax.core.types import Algorithm, ClientParams, Gradient, Links, RoundStats


class DPSGDState(NamedTuple):
    """The models and the optimiser states, both [N, ...]. The optimiser states are never exchanged."""

    params: ClientParams
    opt_state: Any


# (hparams, key of the round, links, client_params) -> (client_params after it, [N] int32 messages sent)
Exchange = Callable[[Any, jax.Array, Links, ClientParams], tuple[ClientParams, jax.Array]]


def local_then(
    settings: Settings,
    exchange: Exchange,
    needs: Iterable[str],
    seen: Callable[[Any, Gradient], Gradient] = lambda hparams, gradient: gradient,
) -> Algorithm:
    """Make an algorithm that takes E local steps and then exchanges whole models.

    Args:
      settings: the optimiser, the number E of local steps, and whether batch statistics stay local.
      exchange: the exchange that follows the local steps.
      needs: the fields of Links that ``exchange`` reads.
      seen: (hparams, gradient) -> the gradient function that the local steps use.
    """
    optimizer = settings.optimizer

    def init(hparams: LocalNumbers, client_params: ClientParams) -> DPSGDState:
        return DPSGDState(client_params, init_optimizer(optimizer(hparams), client_params))

    def do_round(
        hparams: LocalNumbers, key: jax.Array, state: DPSGDState, links: Links, gradient: Gradient
    ) -> tuple[DPSGDState, RoundStats]:
        params, opt_state, loss = local_steps(
            optimizer(hparams), settings.num_local_steps, key, state.params, state.opt_state, seen(hparams, gradient)
        )
        mine = settings.part(params)
        exchanged = exchange(hparams, key, links, mine)
        contract.like(exchange, exchanged, (mine, contract.of_kind(loss.shape, int)))
        part, sent = exchanged
        stats = RoundStats(loss, sent, count_bits(sent, dense_bits(mine)))
        return DPSGDState(settings.with_part(params, part), opt_state), stats

    return Algorithm(
        frozenset(needs),
        init,
        do_round,
        lambda state: state.params,
        double_bits=None if settings.shared else double_dense_bits,
        local_statistics=settings.local_statistics,
    )


def gossip(settings: Settings) -> Exchange:
    """Make the exchange x <- W x, or another aggregation, which sends one message a link."""

    def exchange(
        hparams: LocalNumbers, key: jax.Array, links: Links, params: ClientParams
    ) -> tuple[ClientParams, jax.Array]:
        return settings.aggregate(hparams, key, links, params), messages_sent(links.adjacency, links.senders)

    return exchange


@register("dpsgd", ignores=("compressor",), formula="x+ = W (x - eta g)", cite="lian2017; madfl: algorithm 1")
def dpsgd(settings: Settings = Settings()) -> Algorithm:
    """D-PSGD, decentralized parallel SGD: local steps, then gossip."""
    return local_then(settings, gossip(settings), ("adjacency", "mix"))


@register("local_only", formula="x+ = x - eta g")
def local_only(settings: Settings = Settings()) -> Algorithm:
    """Local training: every client learns alone and sends nothing, as a reference for decentralized learning."""

    def nothing(
        hparams: LocalNumbers, key: jax.Array, links: Links, params: ClientParams
    ) -> tuple[ClientParams, jax.Array]:
        return params, jnp.zeros(jax.tree.leaves(params)[0].shape[0], jnp.int32)

    return local_then(settings, nothing, ())
