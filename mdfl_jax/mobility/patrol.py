"""Patrol: rounds of a given loop of waypoints, as buses, guards and ferries make.

The message ferries of Zhao, Ammar and Zegura, "A message ferrying approach for data delivery in sparse mobile ad hoc
networks", ACM MobiHoc 2004, run such loops.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.errors import UserError
from mdfl_jax.geometry import points_of
from mdfl_jax.mobility.grid import sample_index
from mdfl_jax.mobility.plane import PlaneClient, PlaneWorld, SpeedNumbers, between, plane_mobility
from mdfl_jax.mobility.registry import MOBILITIES
from mdfl_jax.mobility.rule import Mobility
from mdfl_jax.numbers import Setting, number


class Patrolling(NamedTuple):
    """Which waypoint is next, and the client's speed."""

    next: jax.Array
    speed: jax.Array


def _loop(text: str) -> np.ndarray:
    return np.array(points_of("motion.loop", text), np.float32)


class PatrolNumbers(SpeedNumbers):
    """Of patrols."""

    loop: str = number("50,50; 450,50; 450,450; 50,450", "waypoints 'x,y; x,y; ...'", unit="m", read=_loop)

    def check(self, setting: Setting) -> None:
        """Two waypoints or more, inside the rectangle."""
        super().check(setting)
        waypoints = points_of("motion.loop", self.loop)
        if len(set(waypoints)) < 2:
            raise UserError(
                f"motion.loop is {self.loop!r}; it must hold two different waypoints or more, 'x,y; x,y; ...'"
            )
        for x, y in waypoints:
            if not (0 <= x <= setting.width and 0 <= y <= setting.height):  # NaN is in no interval
                raise UserError(
                    f"motion.loop: the waypoint {x:g},{y:g} is outside of the {setting.width:g} x "
                    f"{setting.height:g} metres"
                )


@MOBILITIES.register("patrol", PatrolNumbers)
def patrol() -> Mobility:
    """Round the waypoints ``loop`` in their order, and from the last one to the first, at a constant speed.

    A client's speed is U(speed_min, speed_max), its start uniform along the loop; clients that do not move stand where
    they would start.
    """

    def start(key: jax.Array, client: PlaneClient, world: PlaneWorld, plan: None) -> PlaneClient:
        del plan
        loop = world.numbers.loop
        key_side, key_along, key_speed = jax.random.split(key, 3)
        sides = jnp.roll(loop, -1, axis=0) - loop
        length = jnp.sqrt(jnp.sum(sides * sides, axis=1))
        side, along = sample_index(key_side, length), jax.random.uniform(key_along)
        speed = between(key_speed, world.numbers.speed_min, world.numbers.speed_max)
        return client._replace(
            position=loop[side] + along * sides[side],
            velocity=speed * sides[side] / length[side],
            time_left=(1 - along) * length[side] / speed,
            memory=Patrolling((side + 1) % loop.shape[0], speed),
        )

    def turn(key: jax.Array, client: PlaneClient, world: PlaneWorld, plan: None) -> PlaneClient:
        del key, plan
        loop, here = world.numbers.loop, client.memory.next
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
