"""The links of a contact list, round by round."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.mobility.trace import check_at_end
from mdfl_jax.traces.trace import ContactTable


class ContactList(NamedTuple):
    """A `ContactTable` as an argument of the compiled program.

    Attributes:
      edges: [n + most, 2] int32, the receiver and the sender of each link. The end is padded, so that the slice of any
        round stays inside.
      offsets: [R + 1] int32; the links of round k are ``edges[offsets[k]:offsets[k + 1]]``.
      slots: [most] int32, the numbers 0 to most - 1, where ``most`` is the number of links of the fullest round.
      repeats: [] bool. If true, the list begins again after its last round; else the last round's links stay.
    """

    edges: Any
    offsets: Any
    slots: Any
    repeats: Any


def contact_list(table: ContactTable, at_end: str = "hold") -> ContactList:
    """Make the data of the mobility rule ``contacts``, as NumPy arrays.

    Args:
      table: the links of each round, from `mdfl_jax.traces.contact_table`.
      at_end: what follows the last round of the table. With ``hold`` its links stay; with ``repeat`` the list begins
        again.

    Returns:
      The contact list, for `SpatialParams.trace`.

    Raises:
      UserError: if ``at_end`` is unknown, or the table has no rounds.
    """
    check_at_end(at_end)
    if len(table.offsets) < 2:
        raise UserError("the contact list has no rounds")
    most = max(int(np.diff(table.offsets).max()), 1)
    edges = np.concatenate([table.edges, np.zeros((most, 2), np.int32)]).astype(np.int32)
    return ContactList(
        edges, table.offsets.astype(np.int32), np.arange(most, dtype=np.int32), np.bool_(at_end == "repeat")
    )


def pairs_at(links: ContactList, round_index: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Read the links of one round from a contact list.

    Args:
      links: the contact list.
      round_index: [] int32.

    Returns:
      (receivers, senders, whether the pair is a link of this round), all [most].
    """
    edges, offsets, slots = (jnp.asarray(column) for column in links[:3])
    rounds = offsets.shape[0] - 1
    k = jnp.where(links.repeats, jnp.mod(round_index, rounds), jnp.minimum(round_index, rounds - 1))
    pair = edges[offsets[k] + slots]
    return pair[:, 0], pair[:, 1], slots < offsets[k + 1] - offsets[k]


def links_at(links: ContactList, round_index: jax.Array, num_clients: int) -> jax.Array:
    """Return the links of one round of a contact list, [N, N] bool; [i, j] is true where i hears j. No self loops."""
    receiver, sender, real = pairs_at(links, round_index)
    # The entries of the slice after the round's links get an index out of range, and the scatter drops them.
    receiver = jnp.where(real, receiver, num_clients)
    return jnp.zeros((num_clients, num_clients), bool).at[receiver, sender].set(True, mode="drop")
