"""Softmax cross-entropy, for one label a sample and for a label at each position of a sequence."""

import jax
import jax.numpy as jnp
import optax

from mdfl_jax.data.dataset import Targets
from mdfl_jax.tasks.losses import LOSSES, Loss, LossNumbers


def _losses(numbers: LossNumbers, outputs: jax.Array, targets: jax.Array) -> jax.Array:
    """Compute the cross-entropy of each sample; of a sequence, the mean over its positions that have a label.

    Args:
      numbers: not used.
      outputs: [..., B, C] logits, or [..., B, T, C].
      targets: [B] int labels, or [B, T] with -1 where there is none.

    Returns:
      [..., B] float. It is 0 for a sequence without labels.
    """
    del numbers
    labels = jnp.broadcast_to(targets, outputs.shape[:-1])
    if targets.ndim == 1:
        return optax.softmax_cross_entropy_with_integer_labels(outputs, labels)
    found = optax.softmax_cross_entropy_with_integer_labels(outputs, jnp.maximum(labels, 0))
    there = labels >= 0
    return jnp.sum(jnp.where(there, found, 0.0), axis=-1) / jnp.maximum(jnp.sum(there, axis=-1), 1)


def _marks(outputs: jax.Array, targets: jax.Array) -> jax.Array:
    """Count the labels that the largest output predicts: [..., B], bool for one label a sample, int for a sequence."""
    right = jnp.argmax(outputs, axis=-1) == targets  # a position without a label is never right
    return right if targets.ndim == 1 else jnp.sum(right, axis=-1)


def _accuracy(right: jax.Array, targets: jax.Array, counted: jax.Array | None) -> jax.Array:
    """Compute the share of labels that are predicted right, of all samples or of all positions with a label."""
    if targets.ndim == 1:
        return right / (targets.shape[0] if counted is None else jnp.maximum(jnp.sum(counted), 1))
    there = jnp.sum(targets >= 0, axis=1)
    return right / jnp.maximum(jnp.sum(there if counted is None else jnp.where(counted, there, 0)), 1)


LOSSES.register(
    "cross_entropy",
    doc="Softmax cross-entropy of labels; of a sequence, the mean over its labelled positions.",
    formula="log(sum_k exp(o_k)) - o_y",
)(Loss(_losses, _marks, _accuracy, (Targets.LABELS, Targets.POSITIONS), (Targets.LABELS, Targets.POSITIONS)))
