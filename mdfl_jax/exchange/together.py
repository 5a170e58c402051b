"""Operations of an algorithm on all clients together, which also work on several devices: draws, choices, steps.

Algorithms use these functions and do not need to know whether there is a mesh of devices. On one device each function
is the plain operation. On a mesh it keeps the devices synchronous (`mdfl_jax.core.sharding`) and excludes padding rows,
which are no clients, from every draw (`mdfl_jax.core.client_padding`).
"""

from collections.abc import Callable

import jax

from mdfl_jax.core import client_padding, sharding
from mdfl_jax.core.links import Senders
from mdfl_jax.core.types import Links


def draw_pairs(draw: Callable[[jax.Array, Senders], jax.Array], links: Links) -> jax.Array:
    """Draw some of the links of a round, with the same result on every device.

    Args:
      draw: (adjacency [N, K] bool, senders) -> [N, K] bool, the drawn links.
      links: the links of the round.

    Returns:
      [rows, rows] bool, or [rows, K] over neighbour lists; False where a row or a column is a padding row.
    """
    return client_padding.among_clients(draw, links)


# On a mesh each of them keeps the devices synchronous. `mdfl_jax.core.sharding` documents their arguments and results.
select, take_steps, on_each_device = sharding.choose, sharding.repeat, sharding.everywhere
