"""What a study writes: the files, their keys, numbers that agree with each other and with a calculation by hand."""

import json

import numpy as np
import pytest
from made_study import summary_of
from tiny import run_study, tiny_config

from mdfl_jax.core.types import RunFacts
from mdfl_jax.metrics import BUILT_IN
from mdfl_jax.metrics.built_in.every_study import DIVERGENCE
from mdfl_jax.metrics.history import Metrics
from mdfl_jax.results.lines import metric_lines
from mdfl_jax.results.records import from_devices
from mdfl_jax.storage.disk import plain
from mdfl_jax.study import make_study

STUDY = {
    "sweep": "network.mobility=static,random_movement; algorithm.lr=0.1,1e30",
    "baseline": "network.mobility=static",
    "seeds": 3,
    "data.partition": "dirichlet",
    "data.alpha": 0.3,
    "algorithm.weight_decay": 0.01,  # the gradient of a linear model is bounded, that of the penalty is not
    "engine.runs_per_batch": 4,
}
IDS = ["static, lr=0.1", "static, lr=1e+30", "random_movement, lr=0.1", "random_movement, lr=1e+30"]


def refuse(token):
    """Takes the place of the NaN and Infinity that Python would take in JSON."""
    raise AssertionError(token)


def strict(text):
    return json.loads(text, parse_constant=refuse)


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    """A finished study of 4 points and 3 seeds, half of which diverges, in batches that cut points in two."""
    folder = tmp_path_factory.mktemp("study") / "run"
    returned = run_study(make_study(tiny_config(**STUDY)), folder)
    assert plain(returned) == strict((folder / "summary.json").read_text())
    return folder


@pytest.fixture(scope="module")
def summary(workdir):
    return strict((workdir / "summary.json").read_text())


def test_the_three_files_agree(workdir, summary):
    lines = [strict(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    history = np.load(workdir / "history.npz")
    by_key = {(line["point"], line["seed"], line["round"]): line for line in lines}
    assert list(by_key) == [(name, seed, at) for name in IDS for seed in range(3) for at in (0, 2, 4)]
    np.testing.assert_array_equal(history["rounds"], [0, 2, 4])
    for p, point in enumerate(summary["points"]):
        accuracy = history[f"{p}/accuracy"].astype(np.float64)
        if point["diverged"]:
            assert {line["accuracy"] for line in lines if line["point"] == point["id"] and line["round"]} == {None}
            assert np.isnan(accuracy[:, 1:]).all()
            assert point["final_accuracy"]["per_seed"] == point["rounds_to_target_per_seed"] == [None] * 3
            assert point["bits_sent_per_client"] is point["distance_moved_per_mobile_client"] is None
            continue
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
