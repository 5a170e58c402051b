"""The grid world of MADFL and DADFL, and how a rule written for one client becomes the movement of all.

A rule is a function ``move(key, client, world, plan) -> client`` of ONE client; `grid_mobility` maps it over the mobile
clients and leaves the others where they are. ``plan`` is whatever the rule's ``prepare(key, world)`` made before the
first round (cluster centres, say), the same for all clients.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.geometry import squared_reach, within
from mdfl_jax.mobility.rule import Mobility
from mdfl_jax.rng import per_client
from mdfl_jax.rows import where_rows
from mdfl_jax.target import backend

LARGEST_AT_ONCE = 2**18  # clients times grid points that a CPU looks at together


class GridWorld(NamedTuple):
    """What a rule may know of the world. Places are indices into ``grid``, distances in grid units.

    Attributes:
      grid: [L, 2] float32 grid points (p, q), p and q in 1..G, row-major.
      start: [N] int32 first place of each client.
      is_mobile: [N] bool.
      label_counts: [N, C] int32 samples of each label that each client holds.
      radius: communication radius Rc.
      max_step: largest distance moved in a round, Rm; ``inf`` is unconstrained.
      numbers: those of the rule that looks, typed; of the class that it is registered with.
    """

    grid: jax.Array
    start: jax.Array
    is_mobile: jax.Array
    label_counts: jax.Array
    radius: jax.Array
    max_step: jax.Array
    numbers: Any = None


class GridClient(NamedTuple):
    """One client, as its rule sees it; stacked over clients every field gains a leading N.

    Attributes:
      location: int32 index of its place.
      destination: int32 index of the place it is heading for; equal to the location when it has none.
      label_counts: [C] int32 its own label counts.
    """

    location: jax.Array
    destination: jax.Array
    label_counts: jax.Array


def grid_points(size: int) -> jax.Array:
    """The G x G grid points (p, q), p and q in 1..G, row-major: [G * G, 2] float32."""
    index = jnp.arange(size * size)
    return jnp.stack([index // size + 1, index % size + 1], axis=1).astype(jnp.float32)


def reachable(world: GridWorld, location: jax.Array) -> jax.Array:
    """[L] bool, the grid points within ``max_step`` of a place, the place included."""
    return within(world.grid[location][None], world.grid, world.max_step)[0]


class Rows(NamedTuple):
    """The grid points within ``max_step`` of a place, row by row: what a search over them costs is G, not G * G.

    Attributes:
      first: [G] float32 first column (from 0) of each row's reachable points.
      last: [G] float32 last one; less than ``first`` where a row has none.
    """

    first: jax.Array
    last: jax.Array


def grid_size(world: GridWorld) -> int:
    """G."""
    return math.isqrt(world.grid.shape[0])


def reachable_rows(world: GridWorld, location: jax.Array) -> Rows:
    """The points of `reachable`, as the columns from ``first`` to ``last`` of each row."""
    size = grid_size(world)
    row, column = (location // size).astype(jnp.float32), (location % size).astype(jnp.float32)
    squared = jnp.square(jnp.arange(size, dtype=jnp.float32) - row)
    limit = squared_reach(world.max_step, squared.dtype)
    # The widest whole number whose square fits; the root may be off by one, whole numbers and their squares are not.
    width = jnp.minimum(jnp.floor(jnp.sqrt(jnp.maximum(limit - squared, 0.0))), float(size))
    width = jnp.where(jnp.square(width + 1) + squared <= limit, width + 1, width)
    width = jnp.where(jnp.square(width) + squared > limit, width - 1, width)  # -1: the row is out of reach
    return Rows(jnp.maximum(column - width, 0.0), jnp.minimum(column + width, size - 1.0))


def nearest_within(world: GridWorld, location: jax.Array, destination: jax.Array) -> jax.Array:
    """The reachable grid point nearest to the destination (MADFL eq. 12); of several, the first in row-major order."""
    size = grid_size(world)
    rows = reachable_rows(world, location)
    target_row, target_column = (destination // size).astype(jnp.float32), (destination % size).astype(jnp.float32)
    column = jnp.clip(target_column, rows.first, rows.last)  # of a row, the nearest is the only one
    distance = jnp.square(jnp.arange(size, dtype=jnp.float32) - target_row) + jnp.square(column - target_column)
    row = jnp.argmin(jnp.where(rows.first <= rows.last, distance, jnp.inf))
    return (row * size + column[row].astype(jnp.int32)).astype(jnp.int32)


def uniform_within(key: jax.Array, world: GridWorld, location: jax.Array) -> jax.Array:
    """A reachable grid point, each equally likely; drawn as `sample_index` would over `reachable`."""
    rows = reachable_rows(world, location)
    running = jnp.cumsum(jnp.maximum(rows.last - rows.first + 1, 0.0))
    drawn = jnp.floor(jax.random.uniform(key, (), running.dtype) * running[-1])
    drawn = jnp.minimum(drawn, running[-1] - 1)  # what rounding leaves at the end
    row = jnp.argmax(running > drawn)
    from_end = running[row] - drawn  # 1 for the last column of the row
    return (row * grid_size(world) + (rows.last[row] + 1 - from_end).astype(jnp.int32)).astype(jnp.int32)


def sample_index(key: jax.Array, weight: jax.Array) -> jax.Array:
    """An index drawn in proportion to ``weight`` [L] >= 0, by inversion: one random number instead of L.

    An entry of weight zero is never drawn: a running sum of floats may grow there by rounding, so such entries are
    passed over, and the last entry of some weight takes what rounding leaves at the end.
    """
    running = jnp.cumsum(weight)
    threshold = jax.random.uniform(key, (), weight.dtype) * running[-1]
    last = weight.shape[0] - 1 - jnp.argmax((weight > 0)[::-1])
    beyond = (running > threshold) & (weight > 0)
    return jnp.where(jnp.any(beyond), jnp.argmax(beyond), last).astype(jnp.int32)


def _over_clients(
    move: Callable[..., GridClient], world: GridWorld, keys: jax.Array, clients: GridClient
) -> GridClient:
    """All clients together, or one after the other where together they would look at too many grid points.

    One by one, a client that is under way skips its ``cond``'s draw, and memory does not grow with N * G * G.
    """
    if backend() == "cpu" and world.start.shape[0] * world.grid.shape[0] > LARGEST_AT_ONCE:
        return jax.lax.map(lambda args: move(*args), (keys, clients))
    return jax.vmap(move)(keys, clients)


def only_mobile(world: GridWorld, before: GridClient, moved: GridClient) -> GridClient:
    """All clients after a round: the mobile ones moved, the others as they were."""
    return where_rows(world.is_mobile, moved, before)


def grid_mobility(
    move: Callable[[jax.Array, GridClient, GridWorld, Any], GridClient],
    prepare: Callable[[jax.Array, GridWorld], Any] = lambda key, world: None,
) -> Mobility:
    """The movement of all clients from the rule of one.

    Args:
      move: (key, client, world, plan) -> client, for ONE client; only mobile clients are moved.
      prepare: (key, world) -> plan, made once before the first round.
    """

    def init(key: jax.Array, world: GridWorld) -> tuple[GridClient, Any]:
        start = GridClient(location=world.start, destination=world.start, label_counts=world.label_counts)
        return start, prepare(key, world)

    def step(key: jax.Array, world: GridWorld, state: tuple[GridClient, Any]) -> tuple[GridClient, Any]:
        clients, plan = state
        keys = per_client(key, world.start.shape[0])
        moved = _over_clients(lambda k, client: move(k, client, world, plan), world, keys, clients)
        return only_mobile(world, clients, moved), plan

    def position(world: GridWorld, state: tuple[GridClient, Any]) -> jax.Array:
        return world.grid[state[0].location]

    return Mobility(init, step, position, world="grid")
