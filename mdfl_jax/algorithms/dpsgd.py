"""D-PSGD: local steps, then one gossip step with the neighbours; and the same without the gossip, for reference."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.algorithms.local import AlgorithmParams, Settings, init_optimizer, local_steps
from mdfl_jax.algorithms.registry import register
from mdfl_jax.exchange.gossip import mix
from mdfl_jax.exchange.meter import count_bits, dense_bits, double_dense_bits, messages_sent, no_bits
from mdfl_jax.types import Algorithm, ClientParams, Gradient, Links, RoundStats


class DPSGDState(NamedTuple):
    """Models and optimiser states, both [N, ...]; the optimiser state is never exchanged."""

    params: ClientParams
    opt_state: Any


def _make(settings: Settings, exchange: bool) -> Algorithm:
    optimizer = settings.optimizer

    def init(hparams: AlgorithmParams, client_params: ClientParams) -> DPSGDState:
        return DPSGDState(client_params, init_optimizer(optimizer(hparams), client_params))

    def do_round(
        hparams: AlgorithmParams, key: jax.Array, state: DPSGDState, links: Links, gradient: Gradient
    ) -> tuple[DPSGDState, RoundStats]:
        params, opt_state, loss = local_steps(
            optimizer(hparams), settings.num_local_steps, key, state.params, state.opt_state, gradient
        )
        if not exchange:
            nothing = RoundStats(loss, jnp.zeros(loss.shape, jnp.int32), no_bits(loss.shape[0]))
            return DPSGDState(params, opt_state), nothing
        mixed = mix(links.mix, params, settings.mixing_bound)
        sent = messages_sent(links.adjacency)
        return DPSGDState(mixed, opt_state), RoundStats(loss, sent, count_bits(sent, dense_bits(params)))

    needs = frozenset({"adjacency", "mix"}) if exchange else frozenset[str]()
    return Algorithm(needs, init, do_round, lambda state: state.params, double_bits=double_dense_bits)


@register("dpsgd")
def dpsgd(settings: Settings = Settings()) -> Algorithm:
    """Decentralized parallel SGD (Lian et al., NeurIPS 2017) as in MADFL algorithm 1: x <- W (x - eta g)."""
    return _make(settings, exchange=True)


@register("local_only")
def local_only(settings: Settings = Settings()) -> Algorithm:
    """Every client learns alone, whatever it could hear: what decentralized learning is to be compared with."""
    return _make(settings, exchange=False)
