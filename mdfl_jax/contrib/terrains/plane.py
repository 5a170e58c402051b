"""The plane for clients that choose: they go straight to the points of a lattice.

The points of the map are the lattice, then the first places of all clients, then their present places. The largest step
is what the fastest client goes in a round. Who is met is seen at the ends of rounds, and not on the way.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core.geometry import within
from mdfl_jax.core.numbers import Setting
from mdfl_jax.core.rng import per_client
from mdfl_jax.mobility.choosing import TERRAINS, StrategyState, Terrain, check_num_clients
from mdfl_jax.mobility.clustering import cluster_centres
from mdfl_jax.mobility.grid import GridClient, GridWorld
from mdfl_jax.mobility.plane import (
    LATTICE_SIDE,
    PlaneClient,
    PlaneWorld,
    SpeedNumbers,
    at_rest,
    between,
    lattice,
    no_path,
    travel,
)
from mdfl_jax.mobility.rule import Path

LARGEST_IN_PLANE = 1024  # clients in the plane; what each sees of the lattice is an array of N + LATTICE_SIDE^2 by N
POINTS = LATTICE_SIDE * LATTICE_SIDE
_EVENTS = 2  # of a round: a client sets out, and rests where it arrives


class PlaneStrategyNumbers(SpeedNumbers):
    """The numbers of a strategy in the plane, besides its own."""

    def check(self, setting: Setting) -> None:
        """Check the speeds, and that there are at most `LARGEST_IN_PLANE` clients."""
        super().check(setting)
        check_num_clients(setting, LARGEST_IN_PLANE, "each client looks at all places and clients")


class Body(NamedTuple):
    """The clients in the plane, and their paths in the last round."""

    clients: PlaneClient
    path: Path


def _begin(world: PlaneWorld) -> Body:
    return Body(at_rest(world.start), no_path(world.start, _EVENTS))


def _chart(world: PlaneWorld, body: Body) -> GridWorld:
    return GridWorld(
        grid=jnp.concatenate([lattice(world.size), world.start, body.clients.position]),
        start=POINTS + jnp.arange(world.start.shape[0], dtype=jnp.int32),
        is_mobile=world.is_mobile,
        label_counts=world.label_counts,
        radius=world.radius,
        max_step=world.numbers.speed_max * world.motion.dt,
        numbers=world.numbers,
    )


def _present(count: int) -> jax.Array:
    return POINTS + count + jnp.arange(count, dtype=jnp.int32)


def _first_in_plane(world: PlaneWorld, chart: GridWorld) -> GridClient:
    nearest = jnp.argmin(jnp.sum(jnp.square(world.start[:, None] - lattice(world.size)), axis=2), axis=1)
    return GridClient(_present(world.start.shape[0]), nearest.astype(jnp.int32), world.label_counts)


def _stand(world: PlaneWorld, memory: StrategyState) -> tuple[GridClient, jax.Array]:
    left = memory.body.clients.time_left
    arrived = ~((left > 0) & jnp.isfinite(left))
    rests = world.is_mobile & arrived & (memory.round > 0)  # at the point of the lattice where it went
    present, clients = _present(world.start.shape[0]), memory.clients
    return clients._replace(location=jnp.where(rests, clients.destination, present)), arrived


def _centres_in_plane(chart: GridWorld, ties: jax.Array, known: jax.Array) -> jax.Array:
    return cluster_centres(ties, chart.grid[:POINTS], chart.grid[chart.start], chart.radius, present=known)


def _around_in_plane(chart: GridWorld, values: jax.Array) -> jax.Array:
    points = chart.grid[:POINTS]
    near = within(points, points, chart.radius).astype(values.dtype)
    return jnp.matmul(near, values, precision="highest")


def _anywhere(key: jax.Array, chart: GridWorld, location: jax.Array) -> jax.Array:
    return jax.random.randint(key, (), 0, POINTS, jnp.int32)


def _keys(key: jax.Array) -> tuple[jax.Array, jax.Array]:
    keys = jax.random.split(key, 3)
    return keys[0], keys[1:]


def _rest(key: jax.Array, client: PlaneClient) -> PlaneClient:
    return client._replace(velocity=jnp.zeros_like(client.velocity), time_left=jnp.full_like(client.time_left, jnp.inf))


def _in_plane(keys: jax.Array, world: PlaneWorld, memory: StrategyState, chosen: jax.Array) -> StrategyState:
    clients, numbers, motion = memory.body.clients, world.numbers, world.motion
    way, count = lattice(world.size)[chosen] - clients.position, world.start.shape[0]
    draw = partial(between, low=numbers.speed_min, high=numbers.speed_max)
    time = jnp.sqrt(jnp.sum(jnp.square(way), axis=1)) / jax.vmap(draw)(per_client(keys[0], count))
    velocity = way / jnp.where(time > 0, time, 1.0)[:, None]
    sets_out = clients._replace(velocity=velocity, time_left=time)
    moved, path = travel(keys[1], sets_out, _rest, world.is_mobile, world.size, motion.dt, motion.boundary, _EVENTS)
    heading = jnp.where(world.is_mobile, chosen, memory.clients.destination)
    shown = memory.clients._replace(location=_present(count), destination=heading)
    return memory._replace(clients=shown, body=Body(moved, path))


TERRAINS.register("plane", doc="A lattice over the plane.")(
    Terrain(
        world="plane",
        numbers=PlaneStrategyNumbers,
        begin=_begin,
        chart=_chart,
        points=lambda chart: POINTS,
        first=_first_in_plane,
        stand=_stand,
        centres=_centres_in_plane,
        around=_around_in_plane,
        anywhere=_anywhere,
        keys=_keys,
        go=_in_plane,
        position=lambda world, memory: memory.body.clients.position,
        path=lambda world, memory: memory.body.path,
        warm_up=lambda world: world.motion.warm_up,
    )
)
