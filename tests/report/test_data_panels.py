"""The panels of the clients' data, of groups of clients and of road-side units."""

import dataclasses

import numpy as np
import pytest
from scipy import stats
from tiny import run_study, tiny_config

from mdfl_jax.report import style, tables
from mdfl_jax.report.page import write_report
from mdfl_jax.report.panels import groups, label_counts, roadside
from mdfl_jax.report.panels.roadside import at_unit, meetings
from mdfl_jax.report.read import read_workdir
from mdfl_jax.report.registry import FIGURES
from mdfl_jax.report.setting import units_of
from mdfl_jax.study import make_study

SWEEP = [{"data.alpha": 0.1, "network.mobility": "dam"}, {"data.alpha": 0.1, "network.mobility": "dcm"}]
SWEEP += [{"data.alpha": 9.0, "network.mobility": "dam"}]


def with_counts(run, *counts):
    arrays = {f"{p}/label_counts": np.array([of]) for p, of in enumerate(counts)}
    return dataclasses.replace(run, arrays=dict(run.arrays) | arrays)


def test_the_inequality_of_the_labels_is_told_in_words_and_numbers():
    one_each = np.array([[10, 0], [0, 10], [0, 0]])
    assert label_counts.inequality(one_each) == (
        "The labels are divided very unequally: the mean total variation distance between a client's labels and all"
        " labels is 0.50 (0: all alike; 0.50: one class a client), and a client holds 1.0 effective classes of 2 on"
        " average. A client has 0 to 10 samples (Gini coefficient 0.33); 1 of 3 clients hold none."
    )
    alike = label_counts.inequality(np.full((4, 5), 3))
    assert "divided almost equally" in alike
    assert alike.endswith("Every client has 15 samples.")
    assert label_counts.inequality(np.array([[6], [6]])) == "Every client has 6 samples."


def test_sweep_points_with_the_same_data_share_a_division_named_by_what_differs(make_workdir):
    run = read_workdir(make_workdir(SWEEP, rounds=10))
    few = np.ones((8, 10), int)
    run = with_counts(run, few, few, 5 * few)
    assert [of.points for of in label_counts.divisions(run)] == [[0, 1], [2]]
    (first, second) = FIGURES["label_counts"].chart(run).data["divisions"]
    assert [first["name"], second["name"]] == ["alpha = 0.1", "alpha = 9"]
    np.testing.assert_array_equal(second["counts"], 5 * few)
    assert first["mobile"].tolist() == run.array(0, "is_mobile").tolist()
    assert "at first of alpha = 0.1" in FIGURES["label_counts"].caption(run)


def test_data_with_one_class_and_one_size_have_no_panel(make_workdir):
    run = read_workdir(make_workdir([{}], rounds=10))
    assert FIGURES["label_counts"].applies(run)
    assert not FIGURES["label_counts"].applies(with_counts(run, np.full((8, 1), 6)))
    assert FIGURES["label_counts"].applies(with_counts(run, np.arange(8)[:, None]))


@pytest.fixture
def two_groups(make_workdir):
    """A run whose points have accuracies and neighbours of mobile and other clients, [S = 3, E = 3]."""
    run = read_workdir(make_workdir(rounds=20))
    rng = np.random.default_rng(3)
    names = ("accuracy_mobile", "accuracy_other", "num_neighbours_mobile", "num_neighbours_other")
    curves = {
        point: dataclasses.replace(curve, values={name: rng.uniform(size=(3, 3)) for name in names})
        for point, curve in run.curves.items()
    }
    return dataclasses.replace(run, curves=curves)


def test_lead_and_contacts_of_the_mobile_clients_are_those_of_the_curves(two_groups):
    chart = FIGURES["groups"].chart(two_groups)
    accuracy, lead, met = (panel["traces"] for panel in chart.data["panels"])
    shown = groups.shown_points(two_groups)
    assert shown == [1, 2, 3]  # under static mobility nobody moves
    curve = two_groups.curves["dam"].values
    of_dam = [trace for trace in accuracy if trace["name"].startswith("dam")]
    np.testing.assert_allclose(of_dam[0]["y"], 100 * curve["accuracy_mobile"].mean(0))
    assert [trace["line"]["dash"] for trace in of_dam] == ["solid", style.PLOTLY_DASHES[1]]
    gap = 100 * (curve["accuracy_mobile"] - curve["accuracy_other"])
    band, line = (trace for trace in lead if trace.get("name") == "dam" or trace.get("legendgroup") == "dam")
    np.testing.assert_allclose(line["y"], gap.mean(0))
    low, high = stats.t.interval(0.95, 2, gap.mean(0), stats.sem(gap))
    np.testing.assert_allclose(band["y"], [*high, *low[::-1]])
    contacts = [0.0, *(10 * np.cumsum(curve["num_neighbours_mobile"][:, 1:], axis=1).mean(0))]
    np.testing.assert_allclose(next(t for t in met if t["name"] == "dam, mobile clients")["y"], contacts)
    assert FIGURES["groups"].caption(two_groups).endswith(" Not drawn: static (nobody moves).")


