"""Random waypoint: a client moves straight to a uniform place at a uniform speed, pauses, and starts again."""

import jax
import jax.numpy as jnp

from mdfl_jax.core.numbers import number
from mdfl_jax.mobility.plane import PauseNumbers, PlaneClient, PlaneWorld, between, plane_mobility
from mdfl_jax.mobility.registry import MOBILITIES
from mdfl_jax.mobility.rule import Mobility


def mean_distance(size: jax.Array) -> jax.Array:
    """Compute the mean distance of two uniform places in a rectangle [0, w] x [0, h] (Ghosh 1951).

    Args:
      size: [2] width w and height h.

    Returns:
      [] the mean distance, in the unit of ``size``.

    >>> round(float(mean_distance(jnp.array([1.0, 1.0]))), 5)
    0.52141
    """
    a, b = size
    d = jnp.hypot(a, b)
    ends = a**3 / b**2 + b**3 / a**2 + d * (3 - a**2 / b**2 - b**2 / a**2)
    return (ends + 2.5 * (b**2 / a * jnp.log((a + d) / b) + a**2 / b * jnp.log((b + d) / a))) / 15


def _towards(client: PlaneClient, target: jax.Array, speed: jax.Array) -> PlaneClient:
    way = target - client.position
    time = jnp.sqrt(jnp.sum(way * way)) / speed
    return client._replace(velocity=jnp.where(time > 0, way / jnp.where(time > 0, time, 1), 0), time_left=time)


def waypoint_turn(key: jax.Array, client: PlaneClient, world: PlaneWorld, plan: None = None) -> PlaneClient:
    """Give a client its next leg: a pause after each movement, if there are pauses, and else the next waypoint.

    Args:
      key: typed key of this call.
      client: the client. Its ``memory`` is a bool, true while it moves and false while it pauses.
      world: the plane.
      plan: not used.

    Returns:
      The client with its next leg.
    """
    del plan
    numbers = world.numbers
    key_target, key_speed, key_pause = jax.random.split(key, 3)
    target = jax.random.uniform(key_target, (2,)) * world.size
    goes = _towards(client, target, between(key_speed, numbers.speed_min, numbers.speed_max))
    goes = goes._replace(memory=jnp.bool_(True))
    pause = between(key_pause, numbers.pause_min, numbers.pause_max)
    stays = client._replace(velocity=jnp.zeros(2), time_left=pause, memory=jnp.bool_(False))
    return jax.tree.map(lambda a, b: jnp.where(client.memory & (numbers.pause_max > 0), a, b), stays, goes)


def _long_way(key: jax.Array, size: jax.Array) -> jax.Array:
    """Draw two places with a density proportional to their distance, by rejection: [2, 2]."""

    def draw(state: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        trial = state[0] + 1
        key_places, key_accept = jax.random.split(jax.random.fold_in(key, trial))
        places = jax.random.uniform(key_places, (2, 2)) * size
        distance = jnp.hypot(*(places[1] - places[0]))
        return trial, places, distance >= jax.random.uniform(key_accept) * jnp.hypot(*size)

    start = (jnp.int32(0), jnp.zeros((2, 2)), jnp.bool_(False))
    return jax.lax.while_loop(lambda state: ~state[2], draw, start)[1]


def waypoint_start(key: jax.Array, client: PlaneClient, world: PlaneWorld, plan: None = None) -> PlaneClient:
    """Draw a client's state before the first round, from the stationary law where ``steady_start`` is set.

    The stationary law (Navidi and Camp): a client pauses with probability E[pause] / (E[pause] + E[distance] E[1 / v]).
    A moving client's leg has a density proportional to its length. Its place is uniform on the leg, and its speed v has
    a density proportional to 1 / v. A pausing client's place is uniform. Its current pause has a density proportional
    to the pause's length, and the time left is uniform in it.

    Args:
      key: typed key of this client.
      client: the client at its uniform first place. A client that does not move is returned there, and so is every
        client if ``steady_start`` is not set.
      world: the plane.
      plan: not used.

    Returns:
      The client before the first round.
    """
    del plan
    numbers = world.numbers
    key_moves, key_way, key_on, key_speed, key_pause, key_left = jax.random.split(key, 6)
    low, high = numbers.speed_min, numbers.speed_max
    span = jnp.where(high > low, high - low, 1.0)
    per_speed = jnp.where(high > low, jnp.log(high / low) / span, 1 / low)
    travel, pause = mean_distance(world.size) * per_speed, (numbers.pause_min + numbers.pause_max) / 2
    moves = jax.random.uniform(key_moves) * (travel + pause) < travel

    begin, end = _long_way(key_way, world.size)
    place = begin + jax.random.uniform(key_on) * (end - begin)
    speed = low * (high / low) ** jax.random.uniform(key_speed)
    moving = _towards(client._replace(position=place), end, speed)
    # A uniform square gives the current pause a density proportional to its length.
    square = between(key_pause, numbers.pause_min**2, numbers.pause_max**2)
    left = jnp.sqrt(square) * jax.random.uniform(key_left)
    pausing = client._replace(time_left=left)
    steady = jax.tree.map(lambda a, b: jnp.where(moves, a, b), moving, pausing)
    steady = jax.tree.map(lambda a, b: jnp.where(numbers.steady_start, a, b), steady, client)
    start = jax.tree.map(lambda a, b: jnp.where(world.is_mobile[client.id], a, b), steady, client)
    return start._replace(memory=moves & numbers.steady_start)


class WaypointNumbers(PauseNumbers):
    """The numbers of random waypoint."""

    steady_start: bool = number(True, "start in the stationary distribution")


@MOBILITIES.register(
    "random_waypoint",
    WaypointNumbers,
    formula="destination ~ U(plane), speed ~ U(speed_min, speed_max), pause ~ U(pause_min, pause_max)",
    cite="johnson1996; navidi2004: its steady state",
)
def random_waypoint() -> Mobility:
    """Random waypoint: a client moves straight to a uniform place, pauses there, and moves to the next one.

    The movement starts in its steady state where ``steady_start`` is set. Else clients start at uniform places, each
    with a new waypoint. The stationary places are concentrated in the middle.
    """

    def target(client: PlaneClient, world: PlaneWorld) -> jax.Array:
        return jnp.where(client.memory, client.position + client.velocity * client.time_left, jnp.nan)

    return plane_mobility(waypoint_turn, waypoint_start, target=target)
