"""Time a random-walk round with exact swept contact: python -m benchmarks.throughput --suite=swept"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import measure
from mdfl_jax.mobility import Motion
from mdfl_jax.mobility.plane import REFLECT, PlaneClient, travel
from mdfl_jax.mobility.rules.random_walk import MAX_BOUNCES
from mdfl_jax.networks.contact import standing_paths, swept, swept_neighbours
from mdfl_jax.networks.mixing import SpeedAwareNumbers
from mdfl_jax.networks.spatial import SpatialParams, spatial

RADIUS, MAX_DEGREE = 45.0, 64


class Held(NamedTuple):
    """The fields of the clients that a network reads; here each client has four samples.

    Attributes:
      num_samples: [N] int32.
      label_counts: [N, C] int32.
    """

    num_samples: np.ndarray
    label_counts: np.ndarray


def bounce(
    position: jax.Array, velocity: jax.Array, size: jax.Array, max_bounces: int = MAX_BOUNCES
) -> tuple[jax.Array, jax.Array]:
    """Move clients straight in [0, w] x [0, h] for one unit of time, with bouncing (thesis eqs. 1 and 2).

    Args:
      position: [N, 2] places inside the rectangle, in metres.
      velocity: [N, 2] metres per unit of time.
      size: [2] width and height.
      max_bounces: how many walls a client may meet. After that many walls its path goes straight to the true end.

    Returns:
      The times and the points of the paths, as of `mdfl_jax.mobility.plane.travel`.
    """
    num_clients = position.shape[0]
    clients = PlaneClient(
        id=jnp.arange(num_clients, dtype=jnp.int32),
        position=position,
        velocity=velocity,
        time_left=jnp.full(num_clients, jnp.inf),
        facing=jnp.ones_like(position),
        memory=None,
    )
    everyone = jnp.ones(num_clients, bool)
    never = lambda key, client: client  # noqa: E731  # the only leg never ends
    _, path = travel(jax.random.key(0), clients, never, everyone, size, 1.0, REFLECT, max_bounces + 1)
    return path.times, path.points


def swept_suite() -> list[dict[str, Any]]:
    """Time movement, contact and mixing with the speeds and the radius of the thesis.

    1,000 clients move in the thesis's square and in a square with the thesis's density; 10,000 use neighbour lists.
    """
    rows = []
    for width in (500.0, 2282.0):
        held = Held(np.full(1000, 4, np.int32), np.full((1000, 2), 2, np.int32))
        net = spatial(1000, mobility=("random_walk",), mixing="speed_aware", contact="swept")
        motion, ratio = Motion(width=width, height=width), SpeedAwareNumbers(ratio=0.4)
        params, key = SpatialParams(400, RADIUS, motion=motion, mixing=ratio), jax.random.key(0)
        step = jax.jit(net.step)
        state = step(params, key, jnp.int32(0), jax.jit(net.init)(params, key, held), held)[0]
        calls: dict[str, Callable[[], Any]] = {
            "movement, contact, speed-aware mixing": partial(step, params, key, jnp.int32(1), state, held),
            "contact alone": partial(jax.jit(swept), *state.path, RADIUS),
        }
        for name, seconds in measure.interleaved(calls).items():
            variant = f"N = 1000, square of {width:g} m, {name}"
            rows.append({"variant": variant, "seconds_per_round": measure.spread(seconds), "num_clients": 1000})
    return rows + _ten_thousand()


def _ten_thousand() -> list[dict[str, Any]]:
    """Time neighbour lists of 10,000 clients at the thesis's density, and read their temporary memory."""
    num_clients, width = 10_000, 7217.0
    rng = np.random.default_rng(0)
    position = jnp.asarray(rng.uniform(0, width, (num_clients, 2)), jnp.float32)
    fast = np.arange(num_clients) < 4000
    speed = np.where(fast, rng.uniform(87.5, 175, num_clients), rng.uniform(0, 50, num_clients))
    direction = np.array([[0, 1], [0, -1], [1, 0], [-1, 0]])[rng.integers(0, 4, num_clients)]
    velocity = jnp.asarray(direction * speed[:, None], jnp.float32)

    def walk(position: jax.Array, velocity: jax.Array) -> Any:
        times, points = bounce(position, velocity, jnp.array([width, width]))
        return points[:, -1], swept_neighbours(times, points, RADIUS, MAX_DEGREE)

    def stand(position: jax.Array) -> Any:
        return swept_neighbours(*standing_paths(position), RADIUS, MAX_DEGREE)

    programs = {
        "movement, swept lists": (measure.compiled(walk, position, velocity)[0], (position, velocity)),
        "disc lists": (measure.compiled(stand, position)[0], (position,)),
    }
    seconds_of = measure.interleaved({name: partial(program, *args) for name, (program, args) in programs.items()})
    rows = []
    for name, seconds in seconds_of.items():
        row: dict[str, Any] = {"variant": f"N = 10000, {name}", "seconds_per_round": measure.spread(seconds)}
        row |= {"num_clients": num_clients}
        row["temporary_mib"] = programs[name][0].memory_analysis().temp_size_in_bytes / 2**20
        rows.append(row)
    most = int(jnp.max(programs["movement, swept lists"][0](position, velocity)[1].degree))
    assert most <= MAX_DEGREE, f"a client has {most} neighbours: the lists are too short"
    return rows