def test_the_raster_of_road_side_units_has_the_clients_with_most_slots_first(make_workdir):
    server = {"server.pattern": "roadside", "server.units": "2,2; 8,8", "server.unit_range": 2.5}
    run = read_workdir(make_workdir([server], rounds=30))
    path, units = run.array(0, "position").astype(float), [(2, 2), (8, 8)]
    met = np.array([[min(np.hypot(*(place - unit)) for unit in units) <= 2.5 for place in row] for row in path[:-1]])
    np.testing.assert_array_equal(at_unit(path[:-1], units_of("2,2; 8,8;"), 2.5), met)  # [R, N]
    (cells,) = FIGURES["roadside"].chart(run).data["traces"]
    order = cells["customdata"][:, 0]
    assert (np.diff(met.sum(0)[order]) <= 0).all()
    np.testing.assert_array_equal(np.isfinite(cells["z"]), met.T[order])
    assert f"in {np.median(met.sum(0)):.0f} of 30 slots (median; " in FIGURES["roadside"].caption(run)


def test_a_long_raster_has_shares_of_slots(make_workdir, monkeypatch):
    monkeypatch.setattr(roadside, "MAX_COLUMNS", 7)
    server = {"server.pattern": "roadside", "server.units": "5,5", "server.unit_range": 3.0}
    run = read_workdir(make_workdir([server], rounds=30))
    (cells,) = FIGURES["roadside"].chart(run).data["traces"]
    assert cells["z"].shape == (8, 6)  # columns of five slots
    met = meetings(run).met
    shares = met.reshape(6, 5, 8).mean(axis=1).T[cells["customdata"][:, 0]]
    np.testing.assert_allclose(np.nan_to_num(cells["z"]), shares, rtol=1e-6)


UNITS = {
    "seeds": 1, "rounds": 12, "eval_every": 4, "judged": "global", "network.num_clients": 5, "network.num_mobile": 5,
    "network.mobility": "manhattan", "network.radius": 100.0, "algorithm.name": "fedmobile", "algorithm.batch_size": 4,
    "server.pattern": "roadside", "server.units": "200,200", "server.unit_range": 150.0,
}  # fmt: skip


@pytest.mark.long
def test_a_study_with_units_has_the_figure_and_is_judged_by_the_global_model(tmp_path):
    summary = run_study(make_study(tiny_config(**UNITS)), tmp_path / "run")
    page = write_report(tmp_path / "run").read_text()
    assert (tmp_path / "run" / "figures" / "roadside.png").stat().st_size > 5000
    assert "Road-side units and their meetings" in page
    run = read_workdir(tmp_path / "run")
    (point,) = summary["points"]
    assert point["final_accuracy"]["mean"] == point["mean_model_accuracy"]["mean"]
    assert point["worst_client_accuracy"] is None
    assert run.curves["base"].accuracy[0, -1] == point["final_accuracy"]["mean"]
    assert "of the global model" in tables.note(run.summary, run.config)
    with np.load(tmp_path / "run" / "history.npz") as history:
        met = at_unit(history["0/position"][0, :-1].astype(float), np.array([[200.0, 200.0]]), 150.0)
        assert history["0/reached"][0].tolist() == met.any(axis=0).tolist()
        kinds = ("uploads", "downloads", "relayed_updates", "relayed_models")
        np.testing.assert_array_equal(sum(history[f"0/{kind}"] for kind in kinds), history["0/messages"])
        bits = history["0/direct_bits"] + history["0/relayed_bits"]
        np.testing.assert_array_equal(bits, history["0/bits_sent"])
        assert point["uploads"]["mean"] == history["0/uploads"][0, -1].mean() > 0
