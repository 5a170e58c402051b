"""FedAvg with a server that everybody reaches in every round, for reference: others meet a server at times."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.algorithms.allreduce import mean_of_members
from mdfl_jax.algorithms.local import LocalNumbers, Settings, init_optimizer, local_steps
from mdfl_jax.algorithms.registry import register
from mdfl_jax.core.message_bits import count_bits, dense_bits, double_dense_bits, no_bits
from mdfl_jax.core.types import Algorithm, ClientParams, Links, Meetings, RoundContext, RoundStats, Traits
from mdfl_jax.exchange.active import takes_part
from mdfl_jax.exchange.relay import TRAFFIC_METRICS, Traffic, add_traffic, no_traffic
from mdfl_jax.metrics.values import HEARD


class FedAvgState(NamedTuple):
    """The clients' models and optimiser states [N, ...], the server's model [1, ...], and what was sent so far."""

    params: ClientParams
    opt_state: Any
    server: ClientParams
    traffic: Traffic


@register(
    "server_fedavg",
    ignores=("aggregation", "compressor", "statistics"),
    formula="y_i = x after the local steps of i;  x+ = (1 / N) sum_i y_i",
    cite="mcmahan2017: algorithm 1",
)
def server_fedavg(settings: Settings = Settings()) -> Algorithm:
    """FedAvg with a server that everybody reaches in every round, for reference; the clients count alike.

    A round is: every client downloads the server's model x and takes its local steps from there; it uploads the result
    y_i, and the server sets x <- (1 / N) sum of the y_i. So after R rounds the server has combined R times, and the
    clients have the models of their last local steps. Neither the links nor the network's meetings with a server are
    used. A round counts two messages of a client, its upload and its download, each a whole model.
    """

    def init(hparams: LocalNumbers, client_params: ClientParams) -> FedAvgState:
        server = jax.tree.map(lambda p: p[:1], client_params)
        traffic = no_traffic(jax.tree.leaves(client_params)[0].shape[0])
        return FedAvgState(client_params, init_optimizer(settings.optimizer(hparams), client_params), server, traffic)

    def do_round(
        hparams: LocalNumbers, state: FedAvgState, links: Links, context: RoundContext
    ) -> tuple[FedAvgState, RoundStats]:
        members = takes_part(links)
        start = jax.tree.map(lambda x, p: jnp.broadcast_to(x, p.shape), state.server, state.params)
        stepped, opt_state, loss = local_steps(settings, hparams, start, state.opt_state, context)
        mean = mean_of_members(settings.sent(hparams, context.key, links, stepped), members)
        server = jax.tree.map(lambda x, old: jnp.where(jnp.any(members), x, old), mean, state.server)
        one, none = members.astype(jnp.int32), jnp.zeros(members.shape, jnp.int32)
        sent = Traffic(one, one, none, none, count_bits(2 * one, dense_bits(stepped)), no_bits(len(members)))
        nobody = links._replace(adjacency=jnp.zeros_like(links.adjacency), server=Meetings(members))
        following = FedAvgState(stepped, opt_state, server, add_traffic(state.traffic, sent))
        return following, RoundStats(loss, sent.messages, sent.bits, heard=nobody)

    return Algorithm(
        needs=frozenset(),
        init=init,
        round=do_round,
        params=lambda state: state.params,
        global_model=lambda state: state.server,
        traits=Traits(double_dense_bits),
        metrics=(HEARD, *TRAFFIC_METRICS),
    )
