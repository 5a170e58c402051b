"""Patrol: clients travel round a given loop of waypoints, as buses, guards and ferries do.

Message ferries use such loops in the source.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.geometry import points_of
from mdfl_jax.core.numbers import Setting, number
from mdfl_jax.mobility.grid import sample_index
from mdfl_jax.mobility.plane import PlaneClient, PlaneWorld, SpeedNumbers, between, plane_mobility
from mdfl_jax.mobility.registry import MOBILITIES
from mdfl_jax.mobility.rule import Mobility


class Patrolling(NamedTuple):
    """The memory of a patrolling client: the index of its next waypoint, and its speed in metres per second."""

    next: jax.Array
    speed: jax.Array


def _loop(text: str) -> np.ndarray:
    return np.array(points_of("motion.loop", text), np.float32)


class PatrolNumbers(SpeedNumbers):
    """The numbers of patrols."""

    loop: str = number("50,50; 450,50; 450,450; 50,450", "waypoints 'x,y; x,y; ...'", unit="m", read=_loop)

    def check(self, setting: Setting) -> None:
        """Check that the loop has at least two different waypoints, all of them inside the rectangle.

        Raises:
          UserError: for a loop that has fewer, or a waypoint outside.
        """
        super().check(setting)
        waypoints = points_of("motion.loop", self.loop)
        if len(set(waypoints)) < 2:
            raise UserError(
                f"motion.loop is {self.loop!r}; it must hold two different waypoints or more, 'x,y; x,y; ...'"
            )
        for x, y in waypoints:
            if not (0 <= x <= setting.width and 0 <= y <= setting.height):  # this form also refuses NaN
                raise UserError(
                    f"motion.loop: the waypoint {x:g},{y:g} is outside of the {setting.width:g} x "
                    f"{setting.height:g} metres"
                )


@MOBILITIES.register(
    "patrol", PatrolNumbers, formula="destination after waypoint k of K: waypoint k + 1 mod K", cite="zhao2004"
)
def patrol() -> Mobility:
    """Patrol: each client visits the waypoints ``loop`` in their order, again and again, at its own constant speed.

    After the last waypoint the first one follows. A client's speed is U(speed_min, speed_max), and its start is uniform
    along the loop. Clients that do not move also stand at such a start.
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
            position=loop[here],  # corrects rounding: legs end at waypoints
            velocity=client.memory.speed * way / jnp.where(length > 0, length, 1),
            time_left=length / client.memory.speed,
            memory=Patrolling(after, client.memory.speed),
        )

    def target(client: PlaneClient, world: PlaneWorld) -> jax.Array:
        return world.numbers.loop[client.memory.next]

    return plane_mobility(turn, start, target=target)
