"""ResNet-20: its size, and its logits against the same layers written with the library, strides included."""

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.models import MODELS, ModelSettings


def library_resnet20(params, images):
    def conv(x, layer, stride):
        out = jax.lax.conv_general_dilated(
            x, layer["kernel"], (stride, stride), ((1, 1), (1, 1)), dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        return out + layer["bias"]

    def norm(x, layer):
        groups = x.reshape(*x.shape[:3], 8, -1)
        mean, var = (f(groups, axis=(1, 2, 4), keepdims=True) for f in (jnp.mean, jnp.var))
        return ((groups - mean) / jnp.sqrt(var + 1e-5)).reshape(x.shape) * layer["scale"] + layer["bias"]

    x = jax.nn.relu(norm(conv(images, params["conv"], 1), params["norm"]))
    for stage, width in enumerate((16, 32, 64)):
        for i in range(3):
            layers, stride = params[f"block_{stage}_{i}"], 2 if stage and i == 0 else 1
            y = jax.nn.relu(norm(conv(x, layers["conv_0"], stride), layers["norm_0"]))
            y = norm(conv(y, layers["conv_1"], 1), layers["norm_1"])
            short = x[:, ::stride, ::stride]
            x = jax.nn.relu(y + jnp.pad(short, [(0, 0)] * 3 + [(0, width - short.shape[-1])]))
    return x.mean(axis=(1, 2)) @ params["Dense_0"]["kernel"] + params["Dense_0"]["bias"]


def test_resnet20_is_resnet20():
    model = MODELS["resnet20"](ModelSettings(10))
    images = jax.random.normal(jax.random.key(0), (2, 16, 16, 3))
    params = jax.jit(model.init)(jax.random.key(1), images)["params"]
    logits = jax.jit(lambda p: model.apply({"params": p}, images))(params)
    np.testing.assert_allclose(logits, library_resnet20(params, images), atol=1e-4)


def test_size():
    model = MODELS["resnet20"](ModelSettings(10))
    shapes = jax.eval_shape(model.init, jax.random.key(0), jnp.zeros((1, 32, 32, 3)))["params"]
    kernels = [leaf.size for path, leaf in jax.tree_util.tree_leaves_with_path(shapes) if "kernel" in str(path[-1])]
    assert len(kernels) == 20
    assert sum(kernels) == 268_336  # the paper's 0.27 million
