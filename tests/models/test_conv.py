"""The client-stackable convolution against JAX's own, values and gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mdfl_jax.core.errors import UserError
from mdfl_jax.models import conv
from mdfl_jax.models.conv import FORMS, Conv, convolution, default_form, max_pool
from mdfl_jax.models.norm import GroupNorm


def reference(x, kernel, stride=1):
    """lax.conv on [B, H, W, C], from and to samples last."""
    images, half = jnp.transpose(x, (3, 1, 2, 0)), kernel.shape[0] // 2
    out = jax.lax.conv_general_dilated(
        images, kernel, (stride, stride), ((half, half),) * 2, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return jnp.transpose(out, (3, 1, 2, 0))


SHAPES = [(3, 1, 4, 8), (5, 3, 2, 7), (3, 4, 4, 1), (3, 2, 5, 12), (5, 2, 2, 28), (7, 2, 3, 5), (1, 2, 3, 4)]


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("size", "channels", "features", "side"), SHAPES)
def test_convolution_and_its_gradients(size, channels, features, side, form):
    if form == "filtering" and size == 1:
        pytest.skip("nothing to filter")
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
@pytest.mark.parametrize(("size", "side", "stride"), [(3, 8, 2), (3, 7, 2), (5, 9, 3), (1, 6, 2), (7, 10, 2)])
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
    filtering_layer = Conv(4, size, "filtering", stride, use_bias=False)
    np.testing.assert_allclose(filtering_layer.apply({"params": {"kernel": kernel}}, x), theirs, atol=1e-4)


@pytest.mark.parametrize(("taps", "points"), [(3, 6), (5, 6), (3, 8), (5, 8), (7, 8)])
def test_minimal_filtering_is_exact_in_rational_arithmetic(taps, points):
    """outer @ ((kernel @ taps) * (inner @ inputs)) is the valid correlation, for every pair of unit vectors."""
    t = conv.transforms(taps, points)
    outputs = points + 1 - taps
    for i in range(taps):
        for j in range(points):
            found = t.outer.astype(float) @ (t.kernel[:, i].astype(float) * t.inner[:, j])
            np.testing.assert_allclose(found, [float(j == o + i) for o in range(outputs)], atol=2e-6)


@pytest.mark.long
@pytest.mark.parametrize("points", [6, 8])
@pytest.mark.parametrize(("size", "height", "width"), [(3, 9, 12), (5, 7, 4), (3, 3, 5)])
def test_filtering_in_both_directions_and_its_gradients(size, height, width, points):
    key_x, key_k, key_y = jax.random.split(jax.random.key(size), 3)
    x = jax.random.normal(key_x, (3, height, width, 5))
    kernel = jax.random.normal(key_k, (size, size, 3, 2))
    dy = jax.random.normal(key_y, (2, height, width, 5))
    theirs, their_back = jax.vjp(reference, x, kernel)
    found = conv.filtered_2d(x, kernel, points), *conv.filtered_2d_gradients(x, kernel, dy, points)
    for a, b in zip(found, (theirs, *their_back(dy))):
        np.testing.assert_allclose(a, b, atol=2e-5 * float(jnp.max(jnp.abs(b))))


def test_both_directions_are_filtered_where_products_are_long_and_of_middling_width(monkeypatch):
    def pays(*shape, kernel=(3, 3, 16, 32), dtype=jnp.float32):
        return conv.pays(jax.ShapeDtypeStruct(shape, dtype), kernel, 6)

    assert pays(16, 16, 16, 32)
    assert not pays(16, 16, 16, 16)  # samples side by side
    assert not pays(16, 8, 8, 32)  # columns
    assert not pays(3, 32, 32, 32, kernel=(3, 3, 3, 32))
    assert not pays(64, 32, 32, 32, kernel=(3, 3, 64, 128))
    assert not pays(16, 16, 16, 32, dtype=jnp.bfloat16)
    calls = []
    for name in ("filtered_2d", "filtered_2d_gradients"):
        whole = getattr(conv, name)
        monkeypatch.setattr(conv, name, lambda *a, f=whole, n=name: (calls.append(n), f(*a))[1])
    x, kernel = jnp.ones((16, 16, 16, 32)), jnp.ones((3, 3, 16, 16))
    jax.eval_shape(jax.grad(lambda k: jnp.sum(convolution(x, k, "filtering"))), kernel)
    assert calls == ["filtered_2d", "filtered_2d_gradients"]


def test_default_form_keeps_filtering_from_bfloat16_and_single_channels():
    assert default_form((5, 5, 16, 32), jnp.float32) == "filtering"
    assert default_form((5, 5, 16, 32), jnp.bfloat16) == "patches"
    assert default_form((5, 5, 1, 32), jnp.float32) == "patches"
    assert default_form((1, 1, 16, 32), jnp.float32) == "patches"


def test_the_default_form_of_an_accelerator(monkeypatch):
    small, large = ((3, 3, 8, 8), jnp.dtype("float32"), 1, 64 * 16), ((3, 3, 64, 64), jnp.dtype("bfloat16"), 2, 2**18)
    for backend, forms in {"tpu": ["library", "library"], "gpu": ["patches", "library"]}.items():
        monkeypatch.setattr(conv, "backend", lambda backend=backend: backend)
        assert [default_form(*args) for args in (small, large)] == forms


@pytest.mark.long
def test_group_norm_equals_flax():
    import flax.linen as nn

    x = 3 + 2 * jax.random.normal(jax.random.key(0), (6, 4, 5, 3))
    ours, theirs = GroupNorm(2), nn.GroupNorm(2, epsilon=1e-5)
    params = {"scale": jnp.arange(1.0, 7.0), "bias": jnp.arange(6.0)}
    images = jnp.transpose(x, (3, 1, 2, 0))

    def total(apply, weight):
        return lambda p, a: jnp.sum(apply({"params": p}, a) * weight)

    weight = jax.random.normal(jax.random.key(1), images.shape)
    found = jax.value_and_grad(total(ours.apply, jnp.transpose(weight, (3, 1, 2, 0))), argnums=(0, 1))(params, x)
    wanted = jax.value_and_grad(total(theirs.apply, weight), argnums=(0, 1))(params, images)
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-4)
    np.testing.assert_allclose(found[1][1], jnp.transpose(wanted[1][1], (3, 1, 2, 0)), atol=1e-4)
    for name in params:
        np.testing.assert_allclose(found[1][0][name], wanted[1][0][name], rtol=1e-4, atol=1e-4)


def test_max_pool_leaves_out_an_odd_edge():
    x = jnp.arange(25.0).reshape(1, 5, 5, 1)
    assert max_pool(x)[0, :, :, 0].tolist() == [[6.0, 8.0], [16.0, 18.0]]


def test_unknown_form_lists_the_known():
    with pytest.raises(UserError, match="known: filtering, folded, library, patches, space_to_depth"):
        Conv(4, form="fft").init(jax.random.key(0), jnp.zeros((1, 4, 4, 2)))
