"""A run's results do not depend on the target's forms: those of a TPU and of a GPU, computed on a CPU."""

import jax
import numpy as np
import pytest
from small import PATTERNS, computed, toy_dataset, toy_hparams

from mdfl_jax import Schedule
from mdfl_jax.algorithms.dpsgd import dpsgd
from mdfl_jax.core.devices import TargetDevices, aimed_at
from mdfl_jax.core.sharding import client_mesh
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.models import make_model
from mdfl_jax.networks.spatial import spatial
from mdfl_jax.tasks import classification, gradients

N = 5


def aim(backend, memory=2**34, devices=1):
    return aimed_at(TargetDevices(backend, backend, jax.local_devices()[:devices], memory))


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
    assert (task.hooks.spread.alone, task.scoring.in_turn) == (enough == 1, enough <= 1_000_000)
    for name, value in found.items():
        np.testing.assert_allclose(value, wanted[name], rtol=2e-4, atol=1e-5, err_msg=name)
