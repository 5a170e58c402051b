"""Functions that the networks with a server share: expected meetings and pairs of clients (FedMobile 3)."""

import jax
import jax.numpy as jnp

from mdfl_jax.core.links import Senders
from mdfl_jax.core.metric import NOTHING, record
from mdfl_jax.core.types import BEFORE, NEVER, Links


def expected_next(last: jax.Array, mean: jax.Array, slot: jax.Array) -> jax.Array:
    """Compute the expected slots of the next meetings: one mean gap after the last meeting, but always after this slot.

    Args:
      last: [N] int32, the slots of the last meetings.
      mean: the mean gap in slots, one for all clients or [N]; ``inf`` if it is not known.
      slot: [] int32, the index of this slot.

    Returns:
      [N] int32; `NEVER` where the mean gap is not known.

    >>> expected_next(jnp.array([-1, 4, 4]), jnp.array([jnp.inf, 2.5, 30.0]), 9).tolist() == [NEVER, 10, 34]
    True
    """
    after = jnp.minimum(jnp.round(mean), NEVER // 2).astype(jnp.int32)
    return jnp.where(jnp.isinf(mean), NEVER, jnp.maximum(last + after, slot + 1)).astype(jnp.int32)


def observed_mean(last: jax.Array, met: jax.Array) -> jax.Array:
    """Compute the mean gap of the meetings so far.

    The first gap is counted from slot -1.

    Args:
      last: [N] int32, the slots of the last meetings; -1 before the first.
      met: [N] int32, the number of meetings so far.

    Returns:
      [N] mean gaps in slots; ``inf`` before the first meeting.
    """
    return jnp.where(met > 0, (last - BEFORE) / jnp.maximum(met, 1), jnp.inf)


def random_pairs(key: jax.Array, num_clients: int, rate: jax.Array | float) -> jax.Array:
    """Draw floor(rho N / 2) disjoint pairs of clients uniformly (FedMobile appendix B).

    Args:
      key: typed key of this slot.
      num_clients: N.
      rate: rho in [0, 1], the share of the clients that have a partner.

    Returns:
      [N] int32, the partner of each client; its own index if it is alone.
    """
    order = jax.random.permutation(key, num_clients).astype(jnp.int32)
    num_pairs = jnp.floor(jnp.asarray(rate, jnp.float32) * num_clients / 2 + 1e-4).astype(jnp.int32)
    place = jnp.arange(num_clients, dtype=jnp.int32)
    paired = place < 2 * num_pairs
    # The clients at the positions 2k and 2k + 1 of the order are a pair. With N odd, the last one has no partner.
    mate = order[jnp.minimum(place ^ 1, num_clients - 1)]
    return jnp.zeros(num_clients, jnp.int32).at[order].set(jnp.where(paired, mate, order))


def pair_links(
    partner: jax.Array, at_server: jax.Array, last: jax.Array, following: jax.Array, lists: bool = False
) -> Links:
    """Make the links of disjoint pairs. The two weights of a pair are one half; a client that is alone keeps its model.

    If an algorithm does not read the matrices, the compiler removes them from the program.

    Args:
      partner: [N] int32, see `mdfl_jax.core.types.Links`.
      at_server: [N] bool, whether each client meets the server in this slot.
      last: [N] int32, the slots of the last meetings.
      following: [N] int32, the slots of the next meetings.
      lists: whether the links are neighbour lists, of two places, and not matrices.

    Returns:
      The links of the slot.
    """
    client = jnp.arange(partner.shape[0], dtype=jnp.int32)
    if lists:
        paired = partner != client
        adjacency = jnp.stack([jnp.zeros_like(paired), paired], axis=1)
        weights = jnp.stack([jnp.where(paired, 0.5, 1.0), jnp.where(paired, 0.5, 0.0)], axis=1)
        # The mate of a client is at place 1, and there the client is its mate's own one.
        place = jnp.broadcast_to(jnp.arange(2, dtype=jnp.int32), adjacency.shape)
        senders = Senders(jnp.stack([client, partner], axis=1), place, jnp.int32(2))
        return Links(adjacency, weights, at_server, last, following, partner, senders=senders)
    mate = partner[:, None] == client
    alone = client[:, None] == client
    return Links(mate & ~alone, 0.5 * mate + 0.5 * alone, at_server, last, following, partner)


MET_SERVER = record("met_server", lambda view: view.links.at_server, NOTHING, dtype="bool")
"""The record of who met the server in each round, of a network that has one."""
