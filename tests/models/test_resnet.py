"""The ResNets: their sizes, and ResNet-20's logits against the same layers written with the library."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mdfl_jax.errors import UserError
from mdfl_jax.models import MODELS, ModelSettings

RESNETS = ("resnet18", "resnet50", "resnet20", "resnet9")


def library_resnet20(params, images):
    def conv(x, layer, stride):
        kernel = layer["conv"]["kernel"]
        out = jax.lax.conv_general_dilated(
            x, kernel, (stride, stride), ((1, 1), (1, 1)), dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        groups = out.reshape(*out.shape[:3], 8, -1)
        mean, var = (f(groups, axis=(1, 2, 4), keepdims=True) for f in (jnp.mean, jnp.var))
        norm = layer["norm"]["group"]
        return ((groups - mean) / jnp.sqrt(var + 1e-5)).reshape(out.shape) * norm["scale"] + norm["bias"]

    x = jax.nn.relu(conv(images, params["conv1"], 1))
    for stage, width in enumerate((16, 32, 64)):
        for i in range(3):
            layers, stride = params[f"layer{stage + 1}_{i}"], 2 if stage and i == 0 else 1
            y = conv(jax.nn.relu(conv(x, layers["conv1"], stride)), layers["conv2"], 1)
            short = x[:, ::stride, ::stride]
            x = jax.nn.relu(y + jnp.pad(short, [(0, 0)] * 3 + [(0, width - short.shape[-1])]))
    return x.mean(axis=(1, 2)) @ params["fc"]["kernel"] + params["fc"]["bias"]


def test_resnet20_is_resnet20():
    model = MODELS["resnet20"](ModelSettings(10, norm="group"))
    images = jax.random.normal(jax.random.key(0), (2, 16, 16, 3))
    params = jax.jit(model.init)(jax.random.key(1), images)["params"]
    logits = jax.jit(lambda p: model.apply({"params": p}, images))(params)
    np.testing.assert_allclose(logits, library_resnet20(params, images), atol=1e-4)


def sizes(name, **settings):
    model = MODELS[name](ModelSettings(10, **settings))
    shapes = jax.eval_shape(model.init, jax.random.key(0), jnp.zeros((1, 32, 32, 3)))
    return {kind: sum(leaf.size for leaf in jax.tree.leaves(tree)) for kind, tree in shapes.items()}


def test_sizes():
    """Parameters as published for CIFAR-10; two running numbers a channel that is normalised."""
    assert sizes("resnet18") == {"params": 11_173_962, "batch_stats": 9_600}
    assert sizes("resnet50") == {"params": 23_520_842, "batch_stats": 53_120}
    assert sizes("resnet20") == {"params": 269_722, "batch_stats": 1_376}
    pairs = [(3, 64), (64, 128), (128, 128), (128, 128), (128, 256), (256, 512), (512, 512), (512, 512)]
    table_4 = sum(9 * a * b + 2 * b for a, b in pairs) + 512 * 10 + 10  # scale and bias of the norms
    assert sizes("resnet9", norm="group") == {"params": table_4}


@pytest.mark.parametrize("name", RESNETS)
def test_without_a_normalisation_there_are_biases_and_nothing_else(name):
    plain, batch = sizes(name, norm="none", base_width=8), sizes(name, base_width=8)
    assert set(plain) == {"params"}
    assert plain["params"] == batch["params"] - batch["batch_stats"] // 2


def test_groups_that_do_not_fit_and_unknown_norms_are_told():
    with pytest.raises(UserError, match=r"model.base_width gives \(12, 24, 48\) channels; with model.norm=group 8"):
        MODELS["resnet20"](ModelSettings(10, norm="group", base_width=12))
    with pytest.raises(UserError, match="known: batch, group, none"):
        MODELS["resnet18"](ModelSettings(10, norm="bach"))
