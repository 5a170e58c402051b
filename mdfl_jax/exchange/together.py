"""What an algorithm does with all clients together, and may be done by several devices: draws, choices, steps.

Algorithms take these from here and know nothing of a mesh. On one device each is the plain operation; over a mesh each
keeps the devices in step (`mdfl_jax.sharding`) and leaves the rows that only fill up a device out of every draw
(`mdfl_jax.padding`).
"""

from collections.abc import Callable

import jax

from mdfl_jax import padding, sharding
from mdfl_jax.types import Links


def draw_pairs(draw: Callable[[jax.Array], jax.Array], links: Links) -> jax.Array:
    """A draw over the pairs of clients that hear each other, the same on every device.

    Args:
      draw: (adjacency [N, N] bool) -> [N, N] bool, what is drawn of it.
      links: of the round.

    Returns:
      [rows, rows] bool; False where a row or a column is no client.
    """
    return padding.among_clients(draw, links)


# On a mesh each of them keeps the devices in step; what they take and give is said where they are defined.
select, take_steps, on_each_device = sharding.choose, sharding.repeat, sharding.everywhere
