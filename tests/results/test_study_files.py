"""What a study writes: the files, their keys, numbers that agree with each other and with a calculation by hand."""

import json
import math

import numpy as np
import pytest
from made_study import summary_of
from scipy import stats
from tiny import run_study

from mdfl_jax.core.types import RunFacts
from mdfl_jax.metrics import BUILT_IN
from mdfl_jax.metrics.built_in.every_study import DIVERGENCE
from mdfl_jax.metrics.history import Metrics
from mdfl_jax.results.lines import metric_lines
from mdfl_jax.results.records import RunRecord, from_devices
from mdfl_jax.storage.disk import plain
from mdfl_jax.storage.study_files import VIEWS, run_path
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


def strict(text):
    """JSON without the NaN and Infinity that Python would take."""

    def refuse(token):
        raise AssertionError(token)

    return json.loads(text, parse_constant=refuse)


@pytest.fixture(scope="module")
def config(tiny):
    return tiny(**STUDY)


@pytest.fixture(scope="module")
def workdir(config, tmp_path_factory):
    """A finished study of 4 points and 3 seeds, half of which diverges, in batches that cut points in two."""
    folder = tmp_path_factory.mktemp("study") / "run"
    study = make_study(config)
    assert len(study.groups) == 1
    returned = run_study(study, folder)
    assert plain(returned) == strict((folder / "summary.json").read_text())
    return folder


@pytest.fixture(scope="module")
def summary(workdir):
    return strict((workdir / "summary.json").read_text())


@pytest.fixture(scope="module")
def lines(workdir):
    return [strict(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def history(workdir):
    with np.load(workdir / "history.npz") as arrays:
        return dict(arrays)


def test_the_files_are_those_promised_and_say_how_they_were_made(workdir, config, summary):
    assert {path.name for path in workdir.iterdir()} - {".mdfl_jax.lock"} == {*VIEWS, "config.json", "runs"}
    manifest = strict((workdir / "config.json").read_text())
    assert (manifest["schema"], manifest["status"], manifest["name"]) == (2, "finished", "tiny")
    assert manifest["config"] == plain(make_study(config).config)
    assert [point["id"] for point in manifest["points"]] == [point["id"] for point in summary["points"]] == IDS
    for point in manifest["points"]:
        assert [RunRecord(run_path(workdir, run)).seed for run in point["runs"]] == [0, 1, 2]
    assert {"python", "jax", "jaxlib", "numpy"} <= manifest["versions"].keys()
    assert (len(manifest["devices"]), manifest["seeds"]) == (8, [0, 1, 2])
    for of in ("compile_seconds", "run_seconds"):
        assert 0 < manifest[of] == pytest.approx(sum(point[of] for point in summary["points"]))
    assert summary["baseline"] == "network.mobility=static"  # two points are baselines
    assert summary["points"][2]["overrides"] == {"network.mobility": "random_movement", "algorithm.lr": 0.1}
    assert sum(point["compile_seconds"] > 0 for point in summary["points"]) == 1  # one program


def test_the_three_files_agree(summary, lines, history):
    by_key = {(line["point"], line["seed"], line["round"]): line for line in lines}
    assert list(by_key) == [(name, seed, at) for name in IDS for seed in range(3) for at in (0, 2, 4)]
    assert len({tuple(line) for line in lines}) == 1  # the same keys in the same order
    np.testing.assert_array_equal(history["rounds"], [0, 2, 4])
    for p, point in enumerate(summary["points"]):
        accuracy = history[f"{p}/accuracy"].astype(np.float64)
        assert accuracy.shape == (3, 3, 6)
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
                assert line["accuracy_std"] == accuracy[s, e].std()
                assert line["bits_sent"] == pytest.approx(history[f"{p}/bits_sent"][s, e].mean(), rel=1e-12)
                assert line["distance_moved"] == history[f"{p}/distance_moved"][s, e].mean(dtype=np.float64)
            curve = [by_key[point["id"], s, at]["accuracy"] for at in (0, 2, 4)]
            assert point["final_accuracy"]["per_seed"][s] == curve[-1]
            assert point["best_accuracy"]["per_seed"][s] == max(curve)
            reached = [at for at, value in zip((0, 2, 4), curve) if value >= 0.3]
            assert point["rounds_to_target_per_seed"][s] == (reached[0] if reached else None)
        mean = [np.mean([by_key[point["id"], s, at]["accuracy"] for s in range(3)]) for at in (0, 2, 4)]
        reached = [at for at, value in zip((0, 2, 4), mean) if value >= 0.3]
        assert point["rounds_to_target"] == (reached[0] if reached else None)
        assert point["bits_sent_per_client"] == history[f"{p}/bits_sent"][:, -1].mean()
        moved = history[f"{p}/distance_moved"][:, -1][history[f"{p}/is_mobile"]]
        assert point["distance_moved_per_mobile_client"] == pytest.approx(moved.mean())


def test_what_is_sent_and_moved_is_counted_from_the_places(history, summary):
    bits = 32 * (64 * 10 + 10)  # a linear model of 8 x 8 images
    for p in range(4):
        place = history[f"{p}/position"].astype(np.float64)  # [S, R + 1, N, 2]
        step = np.sqrt((np.diff(place, axis=1) ** 2).sum(-1))
        np.testing.assert_allclose(history[f"{p}/distance_moved"][:, -1], step.sum(1), rtol=1e-6)
        near = ((place[:, :-1, :, None] - place[:, :-1, None]) ** 2).sum(-1) <= 3.0**2
        heard = near.sum(-1) - 1  # links of a round are those of the places before its movement
        until = 2 if p % 2 else 4  # the points with odd indices diverge at once, and end at the first evaluation
        assert (place[:, until:] == place[:, until : until + 1]).all()
        np.testing.assert_array_equal(history[f"{p}/bits_sent"][:, -1], heard[:, :until].sum(1) * bits)
    assert summary["points"][0]["distance_moved_per_mobile_client"] == 0


def test_statistics_are_those_worked_out_by_hand(summary):
    for point, base in zip(summary["points"], [0, 1, 0, 1]):
        assert point["baseline"] == IDS[base]
        if point["diverged"]:
            assert point["final_accuracy"] == {"mean": None, "std": None, "ci95": None, "per_seed": [None] * 3}
            continue
        values = point["final_accuracy"]["per_seed"]
        std = math.sqrt(sum((v - sum(values) / 3) ** 2 for v in values) / 2)
        assert point["final_accuracy"]["mean"] == pytest.approx(sum(values) / 3)
        assert point["final_accuracy"]["std"] == pytest.approx(std)
        assert point["final_accuracy"]["ci95"] == pytest.approx(4.302652729911275 * std / math.sqrt(3))
        paired = np.subtract(values, summary["points"][base]["final_accuracy"]["per_seed"])
        assert point["difference_to_baseline"]["mean"] == pytest.approx(paired.mean())
        expected = stats.t.ppf(0.975, 2) * paired.std(ddof=1) / math.sqrt(3)
        assert point["difference_to_baseline"]["ci95"] == pytest.approx(expected)
    assert summary["points"][0]["difference_to_baseline"] == {"mean": 0.0, "ci95": 0.0}


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
