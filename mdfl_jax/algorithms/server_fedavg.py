"""FedAvg with a server that everybody reaches in every round, for reference: others meet a server at times."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.algorithms.allreduce import mean_of
from mdfl_jax.algorithms.local import LocalNumbers, Settings, init_optimizer, local_steps
from mdfl_jax.algorithms.registry import register
from mdfl_jax.core.message_bits import count_bits, dense_bits, double_dense_bits
from mdfl_jax.core.types import Algorithm, ClientParams, Gradient, Links, RoundStats
from mdfl_jax.exchange.active import takes_part
from mdfl_jax.metrics.values import HEARD


class FedAvgState(NamedTuple):
    """The clients' models and optimiser states, both [N, ...], and the server's model [1, ...]."""

    params: ClientParams
    opt_state: Any
    server: ClientParams


@register("server_fedavg", ignores=("aggregation", "compressor", "statistics"))
def server_fedavg(settings: Settings = Settings()) -> Algorithm:
    """FedAvg in which everybody takes part (McMahan et al., AISTATS 2017, algorithm 1, clients alike).

    A round is: every client downloads the server's model x and takes its local steps from there; it uploads the result
    y_i, and the server sets x <- (1 / N) sum of the y_i. So after R rounds the server has combined R times, and the
    clients have the models of their last local steps. Neither the links nor the network's meetings with a server are
    used. A round counts two messages of a client, its upload and its download, each a whole model.
    """
    optimizer = settings.optimizer

    def init(hparams: LocalNumbers, client_params: ClientParams) -> FedAvgState:
        server = jax.tree.map(lambda p: p[:1], client_params)
        return FedAvgState(client_params, init_optimizer(optimizer(hparams), client_params), server)

    def do_round(
        hparams: LocalNumbers, key: jax.Array, state: FedAvgState, links: Links, gradient: Gradient
    ) -> tuple[FedAvgState, RoundStats]:
        members = takes_part(links, links.adjacency.shape[0])
        start = jax.tree.map(lambda x, p: jnp.broadcast_to(x, p.shape), state.server, state.params)
        stepped, opt_state, loss = local_steps(
            optimizer(hparams), settings.num_local_steps, key, start, state.opt_state, gradient
        )
        mean = mean_of(settings.sent(hparams, key, links, stepped), members)
        server = jax.tree.map(lambda x, old: jnp.where(jnp.any(members), x, old), mean, state.server)
        messages = 2 * members.astype(jnp.int32)
        nobody = links._replace(adjacency=jnp.zeros_like(links.adjacency), at_server=members)
        bits = count_bits(messages, dense_bits(stepped))
        return FedAvgState(stepped, opt_state, server), RoundStats(loss, messages, bits, heard=nobody)

    return Algorithm(
        needs=frozenset(),
        init=init,
        round=do_round,
        params=lambda state: state.params,
        global_model=lambda state: state.server,
        double_bits=double_dense_bits,
        metrics=(HEARD,),
    )
