"""The client-stackable convolution against JAX's own, values and gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mdfl_jax.core.errors import UserError
from mdfl_jax.models import conv, onednn
from mdfl_jax.models.conv import FORMS, Conv, convolution, max_pool


def reference(x, kernel, stride=1):
    """lax.conv on [B, H, W, C], from and to samples last."""
    images, half = jnp.transpose(x, (3, 1, 2, 0)), kernel.shape[0] // 2
    out = jax.lax.conv_general_dilated(
        images, kernel, (stride, stride), ((half, half),) * 2, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return jnp.transpose(out, (3, 1, 2, 0))


SHAPES = [(3, 1, 4, 8), (5, 3, 2, 7), (3, 4, 4, 1), (5, 2, 2, 28), (1, 2, 3, 4)]


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
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


@pytest.mark.parametrize("stride", [1, 2])
def test_a_gpu_gets_the_library_for_one_model_and_products_for_models_that_are_mapped_together(stride, monkeypatch):
    monkeypatch.setattr(conv, "backend", lambda: "gpu")
    layer = Conv(4, stride=stride, use_bias=False)
    x, kernel = (
        jax.random.normal(jax.random.key(0), (6, 2, 7, 8, 3)),
        jax.random.normal(jax.random.key(1), (6, 3, 3, 2, 4)),
    )

    def value(x, kernel):
        return jnp.sum(jnp.sin(layer.apply({"params": {"kernel": kernel}}, x)))

    both = jax.value_and_grad(value, (0, 1))
    theirs = [
        jax.value_and_grad(lambda *of: jnp.sum(jnp.sin(reference(*of, stride))), (0, 1))(*of) for of in zip(x, kernel)
    ]
    runs = [leaf.reshape(2, 3, *leaf.shape[1:]) for leaf in (x, kernel)]  # runs, and in each its models
    made = {"one": (both, (x[0], kernel[0]), 1), "models": (jax.vmap(both), (x, kernel), 0)}
    made |= {"in turn": (lambda *of: jax.lax.map(lambda of: both(*of), of), (x, kernel), 1)}
    made |= {"runs": (jax.vmap(jax.vmap(both)), runs, 0)}
    made |= {"vmap over one": (jax.vmap(both), (x[:1], kernel[:1]), 1)}
    made |= {"runs of one model": (jax.vmap(jax.vmap(both)), [leaf[:, None] for leaf in (x, kernel)], 0)}
    for name, (function, of, library) in made.items():
        assert ("conv_general_dilated" in str(jax.make_jaxpr(function)(*of))) == library, name
        ours = jax.tree.map(lambda leaf, wanted: leaf.reshape(-1, *wanted.shape), function(*of), theirs[0])
        for i, wanted in enumerate(theirs[:1] if "one" in name.split() and "runs" not in name else theirs):
            for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(wanted)):
                np.testing.assert_allclose(a[i], b, atol=1e-4)


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


def test_max_pool_leaves_out_an_odd_edge():
    x = jnp.arange(25.0).reshape(1, 5, 5, 1)
    assert max_pool(x)[0, :, :, 0].tolist() == [[6.0, 8.0], [16.0, 18.0]]


def test_unknown_form_lists_the_known():
    with pytest.raises(UserError, match="known: filtering, folded, library, onednn, patches, space_to_depth"):
        Conv(4, form="fft").init(jax.random.key(0), jnp.zeros((1, 4, 4, 2)))
