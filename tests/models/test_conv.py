"""The client-stackable convolution against JAX's own, values and gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mdfl_jax.models import MODELS, ModelSettings
from mdfl_jax.models.conv import convolution, max_pool


def reference(x, kernel):
    """lax.conv on [B, H, W, C], from and to samples last."""
    images = jnp.transpose(x, (3, 1, 2, 0))
    out = jax.lax.conv_general_dilated(images, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return jnp.transpose(out, (3, 1, 2, 0))


@pytest.mark.parametrize(
    ("size", "channels", "features", "side"), [(3, 1, 4, 8), (5, 3, 2, 7), (1, 2, 3, 4), (3, 4, 4, 1)]
)
def test_convolution_and_its_gradients(size, channels, features, side):
    key_x, key_k, key_y = jax.random.split(jax.random.key(size), 3)
    x = jax.random.normal(key_x, (channels, side, side + 1, 5))
    kernel = jax.random.normal(key_k, (size, size, channels, features))
    dy = jax.random.normal(key_y, (features, side, side + 1, 5))
    ours, back = jax.vjp(convolution, x, kernel)
    theirs, their_back = jax.vjp(reference, x, kernel)
    np.testing.assert_allclose(ours, theirs, atol=1e-4)
    for a, b in zip(back(dy), their_back(dy)):
        np.testing.assert_allclose(a, b, atol=1e-4)


def test_convolution_of_stacked_clients():
    """vmap over clients equals a loop over clients, kernels and images of their own."""
    x = jax.random.normal(jax.random.key(0), (3, 2, 6, 6, 4))
    kernel = jax.random.normal(jax.random.key(1), (3, 3, 3, 2, 5))
    stacked = jax.vmap(convolution)(x, kernel)
    for i in range(3):
        np.testing.assert_allclose(stacked[i], reference(x[i], kernel[i]), atol=1e-4)


def test_max_pool_leaves_out_an_odd_edge():
    x = jnp.arange(25.0).reshape(1, 5, 5, 1)
    assert max_pool(x)[0, :, :, 0].tolist() == [[6.0, 8.0], [16.0, 18.0]]


@pytest.mark.parametrize("name", list(MODELS))
def test_every_model_gives_logits(name):
    model = MODELS[name](ModelSettings(7, widths=(3, 4), hidden=5))
    images = jax.random.normal(jax.random.key(0), (2, 8, 8, 3))
    params = model.init(jax.random.key(1), images)["params"]
    logits = model.apply({"params": params}, images)
    assert logits.shape == (2, 7)
    assert bool(jnp.isfinite(logits).all())
    one = model.apply({"params": params}, images[:1])
    np.testing.assert_allclose(one, logits[:1], atol=1e-5)  # a sample's logits do not depend on its batch


def test_cnn_parameters_of_the_paper_benchmark():
    """5x5x16, 5x5x32, 64 on 28 x 28: 416 + 12,832 + 100,416 + 650 parameters."""
    model = MODELS["cnn"](ModelSettings(10, widths=(16, 32), kernel=5, hidden=64))
    shapes = jax.eval_shape(model.init, jax.random.key(0), jnp.zeros((1, 28, 28, 1)))
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes)) == 114_314
