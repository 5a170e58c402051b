"""Normalisations against NumPy: training, running statistics, masks, empty batches, values far from zero."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mdfl_jax.contrib.sequences.transformer import LayerNorm
from mdfl_jax.models import norm
from mdfl_jax.models.norm import BatchNorm, GroupNorm

KEY = jax.random.key(0)
PARAMS = {"scale": jnp.array([0.5, 2.0]), "bias": jnp.array([1.0, -1.0])}
STATS = {"mean": jnp.array([0.3, -0.2]), "var": jnp.array([1.5, 0.7])}
VARIABLES = {"params": PARAMS, "batch_stats": STATS}


def images(samples=5):
    return 3 + 2 * jax.random.normal(KEY, (2, 3, 4, samples))


def expected(x, mask):
    """(outputs, running mean, running variance), straight from the definition; samples without a mask are zero."""
    real = np.asarray(x, np.float64)[..., mask]
    mean, var = real.mean(axis=(1, 2, 3)), real.var(axis=(1, 2, 3))
    count = real[0].size
    column = lambda a: np.asarray(a)[:, None, None, None]  # noqa: E731
    y = (np.asarray(x) - column(mean)) / np.sqrt(column(var) + 1e-5) * column(PARAMS["scale"]) + column(PARAMS["bias"])
    moved = lambda name, value: 0.9 * np.asarray(STATS[name]) + 0.1 * value  # noqa: E731
    return np.where(mask, y, 0), moved("mean", mean), moved("var", var * count / (count - 1))


@pytest.mark.parametrize("mask", [[1, 1, 1, 1, 1], [1, 0, 1, 1, 0]])
def test_training_normalises_by_the_masked_batch_and_moves_the_running_ones(mask):
    mask = np.array(mask, bool)
    y, moved = BatchNorm().apply(VARIABLES, images(), jnp.asarray(mask), mutable=["batch_stats"])
    want = expected(images(), mask)
    np.testing.assert_allclose(y, want[0], atol=1e-4)
    np.testing.assert_allclose(moved["batch_stats"]["mean"], want[1], rtol=1e-5)
    np.testing.assert_allclose(moved["batch_stats"]["var"], want[2], rtol=1e-4)


@pytest.mark.parametrize("count", [0, 1])
def test_an_empty_batch_and_one_of_a_single_pixel_stay_finite(count):
    """Twenty layers in a row: what is not there must not grow on its way either."""
    x, mask = jax.random.normal(KEY, (2, 1, 1, 3)), jnp.arange(3) < count

    def deep(params, x):
        stats = STATS
        for _ in range(20):
            x, moved = BatchNorm().apply({"params": params, "batch_stats": stats}, x, mask, mutable=["batch_stats"])
            stats = moved["batch_stats"]
        return jnp.sum(jnp.where(mask, x, 0)), stats

    (_, stats), gradient = jax.value_and_grad(deep, has_aux=True)(PARAMS, x)
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves((stats, gradient)))
    if not count:
        np.testing.assert_array_equal(stats["mean"], STATS["mean"])


def plain(size):
    """The variables of a normalisation that only normalises."""
    return {
        "params": {"scale": jnp.ones(size), "bias": jnp.zeros(size)},
        "batch_stats": {"mean": jnp.zeros(size), "var": jnp.ones(size)},
    }


def group_norm(x):
    """(results, values by what is normalised together on axis 1): two groups of two channels, [4, H, W, B]."""
    return GroupNorm(2).apply(plain(4), x), x.reshape(2, -1, x.shape[3])


def batch_norm(x):
    """In training."""
    y, _ = BatchNorm().apply(plain(4), x, jnp.ones(x.shape[3], bool), mutable=["batch_stats"])
    return y, x.reshape(4, -1)


def layer_norm(x):
    return LayerNorm().apply(plain(64), x.reshape(-1, 64)), x.reshape(-1, 64)


@pytest.mark.parametrize("norm", [group_norm, batch_norm, layer_norm])
def test_values_far_from_zero_keep_their_digits(norm):
    """Means of up to 5,000 standard deviations, also where a pixel is an outlier, against double precision."""
    for far, middle in ((0.0, None), (5000.0, None), (5000.0, 0.0)):
        x = jax.random.normal(KEY, (4, 8, 8, 16)) + far
        y, values = norm(x if middle is None else x.at[:, 4, 4].set(middle))
        wide = np.asarray(values, np.float64)
        mean, var = wide.mean(axis=1, keepdims=True), wide.var(axis=1, keepdims=True)
        wanted = (wide - mean) / np.sqrt(var + (1e-6 if norm is layer_norm else 1e-5))
        np.testing.assert_allclose(np.asarray(y).reshape(wide.shape), wanted, atol=1e-3)


@pytest.mark.parametrize("far", [0.0, 1000.0])
def test_gradients_of_groups_and_batches_equal_those_of_double_precision(far):
    """Of the activations, the scale and the bias, beside JAX's derivatives of the definition."""
    x, weight = np.array(jax.random.normal(KEY, (2, 4, 3, 3, 4)), np.float64)
    x, mask = np.float32(x + far), np.array([True, True, False, True])
    scale, bias = np.array([0.5, 2.0, 1.0, -1.0]), np.arange(4.0)
    args = [np.float32(arg) for arg in (x, scale, bias)]

    def of_definition(values, scale, bias, groups):
        """The sum of the weighted results, of the samples in the mask for a batch and of all for groups."""
        used, weighted = (a if groups else a[..., mask] for a in (values, weight))
        apart = used.reshape(groups, -1, 4) if groups else used.reshape(4, -1)
        mean, var = jnp.mean(apart, axis=1, keepdims=True), jnp.var(apart, axis=1, keepdims=True)
        y = ((apart - mean) / jnp.sqrt(var + 1e-5)).reshape(used.shape)
        return jnp.sum((y * scale[:, None, None, None] + bias[:, None, None, None]) * weighted)

    for groups, seen in ((2, None), (0, jnp.asarray(mask))):

        def ours(x, scale, bias, groups=groups, seen=seen):
            return jnp.sum(norm.normalise(norm.Over(groups, 1e-5), x, seen, scale, bias)[0] * jnp.float32(weight))

        found = jax.jit(jax.grad(ours, argnums=(0, 1, 2)))(*args)
        with jax.enable_x64(True):
            wide = [jnp.asarray(arg, jnp.float64) for arg in args]
            wanted = jax.jit(jax.grad(partial(of_definition, groups=groups), argnums=(0, 1, 2)))(*wide)
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, atol=3e-3 if far else 1e-5)
