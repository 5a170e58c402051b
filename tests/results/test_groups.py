"""Metrics by group against a calculation in loops: both worlds, empty groups, and the files that tell them."""

import json

import numpy as np
import pytest
from tiny import run_study

from mdfl_jax.core.outcomes import interval
from mdfl_jax.study import make_study

STUDY = {
    "sweep": "network.num_mobile=0,2,6",
    "seeds": 3,
    "rounds": 6,
    "eval_every": 2,
    "algorithm.lr": 0.3,
    "data.partition": "shards",
    "network.mobility": "random_walk",
    "network.contact": "swept",
    "network.mixing": "uniform",
    "network.radius": 120.0,
}


@pytest.fixture(scope="module")
def workdir(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("groups") / "run"
    run_study(make_study(tiny(**STUDY)), folder)
    return folder


@pytest.fixture(scope="module")
def summary(workdir):
    return json.loads((workdir / "summary.json").read_text())["points"]


def oracle(history, p, s, members):
    """Accuracy at each evaluation and contacts at the end, of a list of clients, one number at a time."""
    accuracy, contacts = [], 0.0
    for e in range(4):
        accuracy.append(sum(float(history[f"{p}/accuracy"][s, e, i]) for i in members) / len(members))
    for i in members:
        for e in range(1, 4):
            contacts += 2 * float(history[f"{p}/num_neighbours"][s, e, i]) / len(members)  # two rounds an evaluation
    return accuracy, contacts


def test_groups_of_the_summary_and_the_lines_are_those_of_the_oracle(workdir, summary):
    lines = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    with np.load(workdir / "history.npz") as arrays:
        history = dict(arrays)
    point, gaps, last_gaps, met = summary[1], [], [], []
    assert history["1/is_mobile"].tolist() == [[True, True, False, False, False, False]] * 3
    for s in range(3):
        (mobile, met_mobile), (other, met_other) = (oracle(history, 1, s, g) for g in ([0, 1], [2, 3, 4, 5]))
        gaps.append(sum(a - b for a, b in zip(mobile[1:], other[1:])) / 3)
        last_gaps.append(mobile[-1] - other[-1])
        met.append((met_mobile, met_other))
        assert point["group_accuracy"]["mobile"]["per_seed"][s] == pytest.approx(mobile[-1])
        assert point["group_accuracy"]["other"]["per_seed"][s] == pytest.approx(other[-1])
        for e, at in enumerate((0, 2, 4, 6)):
            line = next(x for x in lines if (x["point"], x["seed"], x["round"]) == (point["id"], s, at))
            assert line["accuracy_mobile"] == pytest.approx(mobile[e])
            assert line["accuracy_other"] == pytest.approx(other[e])
    assert max(map(abs, gaps)) > 0.01  # the groups do differ
    for key, values in (("mean", gaps), ("final", last_gaps)):
        assert point["group_gap"][key]["per_seed"] == pytest.approx(values)
        assert point["group_gap"][key]["ci95"] == pytest.approx(interval(values)["ci95"])
    assert point["group_neighbours"]["mobile"]["per_seed"] == pytest.approx([m for m, _ in met])
    assert point["group_neighbours"]["other"]["per_seed"] == pytest.approx([o for _, o in met])
    assert min(m for m, _ in met) > 0


def test_contacts_are_the_messages_sent(workdir, summary):
    """D-PSGD sends one message a neighbour a round, counted apart from the neighbours."""
    with np.load(workdir / "history.npz") as history:
        messages = history["1/bits_sent"][:, -1] / (32 * 650)  # a linear model of 8 x 8 images
    assert summary[1]["group_neighbours"]["mobile"]["per_seed"] == pytest.approx(messages[:, :2].mean(1).tolist())
    assert summary[1]["group_neighbours"]["other"]["per_seed"] == pytest.approx(messages[:, 2:].mean(1).tolist())


def test_an_empty_group_has_no_numbers_and_leaves_the_other_alone(workdir, summary):
    for point, empty, whole in ((summary[0], "mobile", "other"), (summary[2], "other", "mobile")):
        nothing = {"mean": None, "std": None, "ci95": None, "per_seed": [None] * 3}
        assert point["group_accuracy"][empty] == point["group_neighbours"][empty] == nothing
        assert point["group_gap"] == {"mean": nothing, "final": nothing}
        assert point["group_accuracy"][whole]["per_seed"] == pytest.approx(point["final_accuracy"]["per_seed"])
    lines = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    ends = [line for line in lines if line["point"] == summary[0]["id"] and line["round"] == 6]
    assert [line["accuracy_mobile"] for line in ends] == [None] * 3
    assert [line["accuracy_other"] for line in ends] == [line["accuracy"] for line in ends]
