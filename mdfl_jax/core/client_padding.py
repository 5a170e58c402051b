"""Padding clients, which make the number of rows a multiple of a mesh's devices.

Padding clients hold no samples and have no links, and their rows are removed from all results. The network still has N
clients; only the models and the algorithm's state have more rows. Random numbers that an algorithm draws for client i
must not depend on the number of rows. Draws with a leading client axis do not depend on it, because JAX's threefry
counts elements; draws for pairs of clients must use `among_clients`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core.links import ALL_PAIRS, Senders
from mdfl_jax.core.sharding import everywhere
from mdfl_jax.core.types import BEFORE, NEVER, Clients, Links


class Held(NamedTuple):
    """The part of the clients' data that networks and metrics see.

    Attributes:
      num_samples: [N] int32 training samples that each client holds.
      label_counts: [N, C] int32 samples of each label that each client holds.
    """

    num_samples: jax.Array
    label_counts: jax.Array


def first(tree: Any, num_clients: int) -> Any:
    """Return the first N rows of every leaf."""
    return jax.tree.map(lambda x: x[:num_clients], tree)


def held_by(clients: Clients, num_clients: int) -> Held:
    """Return the sample and label counts of the N clients, without those of the padding clients."""
    return Held(*first((clients.num_samples, clients.label_counts), num_clients))


def fill(x: jax.Array, rows: int, value: Any, axes: int = 1) -> jax.Array:
    """Pad an array with a leading client axis to more rows.

    Args:
      x: [N, ...], or [N, N, ...] where ``axes`` is 2.
      rows: the number of rows after padding, at least N.
      value: the value of the new elements.
      axes: the number of leading axes to pad, 1 or 2.

    Returns:
      [rows, ...], or [rows, rows, ...] where ``axes`` is 2.
    """
    extra = [(0, rows - x.shape[0])] * axes + [(0, 0)] * (x.ndim - axes)
    return jnp.pad(x, extra, constant_values=value)


def pad_links(links: Links, rows: int) -> Links:
    """Pad the links of N clients to more rows. A padding client has no links and gives its own model the weight 1."""
    num_clients = links.adjacency.shape[0]
    if rows == num_clients:
        return links
    others = jnp.arange(rows) >= num_clients
    axes, senders = 2 if links.senders.ids is None else 1, pad_senders(links.senders, rows)
    mix = fill(links.mix, rows, 0, axes) + senders.on_own(others.astype(links.mix.dtype))
    optional = lambda x, value: None if x is None else fill(x, rows, value)  # noqa: E731
    partner = optional(links.partner, 0)
    return Links(
        adjacency=fill(links.adjacency, rows, False, axes),
        mix=mix,
        at_server=optional(links.at_server, False),
        last_server=optional(links.last_server, BEFORE),
        next_server=optional(links.next_server, NEVER),
        partner=None if partner is None else jnp.where(others, jnp.arange(rows, dtype=partner.dtype), partner),
        real=num_clients,
        senders=senders,
        active=optional(links.active, False),
    )


def pad_senders(senders: Senders, rows: int) -> Senders:
    """Pad neighbour lists to more rows; all places of a padding client stand for itself."""
    if senders.ids is None or senders.back is None:
        return senders
    own, place = (jax.lax.broadcasted_iota(jnp.int32, (rows, senders.ids.shape[1]), axis) for axis in (0, 1))
    is_client = own < senders.ids.shape[0]
    ids, back = fill(senders.ids, rows, 0), fill(senders.back, rows, 0)
    return Senders(jnp.where(is_client, ids, own), jnp.where(is_client, back, place), senders.most)


def among_clients(draw: Callable[[jax.Array, Senders], jax.Array], links: Links) -> jax.Array:
    """Draw for the pairs of the N clients, independently of the number of rows.

    Args:
      draw: (adjacency [N, K], senders) -> [N, K] bool.
      links: the links of all rows.

    Returns:
      [rows, rows] bool, or [rows, K] over neighbour lists; False for all pairs with a padding client.
    """
    num_clients, rows = links.num_clients, links.adjacency.shape[0]
    ids, back, most = links.senders
    if ids is None or back is None:
        adjacency = links.adjacency[:num_clients, :num_clients]
        return fill(everywhere(lambda a: draw(a, ALL_PAIRS), adjacency), rows, False, axes=2)
    senders = Senders(ids[:num_clients], back[:num_clients], most)
    return fill(everywhere(draw, links.adjacency[:num_clients], senders), rows, False)
