"""Bottlenecks whose last normalisations are folded into their convolutions, against the same network plainly."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mdfl_jax.core.errors import UserError
from mdfl_jax.models import make_model
from mdfl_jax.models.model import ModelSettings
from mdfl_jax.models.zoo.resnet import ResNet, ResNetNumbers, Shape

# Shortcuts with a convolution of stride one and two, and one without; the clients have all samples, some and none.
SHAPE = Shape((4, 8), (2, 1), bottleneck=True, projected=True, groups=2)
MASKS = jnp.array([[1, 1, 1, 1, 1, 1], [1, 1, 0, 1, 0, 1], [0, 0, 0, 0, 0, 0]], bool)
IMAGES = jax.random.normal(jax.random.key(0), (len(MASKS), 6, 5, 6, 3))
WEIGHTS = jax.random.normal(jax.random.key(1), (6, 3))


def network(form):
    return ResNet(SHAPE, ModelSettings(3, ResNetNumbers(), convolution=form))


@cache
def variables():
    """Return those of each client, with scales and biases that are not ones and zeros."""
    model = network("library")
    start = jax.jit(jax.vmap(lambda key, x: model.init(key, x)))(jax.random.split(jax.random.key(2), 3), IMAGES)
    leaves, tree = jax.tree.flatten(start)
    keys = jax.random.split(jax.random.key(3), len(leaves))
    return tree.unflatten([x + 0.3 * jax.random.uniform(key, x.shape) for key, x in zip(keys, leaves)])


@cache
def trained(form, dtype=jnp.float32):
    """Return (loss, moved statistics, gradients of the parameters and the images) of all clients, as float32."""
    model, start = network(form), variables()

    def loss(params, images, statistics, mask):
        low = jax.tree.map(lambda p: p.astype(dtype), params)
        logits, moved = model.apply({"params": low, **statistics}, images.astype(dtype), mask, mutable=["batch_stats"])
        return jnp.sum(jnp.where(mask[:, None], logits.astype(jnp.float32) * WEIGHTS, 0)), moved

    of_client = jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)
    statistics = {"batch_stats": start["batch_stats"]}
    return jax.jit(jax.vmap(of_client))(start["params"], IMAGES, statistics, MASKS)


@pytest.mark.long
def test_folded_is_batch_normalisation():
    """Values, gradients and running statistics of clients with all samples, some and none, to rounding."""
    (wanted, found) = (trained(form) for form in ("library", "folded"))
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    names = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(wanted)]
    for name, a, b in zip(names, jax.tree.leaves(found), jax.tree.leaves(wanted)):
        for client in range(len(MASKS)):
            largest = float(jnp.max(jnp.abs(b[client])))
            np.testing.assert_allclose(a[client], b[client], atol=2e-5 * largest + 1e-7, err_msg=f"{name}, {client}")
    images = np.asarray(found[1][1])
    assert np.all(images[~np.asarray(MASKS)] == 0)
    assert np.all(np.abs(images[np.asarray(MASKS)]).max(axis=(1, 2, 3)) > 0)


@pytest.mark.long
def test_a_diverged_model_does_not_come_back_to_zero():
    """The results of a batch with a number that is none are none, as without the folding; zeros would look well."""
    start = jax.tree.map(lambda x: x[0], variables())
    images = IMAGES[0].at[0, 0, 0, 0].set(jnp.nan)
    for form in ("library", "folded"):
        logits, _ = jax.jit(partial(network(form).apply, mutable=["batch_stats"]))(start, images, MASKS[0])
        assert jnp.all(jnp.isnan(logits)), form


@pytest.mark.parametrize(("name", "settings"), [("resnet50", {"norm": "group"}), ("resnet18", {}), ("cnn", {})])
def test_a_network_without_such_bottlenecks_is_one_line(name, settings):
    model = make_model(name, 10, convolution="folded", **settings)
    with pytest.raises(UserError, match=r"folded, which is not possible with this model, which has no bottlenecks"):
        jax.eval_shape(model.init, jax.random.key(0), jnp.zeros((2, 8, 8, 3)))
