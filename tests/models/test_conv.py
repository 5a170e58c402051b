"""The client-stackable convolution against JAX's own, values and gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mdfl_jax.contrib.convolutions import onednn
from mdfl_jax.models import conv
from mdfl_jax.models.conv import FORMS, Conv, convolution


def reference(x, kernel, stride=1):
    """lax.conv on [B, H, W, C], from and to samples last."""
    images, half = jnp.transpose(x, (3, 1, 2, 0)), kernel.shape[0] // 2
    out = jax.lax.conv_general_dilated(
        images, kernel, (stride, stride), ((half, half),) * 2, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return jnp.transpose(out, (3, 1, 2, 0))


SHAPES = [(3, 1, 4, 8), (5, 3, 2, 7), (1, 2, 3, 4)]


@pytest.mark.long
@pytest.mark.parametrize("form", list(FORMS))
@pytest.mark.parametrize(("size", "channels", "features", "side"), SHAPES)
def test_convolution_and_its_gradients(size, channels, features, side, form):
    if form == "filtering" and size == 1:
        pytest.skip("nothing to filter")
    if form == "onednn" and onednn.why_absent():
        pytest.skip(f"oneDNN is not here: {onednn.why_absent()}")
    key_x, key_k, key_y = jax.random.split(jax.random.key(size), 3)
    x = jax.random.normal(key_x, (channels, side, side + 1, 5))
    kernel = jax.random.normal(key_k, (size, size, channels, features))
    dy = jax.random.normal(key_y, (features, side, side + 1, 5))
    ours, back = jax.vjp(lambda x, kernel: convolution(x, kernel, form), x, kernel)
    theirs, their_back = jax.vjp(reference, x, kernel)
    np.testing.assert_allclose(ours, theirs, atol=1e-4)
    for a, b in zip(back(dy), their_back(dy)):
        np.testing.assert_allclose(a, b, atol=1e-5 * float(jnp.max(jnp.abs(b))))


@pytest.mark.long
@pytest.mark.parametrize("form", ["patches", "library"])
@pytest.mark.parametrize(("size", "side", "stride"), [(3, 8, 2), (5, 9, 3), (1, 6, 2)])
def test_strides(size, side, stride, form):
    """Even and odd sides; a layer of that stride says the same, whatever form it is asked for."""
    x = jax.random.normal(jax.random.key(0), (2, side, side + 1, 3))
    kernel = jax.random.normal(jax.random.key(1), (size, size, 2, 4))
    theirs, their_back = jax.vjp(lambda x, kernel: reference(x, kernel, stride), x, kernel)
    layer = lambda x, k: Conv(4, size, form, stride, use_bias=False).apply({"params": {"kernel": k}}, x)  # noqa: E731
    dy = jax.random.normal(jax.random.key(2), theirs.shape)
    for apply in (lambda x, kernel: convolution(x, kernel, form, stride), layer):
        ours, back = jax.vjp(apply, x, kernel)
        np.testing.assert_allclose(ours, theirs, atol=1e-4)
        for a, b in zip(back(dy), their_back(dy)):
            np.testing.assert_allclose(a, b, atol=1e-5 * float(jnp.max(jnp.abs(b))))


@pytest.mark.parametrize(("taps", "points"), [(3, 6), (5, 6), (3, 8), (5, 8), (7, 8)])
def test_minimal_filtering_is_exact_in_rational_arithmetic(taps, points):
    """outer @ ((kernel @ taps) * (inner @ inputs)) is the valid correlation, for every pair of unit vectors."""
    t = conv.transforms(taps, points)
    outputs = points + 1 - taps
    for i in range(taps):
        for j in range(points):
            found = t.outer.astype(float) @ (t.kernel[:, i].astype(float) * t.inner[:, j])
            np.testing.assert_allclose(found, [float(j == o + i) for o in range(outputs)], atol=2e-6)
