"""Clients that fill up the rows of a mesh's devices: they hold nothing, talk to nobody, and are cut off again.

The world goes on with N clients; only the models and the algorithm's state have more rows. What an algorithm draws for
client i must not depend on the number of rows: draws with a leading axis of clients do not (JAX's threefry counts
elements), and those over pairs of clients go through `among_clients`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.sharding import everywhere
from mdfl_jax.types import BEFORE, NEVER, Clients, Links


class Held(NamedTuple):
    """What networks and metrics see of the clients: [N] int32 samples and [N, C] int32 label counts."""

    num_samples: jax.Array
    label_counts: jax.Array


def first(tree: Any, num_clients: int) -> Any:
    """The first N rows of every leaf."""
    return jax.tree.map(lambda x: x[:num_clients], tree)


def held_by(clients: Clients, num_clients: int) -> Held:
    """What the N clients hold."""
    return Held(*first((clients.num_samples, clients.label_counts), num_clients))


def fill(x: jax.Array, rows: int, value: Any, axes: int = 1) -> jax.Array:
    """An array of clients with rows more, in its first axis or two, all of one value."""
    extra = [(0, rows - x.shape[0])] * axes + [(0, 0)] * (x.ndim - axes)
    return jnp.pad(x, extra, constant_values=value)


def pad_links(links: Links, rows: int) -> Links:
    """The links of N clients and of those that fill up the rows: alone, with themselves for their only weight."""
    num_clients = links.adjacency.shape[0]
    if rows == num_clients:
        return links
    others = jnp.arange(rows) >= num_clients
    mix = fill(links.mix, rows, 0, axes=2) + jnp.diag(others.astype(links.mix.dtype))
    optional = lambda x, value: None if x is None else fill(x, rows, value)  # noqa: E731
    partner = optional(links.partner, 0)
    return Links(
        adjacency=fill(links.adjacency, rows, False, axes=2),
        mix=mix,
        at_server=optional(links.at_server, False),
        last_server=optional(links.last_server, BEFORE),
        next_server=optional(links.next_server, NEVER),
        partner=None if partner is None else jnp.where(others, jnp.arange(rows, dtype=partner.dtype), partner),
        real=num_clients,
    )


def among_clients(draw: Callable[[jax.Array], jax.Array], links: Links) -> jax.Array:
    """What is drawn for the pairs of a graph, ``draw(adjacency [N, N])`` -> [N, N] bool, with the other rows False."""
    num_clients, rows = links.num_clients, links.adjacency.shape[0]
    return fill(everywhere(draw, links.adjacency[:num_clients, :num_clients]), rows, False, axes=2)
