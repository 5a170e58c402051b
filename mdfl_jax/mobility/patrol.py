"""Patrol: rounds of a given loop of waypoints, as buses, guards and ferries make.

The message ferries of Zhao, Ammar and Zegura, "A message ferrying approach for data delivery in sparse mobile ad hoc
networks", ACM MobiHoc 2004, run such loops.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.mobility.grid import sample_index
from mdfl_jax.mobility.plane import PlaneClient, PlaneWorld, between, plane_mobility
from mdfl_jax.mobility.registry import MOBILITIES
from mdfl_jax.mobility.rule import Mobility


class Patrolling(NamedTuple):
    """Which waypoint is next, and the client's speed."""

    next: jax.Array
    speed: jax.Array


@MOBILITIES.register("patrol")
def patrol() -> Mobility:
    """Round the waypoints ``loop`` in their order, and from the last one to the first, at a constant speed.

    A client's speed is U(speed_min, speed_max), its start uniform along the loop; clients that do not move stand where
    they would start.
    """

    def start(key: jax.Array, client: PlaneClient, world: PlaneWorld, plan: None) -> PlaneClient:
        del plan
        loop = world.motion.loop
        key_side, key_along, key_speed = jax.random.split(key, 3)
        sides = jnp.roll(loop, -1, axis=0) - loop
        length = jnp.sqrt(jnp.sum(sides * sides, axis=1))
        side, along = sample_index(key_side, length), jax.random.uniform(key_along)
        speed = between(key_speed, world.motion.speed_min, world.motion.speed_max)
        return client._replace(
            position=loop[side] + along * sides[side],
            velocity=speed * sides[side] / length[side],
            time_left=(1 - along) * length[side] / speed,
            memory=Patrolling((side + 1) % loop.shape[0], speed),
        )

    def turn(key: jax.Array, client: PlaneClient, world: PlaneWorld, plan: None) -> PlaneClient:
        del key, plan
        loop, here = world.motion.loop, client.memory.next
        after = (here + 1) % loop.shape[0]
        way = loop[after] - loop[here]
        length = jnp.sqrt(jnp.sum(way * way))
        return client._replace(
            position=loop[here],  # legs end at waypoints, up to rounding
            velocity=client.memory.speed * way / jnp.where(length > 0, length, 1),
            time_left=length / client.memory.speed,
            memory=Patrolling(after, client.memory.speed),
        )

    return plane_mobility(turn, start)
