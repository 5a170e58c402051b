"""The clients of a contact list. The list says who meets whom, but not where.

On maps these clients are drawn on the unit circle.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.mobility.registry import MOBILITIES
from mdfl_jax.mobility.rule import Mobility


class ListWorld(NamedTuple):
    """The world of clients whose contacts are given by a list.

    Attributes:
      start: [N, 2] places of the clients on the unit circle.
      is_mobile: [N] bool, all false.
    """

    start: jax.Array
    is_mobile: jax.Array


def on_circle(num_clients: int) -> ListWorld:
    """Place ``num_clients`` clients at equal distances on the unit circle, counterclockwise from east."""
    angle = 2 * jnp.pi * jnp.arange(num_clients) / num_clients
    return ListWorld(jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1), jnp.zeros(num_clients, bool))


@MOBILITIES.register("contacts")
def contacts() -> Mobility:
    """Nobody moves, and a contact list gives the links of each round.

    The list is `SpatialParams.trace`, a `mdfl_jax.networks.contact_list.ContactList`.
    """
    return Mobility(
        init=lambda key, world: None,
        step=lambda key, world, state: state,
        position=lambda world, state: world.start,
        world="contacts",
    )
