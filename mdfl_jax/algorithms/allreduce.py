"""All-reduce: after every round all clients have the exact mean of all models, as a reference without a network."""

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.algorithms.dpsgd import DPSGDState, local_then
from mdfl_jax.algorithms.local import LocalNumbers, Settings
from mdfl_jax.algorithms.registry import register
from mdfl_jax.core.links import as_senders, in_use
from mdfl_jax.core.message_bits import Bits, count_bits, float_bits, num_coordinates
from mdfl_jax.core.sharding import everywhere
from mdfl_jax.core.trees import rows_like
from mdfl_jax.core.types import Algorithm, ClientParams, Links, RoundContext, RoundStats
from mdfl_jax.exchange.active import takes_part
from mdfl_jax.metrics.values import HEARD, mean_model


def ring_bits(client_params: ClientParams, active: jax.Array | None = None) -> Bits:
    """Count the bits that each client sends in a ring all-reduce of one model: about 2 (N - 1) / N of a model.

    The n coordinates are cut into N chunks. While the sums are made, client i sends all chunks but i + 1. While the
    sums are handed on, it sends all chunks but i + 2 (indices modulo N). If N does not divide n, the first chunks are
    one coordinate longer. All clients together send 2 (N - 1) n coordinates.

    Args:
      client_params: [N, ...] stacked models.
      active: [N] bool, the clients that form the ring; None: all N.

    Returns:
      The counts, [N].
    """
    size, num_clients = num_coordinates(client_params), jax.tree.leaves(client_params)[0].shape[0]
    if active is not None:
        ring, place = jnp.maximum(jnp.sum(active, dtype=jnp.int32), 1), jnp.cumsum(active, dtype=jnp.int32) - 1
        of_ring = lambda k: size // ring + (k % ring < size % ring)  # noqa: E731
        sends = jnp.where(active, 2 * size - of_ring(place + 1) - of_ring(place + 2), 0)
        return count_bits(sends, float_bits(client_params))
    client = np.arange(num_clients)
    chunk = lambda k: size // num_clients + (k % num_clients < size % num_clients)  # noqa: E731
    coordinates = 2 * size - chunk(client + 1) - chunk(client + 2)
    return count_bits(jnp.asarray(coordinates, jnp.uint32), float_bits(client_params))


def mean_of_members(client_params: ClientParams, members: jax.Array) -> ClientParams:
    """Return the mean of the models of the members, [1, ...], which are some of the clients [N] bool."""
    size = jnp.maximum(jnp.sum(members, dtype=jnp.int32), 1)
    total = lambda p: jnp.sum(jnp.where(rows_like(members, p), p, 0), axis=0, keepdims=True)  # noqa: E731
    return jax.tree.map(lambda p: total(p) / size.astype(p.dtype), client_params)


def ring(members: jax.Array) -> Links:
    """Return the links of the ring that clients [N] bool form: each hears the one before it."""
    me = jnp.arange(members.shape[0], dtype=jnp.int32)
    so_far = jax.lax.cummax(jnp.where(members, me, -1))
    before = jnp.concatenate([so_far[-1:], so_far[:-1]])
    before = jnp.where(members, jnp.where(before < 0, so_far[-1], before), me)
    after = me.at[jnp.where(members, before, me)].set(me)
    present = jnp.stack([before != me, (after != me) & (after != before)], axis=1)
    senders = as_senders(jnp.stack([before, after], axis=1), present, jnp.sum(present, axis=1))
    assert senders.ids is not None
    adjacency = (senders.ids == before[:, None]) & in_use(senders, members.shape[0])
    return Links(adjacency, senders.own(members.shape[0]).astype(jnp.float32), senders=senders)


@register(
    "allreduce",
    ignores=("aggregation", "compressor"),
    formula="x_i+ = (1 / N) sum_j (x_j - eta g_j)",
    cite="patarasuk2009",
)
def allreduce(settings: Settings = Settings()) -> Algorithm:
    """Parallel SGD with the exact mean of all models in every round, whatever the network.

    All-reduce ignores the network. So it shows what exact averaging would reach with the same local steps; it is no
    algorithm for these links. With one local step all clients together take a step of SGD on the mean objective. With
    several local steps it is FedAvg in which everybody takes part.

    The counts are those of a ring all-reduce of the models: 2 (N - 1) messages a client, each of about n / N of the n
    coordinates (`ring_bits`). A client receives from the client before it in the ring (`ring`), whatever the links of
    the network are.
    """

    def exchange(
        hparams: LocalNumbers, links: Links, params: ClientParams, context: RoundContext
    ) -> tuple[ClientParams, Links]:
        members = takes_part(links)
        params = settings.sent(hparams, context.key, links, params)
        mean = mean_model(params) if links.active is None else mean_of_members(params, members)
        return jax.tree.map(lambda m, p: jnp.broadcast_to(m, p.shape), mean, params), everywhere(ring, members)

    steps = local_then(settings, exchange, ())

    def do_round(
        hparams: LocalNumbers, state: DPSGDState, links: Links, context: RoundContext
    ) -> tuple[DPSGDState, RoundStats]:
        state, stats = steps.round(hparams, state, links, context)
        members = takes_part(links)
        messages = jnp.where(members, 2 * (jnp.sum(members, dtype=jnp.int32) - 1), 0)
        bits = ring_bits(settings.part(state.params), links.active)
        return state, stats._replace(messages=messages, bits=bits)

    # PaME's count has one size for all messages and does not know N.
    return steps._replace(round=do_round, metrics=(HEARD,), traits=steps.traits._replace(double_bits=None))
