"""Evaluation of a sample: who is drawn, the errors against NumPy by hand, the intervals' coverage, and whole runs."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small import PATTERNS, toy_dataset, toy_hparams, toy_task

from mdfl_jax import Schedule
from mdfl_jax.algorithms.dpsgd import dpsgd
from mdfl_jax.engine.simulation import simulate
from mdfl_jax.metrics import over_clients
from mdfl_jax.metrics.sampling import draw_clients, error_of_clients, error_of_samples, half_width, sampled_scores
from mdfl_jax.models import make_model
from mdfl_jax.networks.spatial import spatial
from mdfl_jax.tasks import classification
from mdfl_jax.tasks.scoring import SAMPLE_GROUPS

N = 12


DRAW = jax.jit(lambda seed, is_mobile, count: draw_clients(jax.random.key(seed), is_mobile, count), static_argnums=2)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 30), st.sampled_from((4, 9, 30)), st.integers(0, 999))
def test_the_kinds_are_drawn_in_proportion(mobile, count, seed):
    num_clients = 30  # one compiled program for each count
    is_mobile = np.isin(np.arange(num_clients), np.random.default_rng(seed).permutation(num_clients)[:mobile])
    drawn, stands_for = map(np.asarray, DRAW(seed, jnp.asarray(is_mobile), count))
    assert len(drawn) == count
    assert (np.diff(drawn) > 0).all()
    assert np.array_equal(np.flatnonzero(stands_for), drawn)
    for kind in (is_mobile, ~is_mobile):
        size, here = kind.sum(), kind[drawn].sum()
        assert here >= min(2, size)
        assert abs(here - count * size / num_clients) <= 2, "in proportion, but at least two of each kind"
        np.testing.assert_allclose(stands_for[drawn][kind[drawn]], size / max(here, 1), rtol=1e-6)


def test_the_error_of_clients_is_that_of_a_stratified_sample():
    rng = np.random.default_rng(0)
    is_mobile, accuracy = np.arange(20) < 8, rng.random(20)
    drawn = np.array([1, 4, 6, 9, 12, 13, 17])
    stands_for = np.zeros(20, np.float32)
    stands_for[drawn] = np.where(is_mobile[drawn], 8 / 3, 12 / 4)
    variance = 0.0
    for size, of_kind in ((8, [1, 4, 6]), (12, [9, 12, 13, 17])):
        s2 = sum((accuracy[i] - np.mean(accuracy[of_kind])) ** 2 for i in of_kind) / (len(of_kind) - 1)
        variance += (size / 20) ** 2 * (1 - len(of_kind) / size) * s2 / len(of_kind)
    unknown = np.where(stands_for > 0, accuracy, np.nan)
    found = error_of_clients(jnp.float32(unknown), jnp.asarray(stands_for), jnp.asarray(is_mobile))
    assert found == pytest.approx(np.sqrt(variance), rel=1e-5)
    everyone = jnp.ones(20, jnp.float32)
    assert error_of_clients(jnp.float32(accuracy), everyone, jnp.asarray(is_mobile)) == 0


def test_the_error_of_samples_is_that_of_a_jackknife():
    """Of a plain mean over groups of equal size, the jackknife is the standard error of the groups' means."""
    rng = np.random.default_rng(1)
    right, weight = rng.random((3, 80)), np.array([1.0, 2.0, 5.0])
    without = np.array(
        [[row[np.arange(80) % SAMPLE_GROUPS != g].mean() for row in right] for g in range(SAMPLE_GROUPS)]
    )
    means = [(weight @ right / weight.sum())[np.arange(80) % SAMPLE_GROUPS == g].mean() for g in range(SAMPLE_GROUPS)]
    expected = np.sqrt((1 - 0.4) * np.var(means, ddof=1) / SAMPLE_GROUPS)
    assert error_of_samples(jnp.float32(without), jnp.float32(weight), 0.4) == pytest.approx(expected, rel=1e-4)


def test_the_half_width_is_students():
    assert half_width(0, 100, np.array([0.0, 0.02])) == pytest.approx(2.093 * 0.02, rel=1e-3)  # 19 degrees of freedom
    assert half_width(12, 0, np.array([0.02, 0.0])) == pytest.approx(2.228 * 0.02, rel=1e-3)  # 10
    assert half_width(12, 100, np.array([0.03, 0.04])) == pytest.approx(2.0555 * 0.05, rel=1e-2)  # 26.6
    assert half_width(12, 100, np.zeros(2)) == 0


