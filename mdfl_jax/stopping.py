"""The stop rule: a run holds still once the objective of its mean model does (PaME V-B)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Watch(NamedTuple):
    """What the rule remembers of a run.

    Attributes:
      recent: [2] objectives of the mean model after the last two rounds, NaN before there are any.
      rounds: [] int32 rounds done.
      stopped: [] bool.
    """

    recent: jax.Array
    rounds: jax.Array
    stopped: jax.Array


def start_watch(dtype: jnp.dtype) -> Watch:
    """Before the first round; ``dtype`` is the objective's."""
    return Watch(jnp.full(2, jnp.nan, dtype), jnp.int32(0), jnp.bool_(False))


def look(watch: Watch, objective: jax.Array, tolerance: float, moved: jax.Array | bool = True) -> Watch:
    """One round later.

    The run has stopped where the standard deviation of the last three objectives is below the tolerance (PaME V-B), or
    the objective is no longer finite.

    Args:
      watch: before this round.
      objective: [] of the mean model after it.
      tolerance: positive.
      moved: [] bool, whether the model has changed: a round in which an algorithm waits is none of the three.
    """
    three = jnp.append(watch.recent, objective)
    still = jnp.std(three) < tolerance  # false while there are NaNs
    recent = jnp.where(moved, three[1:], watch.recent)
    return Watch(recent, watch.rounds + 1, moved & (still | ~jnp.isfinite(objective)))
