"""The contacts of a round: of clients in space, or from a list; as matrices or as neighbour lists."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core.geometry import squared_distance, squared_reach
from mdfl_jax.core.links import ALL_PAIRS, Senders, as_senders, from_pairs, heard_from, in_use
from mdfl_jax.mobility.rule import Path
from mdfl_jax.networks.contact import closest_on, closest_squared, disc, link_radius, over_links, swept
from mdfl_jax.networks.contact_list import ContactList, links_at, pairs_at
from mdfl_jax.networks.neighbours import swept_neighbours


class Met(NamedTuple):
    """The contacts of a round.

    Attributes:
      senders: the clients for which the K places stand.
      heard: [N, K] bool, [i, j] where i is in contact with the sender at place j.
      squared: [N, K] the squared distances of the two clients, the smallest of a movement; None if nobody needs them.
    """

    senders: Senders
    heard: jax.Array
    squared: jax.Array | None


def dense_contacts(position: jax.Array, path: Path | None, radius: jax.Array, distances: bool) -> Met:
    """Find the contacts of a round as matrices [N, N].

    Args:
      position: [N, 2] places at the beginning of the round.
      path: the movement in which clients meet (`swept`); None: they meet where they are (`disc`).
      radius: [N] communication radii.
      distances: whether squared distances are needed.
    """
    if path is None:
        return Met(ALL_PAIRS, disc(position, radius), squared_distance(position, position) if distances else None)
    if not distances:
        return Met(ALL_PAIRS, swept(*path, radius), None)
    num_clients = position.shape[0]
    nearest = closest_squared(*path)
    near = nearest <= squared_reach(link_radius(radius, ALL_PAIRS, num_clients), nearest.dtype)
    return Met(ALL_PAIRS, near & in_use(ALL_PAIRS, num_clients), nearest)


def listed_contacts(
    position: jax.Array, path: Path | None, radius: jax.Array, distances: bool, max_neighbours: int
) -> Met:
    """Find the contacts of `dense_contacts` as neighbour lists that hold ``max_neighbours`` neighbours of a client."""
    movement = path or Path(jnp.zeros((position.shape[0], 1), position.dtype), position[:, None])
    senders = as_senders(*swept_neighbours(*movement, radius, max_neighbours))
    assert senders.ids is not None
    heard = in_use(senders, position.shape[0])
    if not distances:
        return Met(senders, heard, None)
    unread = jnp.zeros(senders.ids.shape, position.dtype)
    nearest = over_links(lambda a, b, _: closest_on(a, b), jnp.minimum, jnp.inf, movement, senders.ids, unread)
    return Met(senders, heard, nearest)


def contacts_in_list(
    contacts: ContactList, round_index: jax.Array, num_clients: int, distances: bool, max_neighbours: int
) -> Met:
    """Read the contacts of a round from a contact list; its clients have no places, so their distances are zero.

    Args:
      contacts: the contact list.
      round_index: [] int32.
      num_clients: N.
      distances: whether squared distances are needed.
      max_neighbours: the number of neighbours that neighbour lists hold; 0 for matrices [N, N].
    """
    if not max_neighbours:
        heard = links_at(contacts, round_index, num_clients)
        return Met(ALL_PAIRS, heard, jnp.zeros((num_clients, num_clients)) if distances else None)
    receiver, sender, real = pairs_at(contacts, round_index)
    senders = from_pairs(receiver, sender, real, num_clients, max_neighbours + 1)
    heard = heard_from(senders, receiver, sender, real)
    return Met(senders, heard, jnp.zeros(heard.shape) if distances else None)
