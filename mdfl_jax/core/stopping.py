"""The stop rule: a run stops once the objective of its mean model no longer changes (PaME V-B)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp


class StopState(NamedTuple):
    """The state of the stop rule in a run.

    Attributes:
      recent: [2] objectives of the mean model after the last two rounds that changed it; NaN before these rounds.
      rounds: [] int32 rounds that were computed.
      stopped: [] bool, whether the run has stopped.
    """

    recent: jax.Array
    rounds: jax.Array
    stopped: jax.Array


def initial_stop_state(dtype: jnp.dtype) -> StopState:
    """Return the state of the stop rule before the first round; ``dtype`` is the type of the objective."""
    return StopState(jnp.full(2, jnp.nan, dtype), jnp.int32(0), jnp.bool_(False))


def update_stop_state(
    stop_state: StopState, objective: jax.Array, tolerance: float, moved: jax.Array | bool = True
) -> StopState:
    """Update the state of the stop rule after a round.

    The run stops if the standard deviation of the last three objectives is below the tolerance (PaME V-B), or if the
    objective is no longer finite.

    Args:
      stop_state: the state before this round.
      objective: [] objective of the mean model after this round.
      tolerance: the bound on the standard deviation, positive.
      moved: [] bool, whether this round changed the mean model. A round without a change, in which an algorithm waits,
        is not one of the three rounds and does not stop the run.
    """
    three = jnp.append(stop_state.recent, objective)
    still = jnp.std(three) < tolerance  # False while there are NaNs
    recent = jnp.where(moved, three[1:], stop_state.recent)
    return StopState(recent, stop_state.rounds + 1, moved & (still | ~jnp.isfinite(objective)))
