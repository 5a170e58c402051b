"""The clients of a contact list. The list says who meets whom, but not where.

On maps these clients are drawn on the unit circle.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp


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
