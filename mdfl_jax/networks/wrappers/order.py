"""The order of a round: clients mix and then move (MADFL algorithm 1), or they move and then mix (DADFL IV)."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.types import Clients, Links, Network
from mdfl_jax.mobility.trace import ListWorld
from mdfl_jax.networks.spatial import SpatialState


def move_first(network: Network) -> Network:
    """Make a network whose clients move before they mix in a round, and not after it (DADFL IV).

    The first movement is part of ``init``, and each round ends with the movement of the next one. So the places of a
    state are those of the links of the coming round, in both orders; nothing that reads them needs to know the order.
    With the same key, the links of round t are those that ``network`` has in round t + 1. The distance of the first
    movement does not count, so that t movements count after t rounds.

    Args:
      network: a network of `mdfl_jax.networks.spatial.spatial`.

    Returns:
      The network; its ``init`` raises a UserError in a world without places.
    """

    def init(params: Any, key: jax.Array, clients: Clients) -> SpatialState:
        start = network.init(params, key, clients)
        if isinstance(start.world, ListWorld):
            raise UserError("network.order is move_first; the clients of a contact list have no places")
        moved = network.step(params, key, jnp.int32(0), start, clients)[0]
        places = moved.places._replace(distance_moved=start.places.distance_moved)
        # Nothing is exchanged before the first round: link filters and neighbour lists begin with it.
        return moved._replace(places=places, filtered=start.filtered, needed=start.needed)

    def step(
        params: Any, key: jax.Array, round_index: jax.Array, state: SpatialState, clients: Clients
    ) -> tuple[SpatialState, Links]:
        return network.step(params, key, round_index + 1, state, clients)

    return network._replace(init=init, step=step)


ORDERS: dict[str, Callable[[Network], Network]] = {"mix_first": lambda network: network, "move_first": move_first}
"""The orders of a round by name: (network that mixes first) -> network."""
