"""A run's results do not depend on the target's forms: those of a TPU and of a GPU, computed on a CPU."""

import chex
import jax
import numpy as np
import pytest
from small import PATTERNS, computed, toy_dataset, toy_hparams

from mdfl_jax import Schedule
from mdfl_jax.algorithms.dpsgd import dpsgd
from mdfl_jax.core.devices import Target, aimed_at
from mdfl_jax.core.sharding import client_mesh
from mdfl_jax.data.augment import Augmentation
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.models import ModelSettings, make_model
from mdfl_jax.models.folded import relu_of_sum
from mdfl_jax.models.zoo import resnet
from mdfl_jax.models.zoo.resnet import ResNet, ResNetNumbers, Shape
from mdfl_jax.networks.spatial import spatial
from mdfl_jax.tasks import classification, gradients
from mdfl_jax.tasks.gradients import Tiling, Work, cut

N = 5


def aim(backend, memory=2**34, devices=1):
    return aimed_at(Target(backend, backend, jax.local_devices()[:devices], memory))


def history(backend, model="cnn", batch_size=0, devices=1, **settings):
    """Metrics of a short run with everything as that backend has it by default; several devices share it."""
    with aim(backend, devices=devices):
        settings = {"widths": (3, 4), "hidden": 5} | settings
        made = make_model(model, 3, **settings)
        task = classification(toy_dataset(side=8), made, N, batch_size=batch_size, mesh=client_mesh())
        simulation = Simulation(task, spatial(N, 5, PATTERNS), dpsgd(), Schedule(4, 2))
        parts = computed(simulation, [toy_hparams(mobility=3)] * 2, [0, 1])[2]
        return task, jax.tree.map(lambda *leaves: np.stack(leaves), *parts)


@pytest.mark.long
@pytest.mark.parametrize(
    ("backend", "enough", "batch_size"),  # one block after the other, all together, and only evaluations in turn
    [
        ("tpu", 1, 0),
        ("tpu", 1, 6),
        ("tpu", 1_000_000, 6),
        ("gpu", 2_000_000_000, 0),
    ],
)
def test_a_run_is_the_same_in_the_forms_of_every_target(backend, enough, batch_size, monkeypatch):
    monkeypatch.setattr(gradients, "ENOUGH", enough)
    _, wanted = history("cpu", batch_size=batch_size)
    task, found = history(backend, batch_size=batch_size)
    assert (task.spread.alone, task.scoring.in_turn) == (enough == 1, enough <= 1_000_000)
    for name, value in found.items():
        np.testing.assert_allclose(value, wanted[name], rtol=2e-4, atol=1e-5, err_msg=name)


def test_what_an_accelerator_is_given_at_once_goes_by_its_memory_and_the_work():
    small, large = Work(flops=1e6, bytes=1e4), Work(flops=3e9, bytes=2**21)
    shape = (32, 32, 3)
    with aim("tpu", memory=16 * 2**30):
        minibatch = cut(Tiling(), shape, 512, 50_000, 20, large)
        assert (minibatch.block_size, minibatch.at_once, minibatch.alone) == (512, 1, True)
        assert minibatch.tile == 2048  # a quarter of 16 GiB
        together = cut(Tiling(), shape, 50, 50_000, 20, small)
        assert (together.block_size, together.at_once, together.alone) == (50, 40, False)  # 2 GFLOP
    with aim("gpu", memory=2**30):
        assert cut(Tiling(), shape, 512, 50_000, 20, large).block_size == 128  # what memory has room for
        own = Tiling(block_size=64, tile=256)
        assert cut(own, shape, 512, 50_000, 20, small)[:3] == (64, 4, 256)


@pytest.mark.long
@pytest.mark.parametrize(("devices", "batch_size"), [(5, 6), (3, 0)])  # clients that the devices divide, and not
def test_a_run_is_the_same_over_several_chips(devices, batch_size, monkeypatch):
    monkeypatch.setattr(gradients, "ENOUGH", 1)
    _, wanted = history("cpu", batch_size=batch_size)
    task, found = history("tpu", batch_size=batch_size, devices=devices)
    assert task.spread.mesh.devices.size == devices
    for name, value in found.items():
        np.testing.assert_allclose(value, wanted[name], rtol=2e-4, atol=1e-5, err_msg=name)


@pytest.mark.long
def test_a_residual_network_is_the_same_one_client_after_the_other(monkeypatch):
    """Its gradients, with batch statistics, crops and flips; its bottlenecks are folded on a TPU.

    Deep networks magnify rounding in what follows.
    """
    monkeypatch.setattr(gradients, "ENOUGH", 1)
    data, key, shape = toy_dataset(side=8), jax.random.key(3), Shape((2, 4), (2, 1), True, True, 2)

    def gradient(backend):
        with aim(backend):
            model = ResNet(shape, ModelSettings(3, ResNetNumbers()))
            shown = Augmentation(crop=1, flip=True)
            task = classification(data, model, N, batch_size=6, augmentation=shown)
            assert task.spread.alone == (backend == "tpu")
            clients = task.partition(task.data, toy_hparams(mobility=3).task, key)
            start = jax.tree.map(lambda p: np.broadcast_to(p, (N, *p.shape)), task.init(task.data, key))
            return jax.jit(task.gradient)(task.data, clients, start, key)

    folded = []
    monkeypatch.setattr(resnet, "relu_of_sum", lambda *terms: (folded.append(terms), relu_of_sum(*terms))[1])
    plain = gradient("cpu")
    assert not folded
    chex.assert_trees_all_close(gradient("tpu"), plain, rtol=1e-3, atol=1e-4)
    assert len(folded) >= sum(shape.blocks)
