"""Devices that share a run do what one does: every kind of task, metric and record, with clients they do not divide.

The algorithms and compressors are in tests/algorithms/test_contract.py and tests/reference.
"""

import jax
import numpy as np
import pytest
from collectives import unordered
from small import PATTERNS, Normalised, assert_trees_equal, toy_dataset, toy_hparams

from mdfl_jax import Hparams, Schedule
from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import LocalNumbers
from mdfl_jax.core.sharding import client_mesh
from mdfl_jax.data.augment import Augmentation
from mdfl_jax.data.partition.by_owner import OwnerNumbers
from mdfl_jax.engine.programs import Placement, traced_steps
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.models import make_model
from mdfl_jax.networks.meetings import FixedNumbers, MeetingsParams, meetings
from mdfl_jax.networks.spatial import spatial
from mdfl_jax.study.study import make_study
from mdfl_jax.tasks import classification
from mdfl_jax.tasks.gradients import Tiling
from mdfl_jax.tasks.regression import LinearNumbers, regression

N = 8


def simulation(task, schedule, hparams=None):
    """D-PSGD in space."""
    space = spatial(task.num_clients, 5, PATTERNS)
    return Simulation(task, space, ALGORITHMS["dpsgd"](), schedule), hparams or toy_hparams(num_mobile=4, alpha=0.3)


def predictions(mesh):
    task = classification(toy_dataset(), make_model("linear", 3), N, mesh=mesh)
    asked = ("class_accuracy", "personal_accuracy", "calibration_error")
    return simulation(task, Schedule(2, 2, metrics=asked))


def owners(mesh):
    rng = np.random.default_rng(3)
    data = toy_dataset()._replace(client=rng.integers(0, 8, 90), client_test=rng.integers(0, 8, 30))
    task = classification(data, make_model("linear", 3), N, partition="by_owner", mesh=mesh)
    return simulation(task, Schedule(2, 2, metrics=("local_accuracy",)), toy_hparams()._replace(task=OwnerNumbers()))


def a_sample(mesh):
    task = classification(toy_dataset(num_test=64), make_model("linear", 3), 12, mesh=mesh)
    return simulation(task, Schedule(6, 2, eval_clients=6, eval_samples=40))


def batch_statistics(mesh, batch_size=10):
    """Crops and flips; minibatches, or blocks that the devices share."""
    how = {"tiling": Tiling(30), "augmentation": Augmentation(1, True)}
    task = classification(toy_dataset(), Normalised(), 12, batch_size=batch_size, mesh=mesh, **how)
    return simulation(task, Schedule(2, 2), toy_hparams(alpha=0.05))


def the_stop_rule(mesh):
    """A round is computed and then kept or not: a condition around it would hold collectives."""
    task = regression("linear", N, 6, 4, test_samples=20, mesh=mesh)
    of = Simulation(task, meetings(N), ALGORITHMS["dpsgd"](), Schedule(4, 2, stop_std=1e-3))
    params = MeetingsParams(numbers=FixedNumbers(interval=3))
    return of, Hparams(LinearNumbers(shift=0.5, l2=0.1), params, LocalNumbers(lr=np.float32(0.1)))


CASES = {
    "predictions": predictions,
    "owners": owners,
    "a sample": a_sample,
    "statistics of minibatches": batch_statistics,
    "statistics of blocks": lambda mesh: batch_statistics(mesh, 0),
    "the stop rule": the_stop_rule,
}


def outcome(case, devices):
    """The metrics of all evaluations, the clients' models, and the text of the compiled rounds."""
    of, hparams = CASES[case](client_mesh(jax.devices()[:devices]))
    key = jax.random.key(3)
    carry, first = jax.jit(of.init)(of.data, hparams, key)
    advance = jax.jit(of.advance).lower(of.data, hparams, key, carry).compile()
    history = [first]
    for _ in range(of.num_evaluations):
        carry, metrics = advance(of.data, hparams, key, carry)
        history.append(metrics)
    models = jax.tree.map(lambda leaf: leaf[: of.num_clients], of.models(carry)[0])
    return jax.device_get((history, models)), advance.as_text()


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_four_devices_do_what_one_does(case):
    """No collective may run beside another (`collectives`); in two kinds of evaluation a condition still has some."""
    (one, models), _ = outcome(case, 1)
    (four, same_models), text = outcome(case, 4)
    for before, after in zip(one, four, strict=True):
        for name in before:
            exact = np.asarray(before[name]).dtype.kind != "f"
            assert_trees_equal(before[name], after[name], 0 if exact else 1e-4)
    assert_trees_equal(models, same_models, 5e-5)
    assert max(float(np.ptp(leaf, axis=0).max()) for leaf in jax.tree.leaves(models)) > 1e-3  # what this is worth
    assert case in ("owners", "a sample") or unordered(text)[1] == []


@pytest.mark.long
def test_no_step_of_a_run_in_the_plane_has_a_collective_beside_another(tiny):
    """Clients draw their first waypoints until one is far enough: a loop that the compiler would end on all devices."""
    changes = {"network.mobility": "random_waypoint", "network.num_clients": 8, "network.num_mobile": 8}
    changes |= {"network.contact": "swept", "network.radius": 250.0, "radio.name": "log_distance"}
    changes |= {"radio.sharing": "turns", "engine.client_devices": 8, "seeds": 1, "data.partition": "dirichlet"}
    group = make_study(tiny(**changes)).groups[0]
    placement = Placement(group.simulation, 1)
    turn = placement.inputs([group.hparams[0]], [0])[0]
    found = {step.name: unordered(step.lower().compile().as_text()) for step in traced_steps(placement, turn, turn)}
    assert found["rounds"][0] > 0
    assert [name for name, (_, pairs) in found.items() if pairs] == []
