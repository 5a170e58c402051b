"""What the files of a study say where only a sample was evaluated: against NumPy by hand, and a study."""

import json

import numpy as np
import pytest
from made_study import measured, summary_of
from tiny import run_study, tiny_config

from mdfl_jax.core.types import RunFacts
from mdfl_jax.metrics import BUILT_IN
from mdfl_jax.metrics.built_in.every_study import DIVERGENCE
from mdfl_jax.metrics.history import Metrics
from mdfl_jax.metrics.sampling import metrics_of_sample
from mdfl_jax.report.page import write_report
from mdfl_jax.report.tables import text
from mdfl_jax.results.lines import accuracy_of, metric_lines
from mdfl_jax.results.records import from_devices
from mdfl_jax.storage.disk import plain
from mdfl_jax.study import make_study

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
    assert np.isfinite(whole).all()
    assert line["accuracy"] == pytest.approx(whole.mean())
    assert line["accuracy_std"] == pytest.approx(whole.std())
    assert line["accuracy_variance"] == pytest.approx(whole.var())
    assert line["accuracy_jain"] == pytest.approx(whole.sum() ** 2 / (6 * (whole**2).sum()))
    assert (line["accuracy_min"], line["accuracy_max"]) == (np.nanmin(accuracy), np.nanmax(accuracy))
    assert line["accuracy_mobile"] == pytest.approx((accuracy[0] + accuracy[2]) / 2)
    assert line["accuracy_other"] == pytest.approx((accuracy[3] + accuracy[4]) / 2)
    assert line["loss"] == pytest.approx(np.repeat(metrics.loss[1], stands_for.astype(int)).mean())
    assert line["messages"] == pytest.approx(metrics.messages[1].mean()), "counts are those of all clients"
    assert line["num_neighbours_mobile"] == pytest.approx(metrics.num_neighbours[1][:3].mean())
    assert line["evaluated"] == 4
    assert line["sampling_error"] == pytest.approx(0.05)
    assert (line["sampling_error_clients"], line["sampling_error_samples"]) == pytest.approx((0.03, 0.04))
    assert 1.9 * 0.05 < line["sampling_error_ci95"] < 2.8 * 0.05
    for e in (0, LAST):
        assert record.lines[e]["accuracy"] == metrics.accuracy[e].astype(np.float64).mean()
        assert record.lines[e]["evaluated"] == 6
        assert record.lines[e]["sampling_error_ci95"] == 0


def test_the_summary_has_the_means_of_the_sample_and_its_interval(tmp_path):
    (one, of_one), (two, _) = sampled_record(0), sampled_record(1)
    entry = summary_of(tmp_path, one, two)
    means = np.array([[line["accuracy"] for line in record.lines] for record in (one, two)])
    assert np.isfinite(means).all()
    np.testing.assert_allclose(accuracy_of({key: value[None] for key, value in of_one.items()}, "clients"), means[:1])
    assert entry["best_accuracy"]["per_seed"] == pytest.approx(means.max(axis=1))
    assert entry["final_accuracy"]["per_seed"] == pytest.approx(means[:, LAST])
    gaps = [[line["accuracy_mobile"] - line["accuracy_other"] for line in record.lines[1:]] for record in (one, two)]
    assert entry["group_gap"]["mean"]["per_seed"] == pytest.approx(np.mean(gaps, axis=1))
    assert np.isfinite(entry["worst_client_accuracy"]["per_seed"]).all()
    half = pytest.approx(one.lines[1]["sampling_error_ci95"] / np.sqrt(2))  # of both seeds
    assert entry["sampling"] == {"ci95": half, "round": 2, "mean_ci95": half}
    assert "sampling" not in summary_of(tmp_path, measured("point", 0))


@pytest.mark.long
def test_a_study_of_a_sample_ends_like_one_of_all(tmp_path):
    changes = {"network.num_clients": 12, "network.num_mobile": 3, "rounds": 6, "sweep": "network.mobility=static,dcm"}
    found = {}
    for folder, sample in (("all", {}), ("sample", {"eval_clients": 5, "eval_samples": 30})):
        summary = run_study(make_study(tiny_config(**changes, **sample)), tmp_path / folder)
        found[folder] = json.loads((tmp_path / folder / "summary.json").read_text())["points"]
    for whole, of_sample in zip(found["all"], found["sample"]):
        for key in ("final_accuracy", "worst_client_accuracy", "mean_model_accuracy"):
            assert of_sample[key]["per_seed"] == pytest.approx(whole[key]["per_seed"], rel=1e-5)
        assert of_sample["group_accuracy"]["mobile"]["mean"] == pytest.approx(whole["group_accuracy"]["mobile"]["mean"])
        assert of_sample["bits_sent_per_client"] == whole["bits_sent_per_client"]
        assert 0 < of_sample["sampling"]["ci95"] < 0.5
        assert "sampling" not in whole
    assert "of a sample, which adds an error of at most" in text(summary)
    arrays = np.load(tmp_path / "sample" / "history.npz")
    assert arrays["0/accuracy"].shape == (2, 4, 12)
    assert (np.isnan(arrays["0/accuracy"]) == (arrays["0/evaluated"] == 0)).all()
    page = write_report(tmp_path / "sample").read_text()
    assert "of a sample of 5 clients and 30 test samples; of all at the first and the last" in page


@pytest.mark.long
def test_runs_that_stop_are_evaluated_whole_at_the_end(tmp_path):
    changes = {"data.name": "synthetic:linear", "data.dimension": 4, "algorithm.lr": 0.1, "stop_std": 1e9}
    config = tiny_config(**changes, **{"rounds": 12, "network.num_clients": 12, "eval_clients": 5})
    run_study(make_study(config), tmp_path)
    arrays = np.load(tmp_path / "history.npz")
    assert (arrays["0/rounds_done"][:, -1] < 12).all()
    assert np.isfinite(arrays["0/accuracy"][:, -1]).all()
    assert (arrays["0/evaluated"][:, -2] > 0).sum(axis=1).tolist() == [5, 5]
    assert np.array_equal(arrays["0/accuracy"][:, 3], arrays["0/accuracy"][:, 4], equal_nan=True)
