"""Stages of pixels in cells against the same stages pixel by pixel: values, gradients, ties, bfloat16."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mdfl_jax.core.errors import UserError
from mdfl_jax.models.model import make_model

MNIST, DIGITS = ((28, 28, 1), (16, 32), 5), ((8, 8, 1), (8, 8), 3)
CASES = [((12, 8, 3), (4,), 5), MNIST, DIGITS, ((16, 8, 2), (3, 5, 4), 3)]


def stages(form, shape, widths, size, dtype, flat):
    """Return the value and gradients of a CNN, its variables, and images, of which a part is flat."""
    model = make_model("cnn", 10, convolution=form, widths=widths, kernel=size, hidden=12)
    images = jax.random.normal(jax.random.key(0), (9, *shape))
    images = jnp.where(jnp.arange(shape[0])[:, None, None] < flat * shape[0], -1.0, images)
    variables = jax.tree.map(lambda leaf: (leaf + 0.01).astype(dtype), model.init(jax.random.key(1), images))
    images = images.astype(dtype)
    weights = jax.random.normal(jax.random.key(2), (9, 10))
    loss = lambda v, x: jnp.sum(model.apply(v, x).astype(jnp.float32) * weights)  # noqa: E731
    return jax.jit(jax.value_and_grad(loss, argnums=(0, 1))), variables, images


@pytest.mark.long
@pytest.mark.parametrize("flat", [0.0, 0.5])
@pytest.mark.parametrize(("shape", "widths", "size"), CASES)
def test_cells_are_the_plain_stages_with_their_gradients(shape, widths, size, flat):
    """On flat ground the four maxima of a pool are equal, and rounding decides which pixel has the gradient."""
    wanted, found = (
        f(v, x)
        for f, v, x in (stages(form, shape, widths, size, jnp.float32, flat) for form in ("library", "space_to_depth"))
    )
    parts = 1 if flat else 2  # the variables', and the images'
    wanted, found = ((value, gradients[:parts]) for value, gradients in (wanted, found))
    assert jax.tree.structure(wanted) == jax.tree.structure(found)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted)):
        np.testing.assert_allclose(a, b, atol=3e-6 * float(jnp.max(jnp.abs(b))))


def test_cells_that_are_not_possible_are_one_line():
    odd = make_model("cnn", 10, convolution="space_to_depth", widths=(8,), kernel=3)
    with pytest.raises(
        UserError,
        match=r"engine\.convolution is space_to_depth, which is not possible with this model and images of 7 x 7",
    ):
        odd.init(jax.random.key(0), jnp.zeros((2, 7, 7, 1)))
    residual = make_model("resnet20", 10, convolution="space_to_depth")
    with pytest.raises(UserError, match=r"engine\.convolution is space_to_depth"):
        residual.init(jax.random.key(0), jnp.zeros((2, 8, 8, 3)))
