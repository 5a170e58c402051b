"""What a study writes: files that agree with each other, and summaries, of groups and samples too, by hand."""

import json

import numpy as np
import pytest
from made_study import made, measured, summary_of

from mdfl_jax.core.outcomes import interval
from mdfl_jax.core.types import RunFacts
from mdfl_jax.metrics import BUILT_IN
from mdfl_jax.metrics.built_in.every_study import DIVERGENCE
from mdfl_jax.metrics.history import Metrics
from mdfl_jax.metrics.sampling import metrics_of_sample
from mdfl_jax.results.lines import metric_lines
from mdfl_jax.results.records import from_devices
from mdfl_jax.storage.disk import plain

STUDY = {"sweep": "network.mobility=static,random_movement", "baseline": "network.mobility=static", "seeds": 3}
IDS = ["static", "random_movement"]


def refuse(token):
    """Takes the place of the NaN and Infinity that Python would take in JSON."""
    raise AssertionError(token)


def strict(text):
    return json.loads(text, parse_constant=refuse)


def test_the_three_files_agree(tmp_path):
    workdir = made(tmp_path / "run", **STUDY).workdir
    summary = strict((workdir / "summary.json").read_text())
    lines = [strict(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    history = np.load(workdir / "history.npz")
    by_key = {(line["point"], line["seed"], line["round"]): line for line in lines}
    assert list(by_key) == [(name, seed, at) for name in IDS for seed in range(3) for at in (0, 2, 4)]
    np.testing.assert_array_equal(history["rounds"], [0, 2, 4])
    for p, point in enumerate(summary["points"]):
        accuracy = history[f"{p}/accuracy"].astype(np.float64)
        for s in range(3):
            for e, at in enumerate((0, 2, 4)):
                line = by_key[point["id"], s, at]
                assert line["accuracy"] == accuracy[s, e].mean()
                assert line["accuracy_min"] == accuracy[s, e].min()
                assert line["bits_sent"] == pytest.approx(history[f"{p}/bits_sent"][s, e].mean(), rel=1e-12)
            curve = [by_key[point["id"], s, at]["accuracy"] for at in (0, 2, 4)]
            assert point["final_accuracy"]["per_seed"][s] == curve[-1]
            reached = [at for at, value in zip((0, 2, 4), curve) if value >= 0.3]
            assert point["rounds_to_target_per_seed"][s] == (reached[0] if reached else None)
        mean = [np.mean([by_key[point["id"], s, at]["accuracy"] for s in range(3)]) for at in (0, 2, 4)]
        reached = [at for at, value in zip((0, 2, 4), mean) if value >= 0.3]
        assert point["rounds_to_target"] == (reached[0] if reached else None)
        assert point["bits_sent_per_client"] == history[f"{p}/bits_sent"][:, -1].mean()
        moved = history[f"{p}/distance_moved"][:, -1][history[f"{p}/is_mobile"]]
        assert point["distance_moved_per_mobile_client"] == pytest.approx(moved.mean())


def test_a_summary_of_numbers_that_are_easy_to_check(tmp_path):
    """Two seeds, three evaluations, two clients; the target is met exactly, by each seed at another evaluation."""
    values = {metric.name: np.zeros((2, 3, *metric.dims(2))) for metric in BUILT_IN}
    values |= {name: np.full((2, 3), np.nan) for name in DIVERGENCE}
    values |= {metric.name: np.zeros((2, 0)) for metric in BUILT_IN if metric.by_round}
    values["round"] = np.array([[0, 10, 20]] * 2)
    values["accuracy"] = np.array([[[0, 0], [0.25, 0.75], [0.75, 1]], [[0, 0], [0, 0.5], [0.25, 0.75]]])
    values["bits"] = np.zeros((2, 3, 2, 2), np.uint32)
    values["bits"][:, 1:, :, 1] = [[[100, 300], [400, 600]], [[100, 100], [200, 400]]]
    facts = RunFacts(np.zeros((2, 2, 3)), np.array([[True, False]] * 2), np.zeros((2, 2), bool))
    records = []
    for s in range(2):
        metrics = Metrics(BUILT_IN, {name: value[s] for name, value in values.items()})
        own = RunFacts(*(fact[s] for fact in facts))
        lines = list(metric_lines("all", s, metrics, own.is_mobile, None))
        records.append(from_devices(s, metrics, own, lines, 1.0, 2.0))
    found = summary_of(tmp_path, *records, target=0.5)
    assert found["final_accuracy"]["per_seed"] == [0.875, 0.5]
    assert found["worst_client_accuracy"]["per_seed"] == [0.75, 0.25]
    assert found["rounds_to_target_per_seed"] == [10, 20]
    assert found["bits_to_target_per_seed"] == [200.0, 300.0]
    assert found["rounds_to_target"] == 20  # the mean over seeds is 0.375, then 0.6875
    assert found["bits_sent_per_client"] == 400.0


def oracle(run, members):
    """Accuracy at each evaluation and contacts at the end, of a list of clients, one number at a time."""
    accuracy, contacts = [], 0.0
    for e in range(4):
        accuracy.append(sum(float(run.arrays["accuracy"][e, i]) for i in members) / len(members))
    for i in members:
        for e in range(1, 4):  # two rounds an evaluation
            contacts += 2 * float(run.arrays["num_neighbours"][e, i]) / len(members)
    return accuracy, contacts


def test_groups_of_the_summary_and_the_lines_are_those_of_the_oracle(tmp_path):
    runs, gaps, last_gaps = [measured("p", seed, rounds=6, mobile=2) for seed in range(3)], [], []
    point = summary_of(tmp_path, *runs)
    for s, run in enumerate(runs):
        (mobile, met_mobile), (other, met_other) = (oracle(run, members) for members in ([0, 1], [2, 3, 4, 5]))
        gaps.append(sum(a - b for a, b in zip(mobile[1:], other[1:])) / 3)
        last_gaps.append(mobile[-1] - other[-1])
        for group, accuracy, met in (("mobile", mobile, met_mobile), ("other", other, met_other)):
            assert point["group_accuracy"][group]["per_seed"][s] == pytest.approx(accuracy[-1])
            assert point["group_neighbours"][group]["per_seed"][s] == pytest.approx(met)
            assert [line[f"accuracy_{group}"] for line in run.lines] == pytest.approx(accuracy)
    for key, values in (("mean", gaps), ("final", last_gaps)):
        assert point["group_gap"][key]["per_seed"] == pytest.approx(values)
        assert point["group_gap"][key]["ci95"] == pytest.approx(interval(values)["ci95"])
    nothing = {"mean": None, "std": None, "ci95": None, "per_seed": [None]}
    for mobile, empty, whole in ((0, "mobile", "other"), (6, "other", "mobile")):
        point = plain(
            summary_of(tmp_path / empty, measured("p", 0, rounds=6, mobile=mobile))
        )  # NaN is null in the file
        assert point["group_accuracy"][empty] == point["group_neighbours"][empty] == nothing
        assert point["group_accuracy"][whole]["per_seed"] == pytest.approx(point["final_accuracy"]["per_seed"])


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
