"""Squared error, for regressions. The accuracy is the coefficient of determination R^2."""

import jax
import jax.numpy as jnp

from mdfl_jax.data.dataset import Targets
from mdfl_jax.tasks.losses import LOSSES, Loss, LossNumbers


def _losses(numbers: LossNumbers, outputs: jax.Array, targets: jax.Array) -> jax.Array:
    """Compute the squared error of each sample, the mean over its K targets.

    With ``data.normalize`` auto the unit of an error is the standard deviation of the target over the training samples.

    Args:
      numbers: not used.
      outputs: [..., B, K].
      targets: [B, K] float.

    Returns:
      [..., B] float.
    """
    del numbers
    return jnp.mean(_marks(outputs, targets), axis=-1)


def _marks(outputs: jax.Array, targets: jax.Array) -> jax.Array:
    """Compute the squared error of each target: [..., B, K] float."""
    return jnp.square(outputs - targets)


def _accuracy(squares: jax.Array, targets: jax.Array, counted: jax.Array | None) -> jax.Array:
    """Compute max(R^2, 0), where R^2 is the mean over the K targets of 1 - SS_res / SS_tot.

    SS_tot is the sum of the squared distances of the targets from their mean over the counted samples. A target that is
    constant there has R^2 = 1 without errors and 0 otherwise (as in scikit-learn's ``r2_score``). It is constant if its
    largest value is its smallest; rounding may make SS_tot larger than 0 then. Worse predictions than the mean have
    R^2 < 0 without a bound, which is reported as 0, so that one bad model does not decide a mean.

    Args:
      squares: [..., K] sums of the squared errors, SS_res.
      targets: [n, K] the targets of all test samples.
      counted: [n] bool, the samples in these sums; None: all.

    Returns:
      [...] float32 in [0, 1].
    """
    weight = jnp.ones(targets.shape[0]) if counted is None else counted.astype(jnp.float32)
    mean = jnp.sum(weight[:, None] * targets, axis=0) / jnp.maximum(jnp.sum(weight), 1)
    total = jnp.sum(weight[:, None] * jnp.square(targets - mean), axis=0)
    kept = jnp.ones((), bool) if counted is None else counted[:, None]
    high = jnp.max(jnp.where(kept, targets, -jnp.inf), axis=0)
    varies = (high > jnp.min(jnp.where(kept, targets, jnp.inf), axis=0)) & (total > 0)
    usual = 1 - squares / jnp.where(varies, total, 1)
    of_target = jnp.where(varies, usual, jnp.where(squares > 0, 0.0, 1.0))
    return jnp.maximum(jnp.mean(of_target, axis=-1), 0)


LOSSES.register(
    "squared_error",
    doc="Squared error of a regression; its accuracy is max(R^2, 0).",
    formula="mean over the K targets of (o_k - y_k)^2;  R^2 = 1 - sum (o - y)^2 / sum (y - mean(y))^2",
)(Loss(_losses, _marks, _accuracy, (Targets.NUMBERS,), (Targets.NUMBERS,), accuracy_is="max(R^2, 0)"))
