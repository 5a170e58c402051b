"""The regressions against plain NumPy, their recipe, and the stop rule."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mdfl_jax import Hparams, Schedule, simulate
from mdfl_jax.algorithms.dpsgd import dpsgd
from mdfl_jax.algorithms.local import LocalNumbers
from mdfl_jax.core.stopping import initial_stop_state, update_stop_state
from mdfl_jax.networks.spatial import SpatialParams, spatial
from mdfl_jax.tasks.regression import LinearNumbers, LogisticNumbers, draw_samples, draw_truth, regression

N, DIM, Q = 4, 12, 7
EVERYBODY = SpatialParams(radius=np.float32(np.inf))


KINDS = {"linear": LinearNumbers, "logistic": partial(LogisticNumbers, l2=0.0)}


def drawn(kind, **numbers):
    task = regression(kind, N, DIM, Q, test_samples=50)
    return task, task.partition(None, KINDS[kind](**numbers), jax.random.key(0))


def test_the_truth_has_the_papers_share_of_coordinates_and_size():
    for kind, share in (("linear", 0.01), ("logistic", 0.5)):
        truth = np.asarray(draw_truth(jax.random.key(0), 1000, jnp.float32, KINDS[kind]().truth_share))
        assert np.count_nonzero(truth) == 1000 * share
        size = np.abs(truth[truth != 0])
        assert 0.5 <= size.min() <= size.max() <= 2.0
        assert truth.min() < 0 < truth.max()


def test_targets_follow_the_recipe():
    truth = draw_truth(jax.random.key(0), 40, jnp.float32, 0.01)
    a, b = draw_samples(jax.random.key(1), "linear", truth, 20_000)
    noise = np.asarray(b - a @ truth)
    assert abs(noise.std() - 0.5) < 0.01
    assert abs(noise.mean()) < 0.015
    assert abs(np.asarray(a).std() - 1) < 0.01
    a, b = draw_samples(jax.random.key(1), "logistic", truth / 2, 20_000)
    z = np.asarray(a @ (truth / 2))
    expected = 1 / (1 + np.exp(-z))
    assert abs(float((np.asarray(b) - expected).mean())) < 0.01
    assert abs(float(((np.asarray(b) - expected) * z).mean())) < 0.02  # no trend left along <a, w*>
    assert set(np.unique(b)) == {0.0, 1.0}


def test_the_stop_rule_is_numpys_standard_deviation_of_the_last_three():
    values = [9.0, 4.0, 4.1, 4.05, 4.0501, 4.0502, 4.0501, 4.05]
    watch = initial_stop_state(jnp.float32)
    for done, value in enumerate(values, 1):
        watch = update_stop_state(watch, jnp.float32(value), 1e-3)
        recent = values[max(done - 3, 0) : done]
        assert bool(watch.stopped) == (len(recent) == 3 and np.std(recent) < 1e-3)
        assert int(watch.rounds) == done
        assert bool(update_stop_state(watch, jnp.float32(np.inf), 1e-3).stopped)
        waited = update_stop_state(watch, jnp.float32(value), 1e-3, moved=jnp.bool_(False))
        assert not bool(waited.stopped)  # a round in which nothing happened says nothing
        assert np.array_equal(waited.recent, watch.recent, equal_nan=True)


@cache
def program(stop_std, eval_every):
    task = regression("linear", N, DIM, 40)
    return jax.jit(simulate(task, spatial(N, 3), dpsgd(), Schedule(60, eval_every, stop_std=stop_std)))


def run(stop_std, eval_every=20, lr=0.2):
    hparams = Hparams(LinearNumbers(), EVERYBODY, LocalNumbers(lr=np.float32(lr)))
    return program(stop_std, eval_every)(hparams, jax.random.key(0))


def test_a_stopped_run_holds_still_and_counts_nothing():
    every = run(0.0, eval_every=1)
    objectives = np.asarray(every.objective, np.float64)
    still = [k for k in range(3, 61) if np.std(objectives[k - 2 : k + 1]) < 1e-3]
    stopped = run(1e-3)
    done = int(stopped.rounds_done[-1])
    assert done == still[0]
    assert stopped.round.tolist() == [0, 20, 40, 60]
    np.testing.assert_allclose(stopped.objective[-1], objectives[done], rtol=1e-6)
    assert stopped.messages[-1].tolist() == every.messages[done].tolist()
    assert int(every.rounds_done[-1]) == 60
    diverging = run(1e-3, lr=1e18)
    assert int(diverging.rounds_done[-1]) < 60
    assert not np.isfinite(diverging.objective[-1])


@pytest.mark.long
def test_double_precision_reaches_what_single_cannot():
    def final(precision):
        task = regression("linear", N, DIM, 40, precision=precision)
        simulation = simulate(task, spatial(N, 3), dpsgd(), Schedule(300, 100))
        numbers = Hparams(LinearNumbers(), EVERYBODY, LocalNumbers(lr=np.float32(0.2)))
        return jax.jit(simulation)(numbers, jax.random.key(0))

    with jax.enable_x64(True):
        metrics = final("float64")
        assert metrics.objective.dtype == jnp.float64
        assert metrics.consensus_distance[-1] < 1e-12
        assert int(metrics.messages[-1, 0]) == 300 * (N - 1)
    assert final("float32").objective.dtype == jnp.float32


def test_shift_moves_the_clients_truths_apart_and_only_where_the_common_one_is():
    shifted, same = (drawn("linear", shift=np.float32(s))[1] for s in (3.0, 0.0))
    truth = draw_truth(jax.random.split(jax.random.key(0), 5)[0], DIM, jnp.float32, 0.01)
    (where,) = np.flatnonzero(truth)
    assert np.array_equal(shifted.train.features, same.train.features)
    moved = np.asarray(shifted.train.targets - same.train.targets) / np.asarray(same.train.features[:, :, where])
    np.testing.assert_allclose(moved, np.repeat(moved[:, :1], Q, axis=1), rtol=1e-2)  # one number a client
    assert np.ptp(moved[:, 0]) > 0.5
