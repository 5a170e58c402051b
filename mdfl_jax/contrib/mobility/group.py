"""Reference-point group mobility: clients stay near the moving reference point of their group."""

import jax
import jax.numpy as jnp

from mdfl_jax.core.numbers import number
from mdfl_jax.core.rng import per_client
from mdfl_jax.mobility.plane import MAX_EVENTS, PlaneClient, PlaneWorld, at_rest, plane_mobility, travel, unit
from mdfl_jax.mobility.registry import MOBILITIES
from mdfl_jax.mobility.rule import Mobility
from mdfl_jax.mobility.rules.random_waypoint import WaypointNumbers, waypoint_start, waypoint_turn


def _near(key: jax.Array, centre: jax.Array, world: PlaneWorld) -> jax.Array:
    """Draw a place uniformly in the disc of a group around its centre. A place outside is moved to the wall."""
    key_angle, key_distance = jax.random.split(key)
    distance = world.numbers.group_radius * jnp.sqrt(jax.random.uniform(key_distance))
    return jnp.clip(centre + distance * unit(jax.random.uniform(key_angle, maxval=2 * jnp.pi)), 0, world.size)


class GroupNumbers(WaypointNumbers):
    """The numbers of group mobility. Speeds and pauses are those of the reference points."""

    groups: int = number(4, "how many groups", at_least=1)
    group_radius: float = number(50.0, "largest distance of a member from its reference point", at_least=0, unit="m")


@MOBILITIES.register(
    "group",
    GroupNumbers,
    formula="place_i(r) ~ U(disc of group_radius around the reference point of group i mod groups at r)",
    cite="hong1999",
)
def group() -> Mobility:
    """Group mobility: reference points move by random waypoint, and members to a new place near theirs each round.

    There are ``groups`` reference points, and client i belongs to group i mod ``groups``. In each round a member draws
    a place in the disc of ``group_radius`` around the place that its reference point has at the end of the round. It
    moves straight to this place and arrives at the end of the round. The member's speed therefore differs from that of
    the reference point by up to 2 group_radius / dt, and is not bounded by speed_max.
    """

    def everywhere(world: PlaneWorld) -> PlaneWorld:
        return world._replace(is_mobile=jnp.ones_like(world.is_mobile))

    def prepare(key: jax.Array, world: PlaneWorld) -> PlaneClient:
        """Make one reference point per client, of which the first ``groups`` are used."""
        num_clients = world.start.shape[0]
        key_place, key_start = jax.random.split(key)
        place = jax.random.uniform(key_place, (num_clients, 2)) * world.size
        begin = lambda k, point: waypoint_start(k, point, everywhere(world))  # noqa: E731
        return jax.vmap(begin)(per_client(key_start, num_clients), at_rest(place))

    def advance(key: jax.Array, world: PlaneWorld, points: PlaneClient) -> PlaneClient:
        motion, moves = world.motion, jnp.ones_like(world.is_mobile)
        turn_point = lambda k, point: waypoint_turn(k, point, world)  # noqa: E731
        return travel(key, points, turn_point, moves, world.size, motion.dt, motion.boundary, MAX_EVENTS)[0]

    def reference(client: PlaneClient, world: PlaneWorld, points: PlaneClient) -> jax.Array:
        return points.position[client.id % world.numbers.groups]

    def start(key: jax.Array, client: PlaneClient, world: PlaneWorld, points: PlaneClient) -> PlaneClient:
        place = _near(key, reference(client, world, points), world)
        return client._replace(position=jnp.where(world.is_mobile[client.id], place, client.position))

    def turn(key: jax.Array, client: PlaneClient, world: PlaneWorld, points: PlaneClient) -> PlaneClient:
        way = _near(key, reference(client, world, points), world) - client.position
        return client._replace(velocity=way / world.motion.dt)

    return plane_mobility(turn, start, prepare, advance, each_round=True)._replace(relays=False)
