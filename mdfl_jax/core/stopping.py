"""When a run ends before its last round: by the stop rule (PaME V-B), or because it has diverged.

A run stops when the objective of its mean model no longer changes. A run has diverged when a parameter is not finite or
a norm is too large; it has no result. Each round checks the norm of every client's parameters. A diverged run computes
no more rounds from the next evaluation on (`mdfl_jax.engine.simulation.Simulation.rounds`), so the program of a round
needs no condition.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core.trees import trained

NORM = 1e8  # the default bound; models that learn anything have norms below 1e4
SCALE = 2.0**-40  # applied before squaring, against overflow; a power of two changes no digit


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
    objective is no longer finite. The variance is the sum of the squares divided by three; the paper gives no divisor.

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


class Divergence(NamedTuple):
    """Whether a run has diverged.

    Attributes:
      round: [] int32, the round in which it did, counted from 1; 0 if it has not.
      norm: [] float32, the largest norm of a client's parameters after this round, infinite if a parameter is not
        finite; 0 if it has not diverged.
    """

    round: jax.Array
    norm: jax.Array

    @property
    def is_there(self) -> jax.Array:
        """[] bool, whether the run has diverged."""
        return self.round > 0

    def result(self, value: jax.Array) -> jax.Array:
        """Return a score of a run's models; NaN after divergence, although the models still predict some label."""
        return jnp.where(self.is_there, jnp.nan, value)


def no_divergence() -> Divergence:
    """Return the state before the first round."""
    return Divergence(jnp.int32(0), jnp.float32(0))


def largest_norm(models: Any, counts: jax.Array | None = None) -> jax.Array:
    """Return the largest Euclidean norm of a client's parameters, without batch statistics: [] float32.

    The norm is infinite if a parameter is not finite, or if its square overflows (above 1e31 in float32).

    Args:
      models: [N, ...] the models.
      counts: [N] bool, the clients that are counted; None: all.
    """
    leaves = [leaf.reshape(leaf.shape[0], -1) for leaf in jax.tree.leaves(trained(models))]
    squares = sum(jnp.sum(jnp.square(SCALE * _at_least_single(leaf)), axis=1) for leaf in leaves)
    if counts is not None:
        squares = jnp.where(counts, squares, 0)
    norm = (jnp.sqrt(jnp.max(squares)) / SCALE).astype(jnp.float32)
    return jnp.where(jnp.isnan(norm), jnp.inf, norm)


def _at_least_single(leaf: jax.Array) -> jax.Array:
    return leaf.astype(jnp.promote_types(leaf.dtype, jnp.float32))


def update_divergence(divergence: Divergence, norm: jax.Array, bound: float, rounds: jax.Array) -> Divergence:
    """Update the state after a round. The first divergence is kept.

    Args:
      divergence: the state before this round.
      norm: [] the largest norm after this round.
      bound: the norm above which a run has diverged; a norm that is not finite is above every bound.
      rounds: [] int32, the rounds done, this one included.
    """
    now = ~divergence.is_there & ((norm > bound) | ~jnp.isfinite(norm))
    return Divergence(jnp.where(now, rounds, divergence.round), jnp.where(now, norm, divergence.norm))


def rounds_computed(divergence: Divergence, rounds: jax.Array, eval_every: int) -> jax.Array:
    """Return [] int32, the number of computed rounds: those until the evaluation after the divergence."""
    seen = -(-divergence.round // eval_every) * eval_every
    return jnp.where(divergence.is_there, jnp.minimum(rounds, seen), rounds)
