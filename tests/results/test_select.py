"""Step sizes chosen by the validation loss, synthetic data, the stop rule and x axes, from the config to the report."""

import json

import numpy as np
import pytest
from tiny import run_study

from mdfl_jax.config import default_config
from mdfl_jax.data.dataset import Dataset, hold_out
from mdfl_jax.report import tables
from mdfl_jax.report.read import read_workdir
from mdfl_jax.results.summary import select
from mdfl_jax.study import make_study


def entry(lr, loss, name="dpsgd", diverged=False):
    overrides = {"algorithm.name": name, "algorithm.lr": lr}
    return {
        "id": f"{name}, lr={lr}",
        "overrides": overrides,
        "validation_loss": {"mean": loss},
        "diverged": {"0": 3} if diverged else {},
    }


def test_the_best_of_each_group_is_chosen_and_edges_and_failures_are_told():
    entries = [entry(0.1, 0.5), entry(0.2, 0.3), entry(0.4, 0.1, diverged=True)]
    entries += [entry(0.1, 0.2, "pame"), entry(0.2, 0.4, "pame")]
    entries += [entry(0.1, float("nan"), "beer"), entry(0.2, 0.1, "beer", diverged=True)]
    by_dpsgd, by_pame, by_beer = select(entries, "algorithm.lr")
    assert (by_dpsgd["id"], by_dpsgd["value"], by_dpsgd["at_edge"]) == ("dpsgd, lr=0.2", 0.2, False)
    assert (by_pame["value"], by_pame["at_edge"], by_pame["of"]) == (0.1, True, {"algorithm.name": "pame"})
    assert by_beer["id"] is None


def test_points_are_chosen_by_what_is_judged():
    """The fewest bits to the target; a point that does not reach it is behind, and equal ones go by the loss."""
    entries = [entry(lr, loss) for lr, loss in ((0.1, 0.1), (0.2, 0.5), (0.4, 0.4), (0.8, 0.3))]
    entries += [entry(0.1, 0.6, "pame"), entry(0.2, 0.5, "pame")]
    for found, bits in zip(entries, (None, 70.0, 60.0, 60.0, None, None)):
        found["bits_to_target"] = bits
    by_dpsgd, by_pame = select(entries, "algorithm.lr", "bits_to_target")
    assert (by_dpsgd["value"], by_dpsgd["bits_to_target"], by_dpsgd["validation_loss"]) == (0.8, 60.0, 0.3)
    assert by_dpsgd["by"] == "bits_to_target"
    assert (by_pame["value"], by_pame["bits_to_target"]) == (0.2, None)
    assert set(select(entries, "algorithm.lr")[0]) == {"of", "id", "value", "validation_loss", "at_edge"}


def test_several_fields_are_chosen_together():
    entries = []
    for lr, pace, loss in ((0.1, 0.2, 0.5), (0.1, 0.4, 0.3), (0.1, 0.8, 0.4), (0.2, 0.4, 0.2), (0.4, 0.4, 0.6)):
        entries.append(entry(lr, loss, "beer"))
        entries[-1]["overrides"]["algorithm.consensus_lr"] = pace
    (found,) = select(entries, "algorithm.lr, algorithm.consensus_lr")
    assert found["of"] == {"algorithm.name": "beer"}
    assert found["values"] == {"algorithm.lr": 0.2, "algorithm.consensus_lr": 0.4}
    assert (found["value"], found["at_edge"]) == (0.2, False)
    (found,) = select(entries[:3], "algorithm.lr, algorithm.consensus_lr")  # one step size tried, which has no edge
    assert (found["values"]["algorithm.consensus_lr"], found["at_edge"]) == (0.4, False)


def synthetic(**changes):
    start = {
        "data.name": "synthetic:linear", "data.dimension": 20, "data.samples_per_client": 30,
        "network.num_clients": 5, "network.radius": float("inf"), "network.num_mobile": 2,
        "seeds": 2, "rounds": 40, "eval_every": 10, "stop_std": 1e-3,
        "sweep": "algorithm.name=dpsgd,local_only; algorithm.lr=0.05,0.1,0.2", "select": "algorithm.lr",
    }  # fmt: skip
    config = default_config()
    config.update_from_flattened_dict(start | changes)
    return config


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("selected") / "run"
    run_study(make_study(synthetic(x_axis="bits")), folder)
    return folder


