"""What the files of a study say where only a sample was evaluated: against NumPy by hand, and a study."""

import numpy as np
import pytest
from made_study import measured, summary_of

from mdfl_jax.core.types import RunFacts
from mdfl_jax.metrics import BUILT_IN
from mdfl_jax.metrics.built_in.every_study import DIVERGENCE
from mdfl_jax.metrics.history import Metrics
from mdfl_jax.metrics.sampling import metrics_of_sample
from mdfl_jax.results.lines import metric_lines
from mdfl_jax.results.records import from_devices
from mdfl_jax.storage.disk import plain

IS_MOBILE = np.array([True, True, True, False, False, False])
STANDS_FOR = np.array([1.5, 0, 1.5, 1.5, 1.5, 0])  # of six clients, four are evaluated at the second evaluation
LAST = 2


def sampled_record(seed=0, stands_for=STANDS_FOR):
    """The record of a run with three evaluations, of which the second one is of a sample."""
    drawn = measured("point", seed)
    values = {one.name: drawn.arrays.get(one.in_files) for one in BUILT_IN}
    values = {name: np.zeros(3, np.float32) if array is None else array for name, array in values.items()}
    values |= {name: np.full(3, np.nan, np.float32) for name in DIVERGENCE}
    words = np.random.default_rng(seed).integers(0, 9, (3, 6, 2)).astype(np.uint32)
    weights, errors = np.ones((3, 6), np.float32), np.zeros((3, 2), np.float32)
    weights[1], errors[1] = stands_for, [0.03, 0.04]
    values |= {"round": drawn.rounds, "bits": words, "evaluated": weights, "sampling_error": errors}
    for name in ("accuracy", "loss"):
        values[name] = np.where(weights > 0, values[name], np.nan).astype(np.float32)
    metrics = Metrics((*BUILT_IN, *metrics_of_sample(4, 100)), values)
    facts = RunFacts(np.ones((6, 2), np.int32), IS_MOBILE, np.zeros(6, bool))
    lines = plain(list(metric_lines("point", seed, metrics, IS_MOBILE, None)))
    return from_devices(seed, metrics, facts, lines, 1.0, 2.0), metrics


def test_a_line_has_the_statistics_of_the_sample():
    stands_for = np.array([1, 0, 2, 2, 1, 0.0])
    record, metrics = sampled_record(stands_for=stands_for)
    line, accuracy = record.lines[1], metrics.accuracy[1].astype(np.float64)
    whole = np.repeat(accuracy, stands_for.astype(int))  # six clients, for which the four stand
    assert line["accuracy"] == pytest.approx(whole.mean())
    assert line["accuracy_variance"] == pytest.approx(whole.var())
    assert line["accuracy_jain"] == pytest.approx(whole.sum() ** 2 / (6 * (whole**2).sum()))
    assert line["accuracy_mobile"] == pytest.approx((accuracy[0] + accuracy[2]) / 2)
    assert line["accuracy_other"] == pytest.approx((accuracy[3] + accuracy[4]) / 2)
    assert line["loss"] == pytest.approx(np.repeat(metrics.loss[1], stands_for.astype(int)).mean())
    assert line["messages"] == pytest.approx(metrics.messages[1].mean()), "counts are those of all clients"
    assert line["num_neighbours_mobile"] == pytest.approx(metrics.num_neighbours[1][:3].mean())
    assert 1.9 * 0.05 < line["sampling_error_ci95"] < 2.8 * 0.05
    for e in (0, LAST):
        assert record.lines[e]["accuracy"] == metrics.accuracy[e].astype(np.float64).mean()
        assert record.lines[e]["sampling_error_ci95"] == 0


def test_the_summary_has_the_means_of_the_sample_and_its_interval(tmp_path):
    one, two = sampled_record(0)[0], sampled_record(1)[0]
    entry = summary_of(tmp_path, one, two)
    means = np.array([[line["accuracy"] for line in record.lines] for record in (one, two)])
    assert entry["best_accuracy"]["per_seed"] == pytest.approx(means.max(axis=1))
    assert entry["final_accuracy"]["per_seed"] == pytest.approx(means[:, LAST])
    gaps = [[line["accuracy_mobile"] - line["accuracy_other"] for line in record.lines[1:]] for record in (one, two)]
    assert entry["group_gap"]["mean"]["per_seed"] == pytest.approx(np.mean(gaps, axis=1))
    half = pytest.approx(one.lines[1]["sampling_error_ci95"] / np.sqrt(2))  # of both seeds
    assert entry["sampling"] == {"ci95": half, "round": 2, "mean_ci95": half}
    assert "sampling" not in summary_of(tmp_path, measured("point", 0))
