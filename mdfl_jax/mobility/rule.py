"""What every mobility rule is, whichever world it lives in."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

WorldKind = Literal["grid", "plane", "contacts"]


class Path(NamedTuple):
    """How the clients moved in a round, piecewise linear.

    Attributes:
      times: [N, K] in [0, 1] of the round, non-decreasing from 0 to 1.
      points: [N, K, 2] places at those times; two at one time are a jump.
    """

    times: jax.Array
    points: jax.Array


class Presence(NamedTuple):
    """Who takes part; the absent train and meet nobody.

    Attributes:
      now: [N] bool, who is there.
      throughout: [N] bool, who was there when the last round's movement began and when it ended.
    """

    now: jax.Array
    throughout: jax.Array


class Mobility(NamedTuple):
    """A way of moving, as pure functions over all clients.

    Attributes:
      init: (key, world) -> state.
      step: (key, world, state) -> state after one round's movement; ``key`` belongs to that round.
      position: (world, state) -> [N, 2] places.
      world: which world it lives in; rules of one network live in one.
      path: (world, state) -> how the clients moved in the last round; None: straight from place to place.
      presence: (world, state) -> who is there; None: everybody always.
      is_mobile: (world) -> [N] bool, who ever moves; None: the world's.
    """

    init: Callable[[jax.Array, Any], Any]
    step: Callable[[jax.Array, Any, Any], Any]
    position: Callable[[Any, Any], jax.Array]
    world: WorldKind = "grid"
    path: Callable[[Any, Any], Path] | None = None
    presence: Callable[[Any, Any], Presence] | None = None
    is_mobile: Callable[[Any], jax.Array] | None = None


def straight(start: jax.Array, end: jax.Array) -> Path:
    """Paths straight from one set of places to another, [N, 2] each."""
    times = jnp.broadcast_to(jnp.array([0.0, 1.0], start.dtype), (start.shape[0], 2))
    return Path(times, jnp.stack([start, end], axis=1))


def path_length(path: Path) -> jax.Array:
    """[N] lengths of paths; jumps take no time and do not count."""
    steps = jnp.sqrt(jnp.sum(jnp.square(jnp.diff(path.points, axis=1)), axis=-1))
    return jnp.sum(jnp.where(jnp.diff(path.times, axis=1) > 0, steps, 0), axis=1)


def padded(path: Path, num_points: int) -> Path:
    """The same paths with more points, copies of the last one."""
    extra = num_points - path.times.shape[1]
    repeat = lambda x: jnp.concatenate([x, jnp.repeat(x[:, -1:], extra, axis=1)], axis=1)  # noqa: E731
    return Path(repeat(path.times), repeat(path.points))