@cache
def unequal_models(num_models=60):
    """A task with 400 test samples, and models of very different accuracy."""
    data = toy_dataset(num_test=400, num_classes=5)
    noise = np.random.default_rng(2).normal(0, 90, data.x_test.shape)
    data = data._replace(x_test=np.clip(data.x_test + noise, 0, 255).astype(np.uint8))
    task = classification(data, make_model("linear", 5), num_models)
    prototypes = np.stack([data.x_train[data.y_train == c].mean(axis=0).ravel() for c in range(5)], axis=1)
    centred = (prototypes - prototypes.mean(axis=1, keepdims=True)) / 100
    rng = np.random.default_rng(3)
    noisy = rng.uniform(0.2, 2, (num_models, 1, 1)) * rng.normal(size=(num_models, *centred.shape))
    models = jax.vmap(lambda key: task.init(task.data, key))(jax.random.split(jax.random.key(0), num_models))
    leaves, tree = jax.tree.flatten(models)
    shaped = [jnp.float32(centred + noisy) if leaf.ndim == 3 else 0 * leaf for leaf in leaves]
    return task, jax.tree.unflatten(tree, shaped)


@pytest.mark.few(1)
@pytest.mark.parametrize(("clients", "samples"), [(15, 100), (15, 0), (0, 100)])
def test_the_interval_covers_the_full_value(clients, samples):
    task, models = unequal_models()
    is_mobile = jnp.arange(60) < 18
    schedule = Schedule(2, 1, eval_clients=clients, eval_samples=samples)
    full = np.asarray(task.evaluate(task.data, None, models).accuracy, np.float64)
    assert np.ptp(full) > 0.2
    draws = 600
    one = jax.jit(jax.vmap(lambda key: sampled_scores(task, schedule, task.data, None, models, is_mobile, key)))
    score, sample = jax.device_get(one(jax.random.split(jax.random.key(4), draws)))
    weights = sample.stands_for
    means = np.array([np.average(a[w > 0], weights=w[w > 0]) for a, w in zip(score.accuracy, weights)], np.float64)
    half = np.array([half_width(clients, samples, error) for error in sample.error])
    assert means.mean() == pytest.approx(full.mean(), abs=4 * means.std() / np.sqrt(draws))
    covered = np.mean(abs(means - full.mean()) <= half)
    assert 0.92 <= covered <= 0.985, f"{covered:.3f} of the intervals cover the mean of all"


def test_all_test_samples_of_some_clients_are_exact():
    task, models = unequal_models()
    schedule = Schedule(2, 1, eval_clients=15)
    one = jax.jit(lambda key: sampled_scores(task, schedule, task.data, None, models, jnp.arange(60) < 18, key))
    score, sample = jax.device_get(one(jax.random.key(4)))
    full, known = task.evaluate(task.data, None, models), sample.stands_for > 0
    for found, expected in zip(score, full):
        np.testing.assert_allclose(found[known], np.asarray(expected)[known], rtol=1e-5)
        assert np.isnan(found[~known]).all()
    assert known.sum() == 15
    assert sample.error[1] == 0


def runs(schedule, *mobilities):
    """What is measured under two seeds, for each rule."""
    simulated = jax.jit(jax.vmap(simulate(toy_task(N), spatial(N, 5, PATTERNS), dpsgd(), schedule), (None, 0)))
    keys = jax.random.split(jax.random.key(0), 2)
    return [jax.device_get(simulated(toy_hparams(mobility, num_mobile=4), keys)) for mobility in mobilities]


@pytest.mark.long
def test_a_run_is_the_same_and_only_its_evaluations_are_of_a_sample():
    schedule = Schedule(8, 2)
    (plain,) = runs(schedule, 1)
    found, other = runs(schedule._replace(eval_clients=6, eval_samples=20), 1, 0)
    assert found.accuracy.shape == plain.accuracy.shape == (2, 5, N)
    for e in (0, 4):  # the first and the last evaluation are those of all
        for name in (name for name in plain if plain[name].shape[1] == 5):  # the records of the rounds are empty
            np.testing.assert_allclose(found[name][:, e], plain[name][:, e], rtol=1e-5, atol=1e-6)
        assert (found.evaluated[:, e] == 1).all()
        assert (found.sampling_error[:, e] == 0).all()
    inner = found.accuracy[:, 1:4]
    assert np.array_equal(np.isnan(inner), found.evaluated[:, 1:4] == 0)
    assert ((found.evaluated[:, 1:4] > 0).sum(axis=2) == 6).all()
    assert (found.evaluated[:, 1] == found.evaluated[:, 3]).all(), "one sample in the whole run"
    assert (found.evaluated[0, 1] != found.evaluated[1, 1]).any(), "and another one under another seed"
    np.testing.assert_allclose(found.mean_model_accuracy, plain.mean_model_accuracy, rtol=1e-5)
    assert (found.sampling_error[:, 1:4] > 0).all()
    assert np.array_equal(other.evaluated, found.evaluated), "the same clients for all rules under one seed"


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.integers(1, 6)), min_size=1, max_size=12))
def test_weights_count_as_so_many_clients(clients):
    values, weights = (np.array(column, np.float64) for column in zip(*clients))
    whole = np.repeat(values, weights.astype(int))
    functions = (over_clients.mean, over_clients.variance, over_clients.deviation, over_clients.jain)
    for function in (*functions, over_clients.worst_decile):
        np.testing.assert_allclose(function(values, weights), function(whole), atol=1e-9)
