"""D-PSGD: local steps, then one gossip step with the neighbours. `local_only` leaves the gossip out, for reference."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp

from mdfl_jax.algorithms.local import LocalNumbers, Settings, init_optimizer, local_steps
from mdfl_jax.algorithms.registry import register
from mdfl_jax.core import contract
from mdfl_jax.core.message_bits import count_bits, dense_bits, double_dense_bits, messages_sent
from mdfl_jax.core.types import Algorithm, ClientParams, Exchanged, Gradient, Links, RoundContext, RoundStats, Traits
from mdfl_jax.exchange.aggregation import as_exchanged
from mdfl_jax.metrics.values import HEARD


class DPSGDState(NamedTuple):
    """The models and the optimiser states, both [N, ...]. The optimiser states are never exchanged."""

    params: ClientParams
    opt_state: Any


# (hparams, links, client_params, context) -> (client_params after it, perhaps with a report; the links of the models)
Exchange = Callable[[Any, Links, ClientParams, RoundContext], tuple[ClientParams | Exchanged, Links]]


def local_then(
    settings: Settings,
    exchange: Exchange,
    needs: Iterable[str],
    seen: Callable[[Any, Gradient], Gradient] = lambda hparams, gradient: gradient,
) -> Algorithm:
    """Make an algorithm that takes E local steps and then exchanges whole models.

    Args:
      settings: the optimiser, the number E of local steps, and whether batch statistics stay local.
      exchange: the exchange that follows the local steps; it sends one model over each link that it returns.
      needs: the fields of Links that ``exchange`` reads.
      seen: (hparams, gradient) -> the gradient function that the local steps use.
    """
    optimizer = settings.optimizer

    def init(hparams: LocalNumbers, client_params: ClientParams) -> DPSGDState:
        return DPSGDState(client_params, init_optimizer(optimizer(hparams), client_params))

    def do_round(
        hparams: LocalNumbers, state: DPSGDState, links: Links, context: RoundContext
    ) -> tuple[DPSGDState, RoundStats]:
        params, opt_state, loss = local_steps(
            settings, hparams, state.params, state.opt_state, context, partial(seen, hparams)
        )
        mine = settings.part(params)
        found = exchange(hparams, links, mine, settings.judging(context, params))
        are_two = isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], Links)
        (part, report), heard = (as_exchanged(found[0]), found[1]) if are_two else (Exchanged(found), links)
        contract.like(exchange, (part, heard) if are_two else found, (mine, heard))
        sent = messages_sent(heard.adjacency, heard.senders)
        stats = RoundStats(loss, sent, count_bits(sent, dense_bits(mine)), heard=heard, report=report)
        return DPSGDState(settings.with_part(params, part), opt_state), stats

    return Algorithm(
        frozenset(needs),
        init,
        do_round,
        lambda state: state.params,
        traits=Traits(None if settings.shared else double_dense_bits, settings.local_statistics),
    )


def gossip(settings: Settings) -> Exchange:
    """Make the exchange x <- W x, or another aggregation, which sends one message a link."""

    def exchange(
        hparams: LocalNumbers, links: Links, params: ClientParams, context: RoundContext
    ) -> tuple[Exchanged, Links]:
        return settings.aggregate(hparams, links, params, context), links

    return exchange


@register("dpsgd", ignores=("compressor",), formula="x+ = W (x - eta g)", cite="lian2017; madfl: algorithm 1")
def dpsgd(settings: Settings = Settings()) -> Algorithm:
    """D-PSGD, decentralized parallel SGD: local steps, then gossip."""
    return local_then(settings, gossip(settings), ("adjacency", "mix"))


@register("local_only", ignores=("aggregation", "compressor", "sends"), formula="x+ = x - eta g")
def local_only(settings: Settings = Settings()) -> Algorithm:
    """Local training: every client learns alone and sends nothing, as a reference for decentralized learning."""

    def nothing(
        hparams: LocalNumbers, links: Links, params: ClientParams, context: RoundContext
    ) -> tuple[ClientParams, Links]:
        return params, links._replace(adjacency=jnp.zeros_like(links.adjacency))

    return local_then(settings, nothing, ())._replace(metrics=(HEARD,))