@pytest.mark.long
def test_a_study_reports_the_best_points_only_and_keeps_all(workdir):
    summary = json.loads((workdir / "summary.json").read_text())
    assert len(summary["points"]) == 6
    assert [e["of"] for e in summary["selected"]] == [{"algorithm.name": "dpsgd"}, {"algorithm.name": "local_only"}]
    for chosen in summary["selected"]:
        members = [p for p in summary["points"] if p["id"].startswith(chosen["of"]["algorithm.name"])]
        assert chosen["validation_loss"] == min(p["validation_loss"]["mean"] for p in members)
    run = read_workdir(workdir)
    assert [p["id"] for p in run.points] == [e["id"] for e in summary["selected"]]
    assert [axis.path for axis in run.axes] == ["algorithm.name"]
    assert len(tables.table(summary, run.config)[1]) == 2
    assert "least validation loss" in tables.note(summary, run.config)
    with np.load(workdir / "history.npz") as history:  # the arrays of a chosen point go with it
        ids = [p["id"] for p in summary["points"]]
        for p, point in enumerate(run.points):
            assert np.array_equal(run.array(p, "position"), history[f"{ids.index(point['id'])}/position"][0])


@pytest.mark.long
def test_stopped_runs_tell_their_rounds_and_what_they_sent(workdir):
    summary = json.loads((workdir / "summary.json").read_text())
    lines = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    for point in summary["points"]:
        done = point["rounds_done"]["per_seed"]
        assert all(3 <= r <= 40 for r in done)
        last = [x for x in lines if x["point"] == point["id"] and x["round"] == 40]
        assert [x["rounds_done"] for x in last] == done
        if point["id"].startswith("dpsgd"):
            assert point["messages_per_client"] == np.mean(done) * 4
            assert point["bits_sent_per_client"] == np.mean(done) * 4 * 32 * 20
            assert point["double_bits_per_client"] == np.mean(done) * 4 * 64 * 20
        else:
            assert point["bits_sent_per_client"] == 0
    assert min(min(p["rounds_done"]["per_seed"]) for p in summary["points"]) < 40


@pytest.mark.long
def test_runs_that_the_host_ends_are_as_those_held_still_to_the_end(workdir, tmp_path):
    """A batch is ended once all its runs have stopped; here one run never stops, and the others wait for it."""
    config = synthetic()
    config.sweep, config.select, config.engine.runs_per_batch = "algorithm.lr=0.2,1e-9", "", 4
    config.stop_std = 1e-12
    together = run_study(make_study(config), tmp_path / "together")
    assert len({p["rounds_done"]["mean"] for p in together["points"]}) == 2
    config.engine.runs_per_batch = 1
    apart = run_study(make_study(config), tmp_path / "apart")
    for a, b in zip(together["points"], apart["points"]):
        for key in ("rounds_done", "objective", "final_accuracy", "bits_sent_per_client"):
            assert a[key] == b[key]
    with np.load(tmp_path / "together" / "history.npz") as x, np.load(tmp_path / "apart" / "history.npz") as y:
        assert x.files == y.files
        for key in x.files:
            np.testing.assert_allclose(x[key], y[key], rtol=1e-6, err_msg=key)


def test_held_out_samples_are_spread_and_disjoint():
    x = np.arange(10, dtype=np.uint8).reshape(10, 1, 1, 1)
    data = Dataset("ten", x, np.arange(10, dtype=np.int32), x, np.arange(10, dtype=np.int32), 10)
    held = hold_out(data, 3)
    assert held.y_validation.tolist() == [0, 3, 6]
    assert held.y_train.tolist() == [1, 2, 4, 5, 7, 8, 9]
    assert held.x_train.ravel().tolist() == held.y_train.tolist()
    assert hold_out(data, 0) is data


@pytest.mark.long
def test_an_algorithm_that_waits_is_not_stopped_for_it(tmp_path):
    config = synthetic(**{"select": "", "sweep": "", "algorithm.name": "anq_nids", "algorithm.lr": 0.1})
    config.network.graph, config.algorithm.period_min, config.algorithm.period_max = "complete", 4, 4
    (point,) = run_study(make_study(config), tmp_path / "run")["points"]
    assert min(point["rounds_done"]["per_seed"]) > 9  # three steps at least, each in a round of the period
    assert point["messages_per_client"] > 0
