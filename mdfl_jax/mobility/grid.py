"""The grid world of MADFL and DADFL, and how a rule written for one client becomes the movement of all.

A rule is a function ``move(key, client, world, plan) -> client`` of ONE client; `grid_mobility` maps it over the mobile
clients and leaves the others where they are. ``plan`` is whatever the rule's ``prepare(key, world)`` made before the
first round (cluster centres, say), the same for all clients.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.geometry import squared_distance, within
from mdfl_jax.mobility.rule import Mobility
from mdfl_jax.rng import per_client


class GridWorld(NamedTuple):
    """What a rule may know of the world. Places are indices into ``grid``, distances in grid units.

    Attributes:
      grid: [L, 2] float32 grid points (p, q), p and q in 1..G, row-major.
      start: [N] int32 first place of each client.
      is_mobile: [N] bool.
      label_counts: [N, C] int32 samples of each label that each client holds.
      radius: communication radius Rc.
      max_step: largest distance moved in a round, Rm; ``inf`` is unconstrained.
      warm_up_met: share of the static clients that a mobile one meets before it moves by what it knows (`met`).
      tell_met: whether mobile clients in range tell each other whom they have met (`met`).
    """

    grid: jax.Array
    start: jax.Array
    is_mobile: jax.Array
    label_counts: jax.Array
    radius: jax.Array
    max_step: jax.Array
    warm_up_met: jax.Array | float = 0.5
    tell_met: jax.Array | bool = False


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


def nearest_within(world: GridWorld, location: jax.Array, destination: jax.Array) -> jax.Array:
    """The reachable grid point nearest to the destination (MADFL eq. 12); of several, the first in row-major order."""
    distance = squared_distance(world.grid[destination][None], world.grid)[0]
    return jnp.argmin(jnp.where(reachable(world, location), distance, jnp.inf)).astype(jnp.int32)


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


def only_mobile(world: GridWorld, before: GridClient, moved: GridClient) -> GridClient:
    """All clients after a round: the mobile ones moved, the others as they were."""
    stay_or_move = lambda old, new: jnp.where(world.is_mobile.reshape(-1, *[1] * (old.ndim - 1)), new, old)  # noqa: E731
    return jax.tree.map(stay_or_move, before, moved)


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
        moved = jax.vmap(lambda k, client: move(k, client, world, plan))(keys, clients)
        return only_mobile(world, clients, moved), plan

    def position(world: GridWorld, state: tuple[GridClient, Any]) -> jax.Array:
        return world.grid[state[0].location]

    return Mobility(init, step, position, world="grid")
