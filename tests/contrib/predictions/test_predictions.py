"""Metrics of the predictions, measured on request: against loops in NumPy, over meshes, and in the files of a study."""

from functools import cache

import jax
import numpy as np
import pytest
from small import toy_dataset, toy_hparams, toy_task

from mdfl_jax import Schedule
from mdfl_jax.algorithms.dpsgd import dpsgd
from mdfl_jax.contrib.predictions import predictions
from mdfl_jax.contrib.predictions.predictions import BINS
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.metrics.declare import METRICS
from mdfl_jax.networks.spatial import spatial

N, C = 6, 4  # label 3 has training samples and no test samples
OWN = [METRICS[name] for name in METRICS if METRICS[name].measure.__module__ == predictions.__name__]


@cache
def dataset():
    data = toy_dataset(num_train=90, num_test=31, num_classes=3)
    y_train = data.y_train.copy()
    y_train[::9] = 3
    return data._replace(y_train=y_train, num_classes=C, client=np.arange(90) % 7, client_test=np.arange(31) % 7)


@cache
def measured():
    """The models after two rounds, their logits for the test samples, and all metrics on request."""
    task = toy_task(N, dataset=dataset())
    schedule = Schedule(2, 2, metrics=tuple(one.name for one in OWN if "labels_here" not in one.scores.needs))
    simulation = Simulation(task, spatial(N, 5, ["static"]), dpsgd(), schedule)
    hparams, key = toy_hparams(0, alpha=0.3, lr=0.05), jax.random.key(0)
    carry, _ = jax.jit(simulation.init)(simulation.data, hparams, key)
    carry, metrics = jax.jit(simulation.advance)(simulation.data, hparams, key, carry)
    counts = np.asarray(carry.clients.label_counts)
    models = dpsgd().params(carry.algorithm)
    mean = jax.tree.map(lambda leaf: leaf.mean(axis=0, keepdims=True), models)
    logits, judged = (np.asarray(logits_of(task, params), np.float64) for params in (models, mean))
    return jax.device_get(metrics), counts, logits, judged[0]


def logits_of(task, models):
    """[M, samples, C], gathered by a tally: one chunk holds all test samples of the toy data set."""
    return task.scoring.over_test(task.data, None, models, lambda logits, labels, mask: logits * mask[None, :, None])


def test_class_accuracy_against_loops():
    metrics, _, _, judged = measured()
    labels = dataset().y_test
    for c in range(3):
        mine = [judged[k].argmax() == c for k in range(len(labels)) if labels[k] == c]
        assert metrics.class_accuracy[c] == pytest.approx(np.mean(mine))
    assert np.isnan(metrics.class_accuracy[3])
    assert np.nanmin(metrics.class_accuracy) < np.nanmax(metrics.class_accuracy), "a test that can see a mistake"


def test_personal_accuracy_against_loops():
    metrics, counts, logits, _ = measured()
    labels = dataset().y_test
    for i in range(N):
        right = [logits[i, k].argmax() == labels[k] for k in range(len(labels))]
        of_label = [np.mean([r for r, y in zip(right, labels) if y == c]) for c in range(3)]
        expected = sum(counts[i, c] * of_label[c] for c in range(3)) / counts[i, :3].sum()
        assert metrics.personal_accuracy[i] == pytest.approx(expected, rel=1e-5)
    assert (np.abs(metrics.personal_accuracy - metrics.accuracy) > 0.01).any()


def test_the_worst_decile_is_of_the_clients_that_are_known():
    values = np.append(np.linspace(0.2, 0.9, 25), [np.nan] * 5)
    assert METRICS["personal_accuracy"].reduction.more["worst_decile"](values) == pytest.approx(np.mean(values[:2]))
    assert np.isnan(METRICS["local_accuracy"].reduction.more["worst_decile"](values[-5:]))


def test_calibration_error_against_loops():
    metrics, _, _, judged = measured()
    labels, found = dataset().y_test, 0.0
    of_bin = [[] for _ in range(BINS)]
    for logits, label in zip(judged, labels):
        probability = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
        place = next(b for b in range(BINS) if probability.max() <= (b + 1) / BINS + 1e-12)
        of_bin[place].append((logits.argmax() == label, probability.max()))
    for members in filter(None, of_bin):
        correct, confidence = np.mean(members, axis=0)
        found += len(members) / len(labels) * abs(correct - confidence)
    assert sum(map(bool, of_bin)) > 3
    assert metrics.calibration_error == pytest.approx(found, rel=1e-4)
