"""Epidemic learning: models go to peers drawn anew in every round; a receiver averages what came with its own."""

from collections.abc import Callable

import jax

from mdfl_jax.algorithms.dpsgd import DPSGDState
from mdfl_jax.algorithms.local import AlgorithmParams, Settings, init_optimizer, local_steps
from mdfl_jax.algorithms.registry import register
from mdfl_jax.exchange.gossip import mix
from mdfl_jax.exchange.meter import count_bits, dense_bits, double_dense_bits, messages_sent
from mdfl_jax.exchange.peers import random_receivers, random_regular_part
from mdfl_jax.networks.mixing import uniform
from mdfl_jax.rng import own_draws
from mdfl_jax.types import Algorithm, ClientParams, Gradient, Links, RoundStats

NUM_PEERS = 7  # ceil(log2 N) for the 96 clients of the paper


def _make(settings: Settings, draw: Callable[[jax.Array, jax.Array, jax.Array], jax.Array]) -> Algorithm:
    optimizer = settings.optimizer

    def init(hparams: AlgorithmParams, client_params: ClientParams) -> DPSGDState:
        return DPSGDState(client_params, init_optimizer(optimizer(hparams), client_params))

    def do_round(
        hparams: AlgorithmParams, key: jax.Array, state: DPSGDState, links: Links, gradient: Gradient
    ) -> tuple[DPSGDState, RoundStats]:
        params, opt_state, loss = local_steps(
            optimizer(hparams), settings.num_local_steps, key, state.params, state.opt_state, gradient
        )
        received = draw(own_draws(key), links.adjacency, hparams.num_peers)
        mixed = mix(uniform(received), params, settings.mixing_bound)
        sent = messages_sent(received)
        return DPSGDState(mixed, opt_state), RoundStats(loss, sent, count_bits(sent, dense_bits(params)))

    return Algorithm(
        frozenset({"adjacency"}), init, do_round, lambda state: state.params, double_bits=double_dense_bits
    )


@register("epidemic", num_peers=NUM_PEERS)
def epidemic(settings: Settings = Settings()) -> Algorithm:
    """EL-Local (De Vos et al., NeurIPS 2023, algorithm 1 with local sampling).

    After its local steps every client sends its model to s others, drawn uniformly among those that hear it (all, on
    the complete graph, which is the paper's setting); x_i <- (y_i + sum of the y_j received) / (1 + received). Those
    who hear it may be fewer than s; then it sends to all of them. The network's weights are not looked at.
    """
    return _make(settings, random_receivers)


@register("epidemic_oracle", num_peers=NUM_PEERS)
def epidemic_oracle(settings: Settings = Settings()) -> Algorithm:
    """EL-Oracle (De Vos et al., NeurIPS 2023, algorithm 1): the exchanges of a round form a random s-regular graph.

    The same average as `epidemic`, over links of both directions. Inside a network that is not complete everybody has
    s links as nearly as those in range allow (`mdfl_jax.exchange.peers.random_regular_part`).
    """
    return _make(settings, random_regular_part)
