"""Binary cross-entropy, for samples to which several labels may apply (multi-label classification)."""

import jax
import jax.numpy as jnp
import optax

from mdfl_jax.data.dataset import Targets
from mdfl_jax.tasks.losses import LOSSES, Loss, LossNumbers


def _losses(numbers: LossNumbers, outputs: jax.Array, targets: jax.Array) -> jax.Array:
    """Compute the binary cross-entropy of each sample, the mean over its K labels.

    Args:
      numbers: not used.
      outputs: [..., B, K] logits.
      targets: [B, K] bool.

    Returns:
      [..., B] float.
    """
    del numbers
    applies = jnp.broadcast_to(targets, outputs.shape).astype(outputs.dtype)
    return jnp.mean(optax.sigmoid_binary_cross_entropy(outputs, applies), axis=-1)


def _marks(outputs: jax.Array, targets: jax.Array) -> jax.Array:
    """Count the labels of each sample that are predicted right: [..., B] int. A label is predicted by a logit > 0."""
    return jnp.sum((outputs > 0) == targets, axis=-1)


def _accuracy(right: jax.Array, targets: jax.Array, counted: jax.Array | None) -> jax.Array:
    """Compute the share of all labels of all samples that are predicted right (1 - Hamming loss)."""
    samples = targets.shape[0] if counted is None else jnp.maximum(jnp.sum(counted), 1)
    return right / (samples * targets.shape[1])


LOSSES.register(
    "binary_cross_entropy",
    doc="Binary cross-entropy of K labels that may all apply, their mean.",
    formula="mean over the K labels of log(1 + exp(o_k)) - y_k o_k",
)(Loss(_losses, _marks, _accuracy, (Targets.FLAGS,), (Targets.FLAGS,)))
