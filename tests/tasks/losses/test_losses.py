"""Losses and their accuracies: against loops in NumPy, against scikit-learn, and the targets that they take."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.metrics import hamming_loss, log_loss, r2_score

from mdfl_jax.tasks.losses import (
    LOSSES,
    LossNumbers,
)

M, B, T, C = 3, 11, 4, 5
CROSS_ENTROPY, BINARY_CROSS_ENTROPY = LOSSES["cross_entropy"], LOSSES["binary_cross_entropy"]
SQUARED_ERROR = LOSSES["squared_error"]
RNG = np.random.default_rng(0)


def scored(loss, outputs, targets, counted=None):
    """The accuracy of each model as the task computes it, from sums over two chunks."""
    keep = np.ones(len(targets), bool) if counted is None else counted

    def sums(part):
        kept = keep[part]
        return jax.tree.map(
            lambda mark: jnp.sum(jnp.where(kept.reshape(-1, *[1] * (mark.ndim - 2)), mark, 0), axis=1),
            loss.marks(jnp.asarray(outputs[:, part]), jnp.asarray(targets[part])),
        )

    added = jax.tree.map(jnp.add, sums(slice(0, 4)), sums(slice(4, None)))
    return loss.accuracy(added, jnp.asarray(targets), None if counted is None else jnp.asarray(counted))


def of_samples(loss, outputs, targets):
    return np.asarray(loss.losses(LossNumbers(), jnp.asarray(outputs, jnp.float32), jnp.asarray(targets)))


def log_softmax(x):
    return x - np.log(np.exp(x - x.max()).sum()) - x.max()


def test_binary_cross_entropy_against_scikit_learn():
    outputs, flags = RNG.normal(size=(M, B, C)).astype(np.float32), RNG.integers(0, 2, (B, C)).astype(bool)
    probability = 1 / (1 + np.exp(-outputs.astype(np.float64)))
    found = of_samples(BINARY_CROSS_ENTROPY, outputs, flags)
    for m in range(M):
        for b in range(B):
            expected = log_loss(flags[b], probability[m, b], labels=[False, True])
            assert found[m, b] == pytest.approx(expected, rel=1e-5)
    expected = [1 - hamming_loss(flags, outputs[m] > 0) for m in range(M)]
    np.testing.assert_allclose(scored(BINARY_CROSS_ENTROPY, outputs, flags), expected, rtol=1e-6)
    half = np.arange(B) < 5
    expected = [1 - hamming_loss(flags[half], outputs[m, half] > 0) for m in range(M)]
    np.testing.assert_allclose(scored(BINARY_CROSS_ENTROPY, outputs, flags, half), expected, rtol=1e-6)


def test_r2_of_constant_targets_is_that_of_scikit_learn():
    targets = np.stack([np.full(B, 0.3), RNG.normal(size=B)], axis=1).astype(np.float32)  # 0.3 has rounded sums
    good = targets + np.stack([np.zeros(B), 0.3 * RNG.normal(size=B)], axis=1).astype(np.float32)
    outputs = np.stack([good, good + np.float32([1, 0])])
    of_other = r2_score(targets[:, 1], good[:, 1])
    assert of_other > 0.5
    np.testing.assert_allclose(scored(SQUARED_ERROR, outputs, targets), [(1 + of_other) / 2, of_other / 2], rtol=1e-5)
    targets, counted = np.stack([np.full(B, 0.3), np.arange(B)], axis=1).astype(np.float32), np.arange(B) < 8
    targets[~counted, 0] = 5  # constant in the counted samples only
    outputs = np.stack([targets, targets + np.float32([1, 0])])
    assert scored(SQUARED_ERROR, outputs, targets, counted).tolist() == [1, 0.5]


def test_cross_entropy_of_labels_and_positions_against_loops():
    outputs, labels = RNG.normal(size=(M, B, T, C)).astype(np.float32), RNG.integers(-1, C, (B, T))
    labels[0] = -1  # a sequence without labels
    expected, right = np.zeros((M, B)), np.zeros((M, B))
    for m in range(M):
        for b in range(1, B):
            there = [t for t in range(T) if labels[b, t] >= 0]
            expected[m, b] = np.mean([-log_softmax(outputs[m, b, t])[labels[b, t]] for t in there]) if there else 0
            right[m, b] = sum(outputs[m, b, t].argmax() == labels[b, t] for t in there)
    np.testing.assert_allclose(of_samples(CROSS_ENTROPY, outputs, labels), expected, rtol=1e-5, atol=1e-6)
    for counted in (None, np.arange(B) % 2 == 0):
        kept = slice(None) if counted is None else counted
        wanted = right[:, kept].sum(1) / (labels[kept] >= 0).sum()
        np.testing.assert_allclose(scored(CROSS_ENTROPY, outputs, labels, counted), wanted, rtol=1e-6)
    one, label = outputs[:, :, 0], RNG.integers(0, C, B)
    expected = [[-log_softmax(one[m, b])[label[b]] for b in range(B)] for m in range(M)]
    np.testing.assert_allclose(of_samples(CROSS_ENTROPY, one, label), expected, rtol=1e-5)
    np.testing.assert_allclose(scored(CROSS_ENTROPY, one, label), (one.argmax(2) == label).mean(1))
