"""The models of the zoo: their sizes, and logits against the same layers written with the library."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mdfl_jax.core.numbers import fields_of
from mdfl_jax.models import MODELS, SampleSpec, make_model


def library_conv(x, kernel, stride=1, padding="SAME"):
    if padding == "SAME":
        padding = ((kernel.shape[0] // 2,) * 2,) * 2
    return jax.lax.conv_general_dilated(
        x, kernel, (stride, stride), padding, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def library_resnet20(params, images):
    def conv(x, layer, stride):
        out = library_conv(x, layer["conv"]["kernel"], stride)
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


def library_lenet(params, images):
    """LeNet-5 with the library's convolutions and pools."""
    x = images
    for name, padding in (("conv_0", "SAME"), ("conv_1", "VALID")):
        x = jax.nn.relu(library_conv(x, params[name]["kernel"], 1, padding) + params[name]["bias"])
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    assert x.shape[1:] == (5, 5, 16)
    x = jnp.transpose(x, (0, 3, 1, 2)).reshape(len(x), -1)
    for k in range(3):
        x = x @ params[f"Dense_{k}"]["kernel"] + params[f"Dense_{k}"]["bias"]
        x = jax.nn.relu(x) if k < 2 else x
    return x


PUBLISHED = [
    ("resnet20", {"norm": "group"}, library_resnet20, (2, 16, 16, 3)),
    ("lenet", {}, library_lenet, (3, 28, 28, 1)),
]


@pytest.mark.long
@pytest.mark.parametrize(("name", "settings", "library", "shape"), PUBLISHED)
def test_published_networks_are_what_they_are_called(name, settings, library, shape):
    model, images = make_model(name, 10, **settings), jax.random.normal(jax.random.key(0), shape)
    params = jax.jit(model.init)(jax.random.key(1), images)["params"]
    logits = jax.jit(lambda p: model.apply({"params": p}, images))(params)
    np.testing.assert_allclose(logits, library(params, images), atol=1e-4)


def sizes(name, side=32, channels=3, **numbers):
    """How many parameters and running statistics a model has, by kind."""
    model = make_model(name, 10, **numbers)
    shapes = jax.eval_shape(model.init, jax.random.key(0), jnp.zeros((1, side, side, channels)))
    return {kind: sum(leaf.size for leaf in jax.tree.leaves(tree)) for kind, tree in shapes.items()}


def test_sizes():
    """Parameters as published, of ResNets for CIFAR-10; two running numbers a channel that is normalised."""
    assert sizes("lenet", 28, 1) == {"params": 61_706}  # LeNet-5's
    assert sizes("gn_lenet") == {"params": 89_834}  # the thesis's
    assert sizes("resnet18") == {"params": 11_173_962, "batch_stats": 9_600}
    assert sizes("resnet50") == {"params": 23_520_842, "batch_stats": 53_120}
    assert sizes("resnet20") == {"params": 269_722, "batch_stats": 1_376}
    assert sizes("resnet20", norm="none") == {"params": 269_722 - 1_376 // 2}  # biases, and no scales
    pairs = [(3, 64), (64, 128), (128, 128), (128, 128), (128, 256), (256, 512), (512, 512), (512, 512)]
    table_4 = sum(9 * a * b + 2 * b for a, b in pairs) + 512 * 10 + 10  # scale and bias of the norms
    assert sizes("resnet9", norm="group") == {"params": table_4}


@pytest.mark.long
@pytest.mark.parametrize("name", list(MODELS))
def test_every_model_gives_logits(name):
    small = {"widths": (2, 4), "hidden": 5, "base_width": 4}
    own = fields_of(MODELS.numbers(name))
    numbers = {key: value for key, value in small.items() if key in own}
    model = make_model(name, 7, sample=SampleSpec((8, 8, 3)), **numbers)
    images = jax.random.normal(jax.random.key(0), (2, 8, 8, 3))
    variables, logits = jax.jit(lambda key: model.init_with_output(key, images)[::-1])(jax.random.key(1))
    assert logits.shape == (2, 7)
    assert bool(jnp.isfinite(logits).all())
    one = jax.jit(model.apply)(variables, images[:1])  # a sample's logits do not depend on its batch
    np.testing.assert_allclose(one, logits[:1], atol=1e-5 * float(jnp.max(jnp.abs(logits))))
