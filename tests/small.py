"""Small parts that many tests share: a toy data set, a linear task, a world of four mobility rules."""

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mdfl_jax import Hparams, Schedule, UserError
from mdfl_jax.algorithms.dpsgd import dpsgd
from mdfl_jax.algorithms.local import LocalNumbers
from mdfl_jax.data.dataset import Dataset
from mdfl_jax.data.partition import DirichletNumbers
from mdfl_jax.engine.programs import Compiler, Placement
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.models import make_model
from mdfl_jax.models.norm import BatchNorm
from mdfl_jax.networks.spatial import SpatialParams, spatial
from mdfl_jax.tasks import classification
from mdfl_jax.tasks.gradients import Tiling

TINY = """
from mdfl_jax.config import default_config

def get_config():
    config = default_config()
    config.name, config.title = "tiny", "A tiny study"
    config.sweep, config.baseline = "network.mobility=static,dcm", "network.mobility=static"
    config.seeds, config.rounds, config.eval_every, config.target = 2, 4, 2, 0.3
    config.data.limit_train, config.data.limit_test, config.data.partition = 120, 60, "iid"
    config.model.name = "linear"
    config.network.num_clients, config.network.num_mobile, config.network.grid_size = 6, 2, 5
    return config
"""  # the config file of a study that takes a second, for commands

PATTERNS = ("static", "random_movement", "dam", "dcm")


def toy_dataset(num_train=90, num_test=30, num_classes=3, side=4, seed=0):
    """Noisy class patterns as images: learnable, and different at every pixel."""
    rng = np.random.default_rng(seed)
    prototypes = rng.integers(0, 200, (num_classes, side, side, 1))

    def draw(n):
        labels = np.arange(n, dtype=np.int32) % num_classes
        return (prototypes[labels] + rng.integers(0, 56, (n, side, side, 1))).astype(np.uint8), labels

    return Dataset("toy", *draw(num_train), *draw(num_test), num_classes)


class Normalised(nn.Module):
    """The image in four channels, normalised over the batch, then the logits."""

    @nn.compact
    def __call__(self, images, mask=None):
        x = images.reshape(len(images), 4, -1)
        x = BatchNorm(name="norm")(jnp.transpose(x, (1, 2, 0))[:, None], mask)
        return nn.Dense(3, name="fc")(x.reshape(-1, len(images)).T)


def toy_task(
    num_clients=6, model="linear", batch_size=0, tiling=Tiling(), dataset=None, partition="dirichlet", **model_numbers
):
    dataset = dataset or toy_dataset()
    module = make_model(model, dataset.num_classes, **model_numbers)
    return classification(dataset, module, num_clients, partition=partition, batch_size=batch_size, tiling=tiling)


def toy_hparams(mobility=1, alpha=0.1, num_mobile=2, radius=2.0, max_step=2.0, lr=0.1, momentum=0.0, weight_decay=0.0):
    f = np.float32
    return Hparams(
        DirichletNumbers(f(alpha)),
        SpatialParams(np.int32(num_mobile), f(radius), f(max_step), np.int32(mobility)),
        LocalNumbers(lr=f(lr), momentum=f(momentum), weight_decay=f(weight_decay)),
    )


def toy_simulation(rounds=6, eval_every=2, num_clients=6, grid_size=5, record_positions=True, task=None):
    return Simulation(
        task or toy_task(num_clients),
        spatial(num_clients, grid_size, PATTERNS),
        dpsgd(),
        Schedule(rounds, eval_every, record_positions),
    )


def computed(simulation, hparams, seeds, at_once=0, devices=None):
    """Computes a batch of runs as a study does: its placement, the last states of the turns, and the metrics.

    The metrics are a list, with NumPy leaves [runs, ...] before the first round and after each evaluation.
    """
    placement = Placement(simulation, len(seeds), at_once, devices)
    turns = placement.inputs(hparams, seeds)
    programs = Compiler().programs(placement, turns[0], turns[0])
    carries, metrics, _ = programs.init(placement.data, turns)
    history = [placement.join(metrics, len(seeds))]
    for _ in range(simulation.num_evaluations):
        carries, metrics = programs.advance(placement.data, turns, carries)
        history.append(placement.join(metrics, len(seeds)))
    return placement, carries, history


def assert_trees_equal(a, b, tolerance=0.0):
    """Equal leaf by leaf, within the tolerance absolutely and relatively, NaN to NaN; an error names the leaf."""
    chex.assert_trees_all_close(jax.device_get(a), jax.device_get(b), rtol=tolerance, atol=tolerance)


def assert_trees_differ(a, b, tolerance=0.0):
    """Of one structure, but some leaf differs."""
    chex.assert_trees_all_equal_structs(a, b)
    with pytest.raises(AssertionError):
        assert_trees_equal(a, b, tolerance)


def told(function, *args, **kwargs):
    """The error that a call ends with, which is one line."""
    with pytest.raises(UserError) as caught:
        function(*args, **kwargs)
    assert "\n" not in str(caught.value)
    return str(caught.value)
