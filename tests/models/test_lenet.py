"""LeNet-5: its size, and its logits against the same layers written with the library."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mdfl_jax.models import make_model


def num_params(name, shape):
    model = make_model(name, 10)
    shapes = jax.eval_shape(model.init, jax.random.key(0), jnp.zeros((1, *shape)))
    return sum(leaf.size for leaf in jax.tree.leaves(shapes))


def test_size():
    assert num_params("lenet", (28, 28, 1)) == 61_706  # LeNet-5's


def library_lenet(params, images):
    """LeNet-5 with the library's convolutions and pools, images last axis channels."""

    def conv(x, layer, padding):
        out = jax.lax.conv_general_dilated(
            x, layer["kernel"], (1, 1), padding, dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        out = jax.nn.relu(out + layer["bias"])
        return jax.lax.reduce_window(out, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    x = conv(conv(images, params["conv_0"], "SAME"), params["conv_1"], "VALID")
    assert x.shape[1:] == (5, 5, 16)
    x = jnp.transpose(x, (0, 3, 1, 2)).reshape(len(x), -1)
    for k in range(3):
        x = x @ params[f"Dense_{k}"]["kernel"] + params[f"Dense_{k}"]["bias"]
        x = jax.nn.relu(x) if k < 2 else x
    return x


@pytest.mark.long
def test_lenet_is_lenet():
    model = make_model("lenet", 10)
    images = jax.random.normal(jax.random.key(0), (3, 28, 28, 1))
    params = model.init(jax.random.key(1), images)["params"]
    np.testing.assert_allclose(model.apply({"params": params}, images), library_lenet(params, images), atol=1e-4)
