"""Step sizes chosen by the validation loss, synthetic data, the stop rule and x axes, from the config to the report."""

import numpy as np
import pytest
from tiny import run_study

from mdfl_jax.config import default_config
from mdfl_jax.report import tables
from mdfl_jax.results.results import Results
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


@pytest.mark.long
def test_a_study_reports_the_best_points_only_keeps_all_and_tells_the_rounds_of_stopped_runs(tmp_path):
    summary = run_study(make_study(synthetic(x_axis="bits")), tmp_path / "run")
    assert [e["of"] for e in summary["selected"]] == [{"algorithm.name": "dpsgd"}, {"algorithm.name": "local_only"}]
    for chosen in summary["selected"]:
        members = [p for p in summary["points"] if p["id"].startswith(chosen["of"]["algorithm.name"])]
        assert chosen["validation_loss"] == min(p["validation_loss"]["mean"] for p in members)
    run = Results.read(tmp_path / "run").shown()
    assert run.points == [e["id"] for e in summary["selected"]]
    assert [axis.path for axis in run.axes] == ["algorithm.name"]
    whole = Results.open(tmp_path / "run")
    assert (len(whole.points), len(tables.sheet(whole).rows)) == (6, 2)
    assert "least validation loss" in tables.note(whole)
    with np.load(tmp_path / "run" / "history.npz") as history:  # the arrays of a chosen point go with it
        ids = [p["id"] for p in summary["points"]]
        for p, point in enumerate(run.points):
            assert np.array_equal(run.first_seed(p, "position"), history[f"{ids.index(point)}/position"][0])
    for point in summary["points"]:
        sent = np.mean(point["rounds_done"]["per_seed"]) * 4 * 32 * 20
        assert point["bits_sent_per_client"] == (sent if point["id"].startswith("dpsgd") else 0)
    assert min(min(p["rounds_done"]["per_seed"]) for p in summary["points"]) < 40
