"""D-PSGD: local steps, then one gossip step with the neighbours; and the same without the gossip, for reference."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.algorithms.local import OptimizerFactory, OptimizerParams, init_optimizer, local_steps, sgd
from mdfl_jax.algorithms.registry import ALGORITHMS
from mdfl_jax.exchange.gossip import mix
from mdfl_jax.exchange.meter import dense_message_bits, messages_sent
from mdfl_jax.types import Algorithm, ClientParams, Gradient, Links, RoundStats


class DPSGDState(NamedTuple):
    """Models and optimiser states, both [N, ...]; the optimiser state is never exchanged."""

    params: ClientParams
    opt_state: Any


def _make(optimizer: OptimizerFactory, num_local_steps: int, exchange: bool, mixing_bound: int = 0) -> Algorithm:
    def init(hparams: OptimizerParams, client_params: ClientParams) -> DPSGDState:
        return DPSGDState(client_params, init_optimizer(optimizer(hparams), client_params))

    def do_round(
        hparams: OptimizerParams, key: jax.Array, state: DPSGDState, links: Links, gradient: Gradient
    ) -> tuple[DPSGDState, RoundStats]:
        params, opt_state, loss = local_steps(
            optimizer(hparams), num_local_steps, key, state.params, state.opt_state, gradient
        )
        if not exchange:
            return DPSGDState(params, opt_state), RoundStats(loss, jnp.zeros(loss.shape, jnp.int32))
        mixed = mix(links.mix, params, mixing_bound)
        return DPSGDState(mixed, opt_state), RoundStats(loss, messages_sent(links.adjacency))

    needs = frozenset({"adjacency", "mix"}) if exchange else frozenset[str]()
    return Algorithm(needs, init, do_round, lambda state: state.params, dense_message_bits)


@ALGORITHMS.register("dpsgd")
def dpsgd(optimizer: OptimizerFactory = sgd(), num_local_steps: int = 1, mixing_bound: int = 0) -> Algorithm:
    """Decentralized parallel SGD (Lian et al., NeurIPS 2017) as in MADFL algorithm 1: x <- W (x - eta g).

    Args:
      optimizer: (OptimizerParams) -> optax transformation of one client; its state stays local.
      num_local_steps: E, optimiser steps before each exchange.
      mixing_bound: senders in a neighbour list of `mdfl_jax.exchange.gossip.mix`; 0: chosen by N.
    """
    return _make(optimizer, num_local_steps, True, mixing_bound)


@ALGORITHMS.register("local_only")
def local_only(optimizer: OptimizerFactory = sgd(), num_local_steps: int = 1, mixing_bound: int = 0) -> Algorithm:
    """Every client learns alone, whatever it could hear: what decentralized learning is to be compared with."""
    del mixing_bound
    return _make(optimizer, num_local_steps, exchange=False)
