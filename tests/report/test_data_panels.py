"""The panels of the clients' data, of mobile and other clients, and of road-side units, against slow oracles."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from mdfl_jax.report.panels import groups, label_counts, roadside
from mdfl_jax.report.read import read_workdir

SWEEP = [{"data.alpha": 0.1, "network.mobility": "dam"}, {"data.alpha": 0.1, "network.mobility": "dcm"}]
SWEEP += [{"data.alpha": 9.0, "network.mobility": "dam"}]


def with_counts(run, *counts):
    first = {f"{p}/label_counts": np.array(of) for p, of in enumerate(counts)}
    return dataclasses.replace(run, first_seed=run.first_seed | first)


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


def test_the_bars_of_many_clients_are_two_areas_of_the_same_heights():
    rng = np.random.default_rng(0)
    counts, mobile = rng.integers(0, 9, (501, 3)), rng.random(501) < 0.4
    for known in (mobile, None):
        drawn = label_counts.draw_counts(counts, known).axes[0]
        dark = mobile if known is not None else np.zeros(501, bool)
        still, moving = (area.get_data() for area in drawn.patches)
        np.testing.assert_array_equal(still.values, np.where(dark, 0, counts.sum(axis=1)))
        np.testing.assert_array_equal(moving.values, np.where(dark, counts.sum(axis=1), 0))
        np.testing.assert_array_equal(still.edges, np.arange(502) - 0.5)
    assert len(label_counts.draw_counts(counts[:40], mobile[:40]).axes[0].patches) == 40


def test_sweep_points_with_the_same_data_share_a_division_named_by_what_differs(make_workdir):
    run = read_workdir(make_workdir(SWEEP, rounds=10))
    few = np.ones((8, 10), int)
    run = with_counts(run, few, few, 5 * few)
    assert label_counts.divisions(run) == [[0, 1], [2]]
    (first, second) = label_counts._chart(run).data["divisions"]
    assert [first["name"], second["name"]] == ["alpha = 0.1", "alpha = 9"]
    np.testing.assert_array_equal(second["counts"], 5 * few)
    assert first["mobile"].tolist() == run.array(0, "is_mobile").tolist()
    assert "at first of alpha = 0.1" in label_counts._caption(run)


def test_data_with_one_class_and_one_size_have_no_panel(make_workdir):
    run = read_workdir(make_workdir([{}], rounds=10))
    assert label_counts._applies(run)
    assert not label_counts._applies(with_counts(run, np.full((8, 1), 6)))
    assert label_counts._applies(with_counts(run, np.arange(8)[:, None]))


@pytest.fixture
def two_groups(make_workdir):
    """A run whose points have accuracies and neighbours of mobile and other clients, [S = 3, E = 3]."""
    run = read_workdir(make_workdir(rounds=20))
    rng = np.random.default_rng(3)
    names = ("accuracy_mobile", "accuracy_other", "num_neighbours_mobile", "num_neighbours_other")
    curves = {
        point: dataclasses.replace(curve, groups={name: rng.uniform(size=(3, 3)) for name in names})
        for point, curve in run.curves.items()
    }
    return dataclasses.replace(run, curves=curves)


def test_lead_and_contacts_of_the_mobile_clients_are_those_of_the_curves(two_groups):
    chart = groups._chart(two_groups)
    accuracy, lead, met = (panel["traces"] for panel in chart.data["panels"])
    shown = groups.shown_points(two_groups)
    assert shown == [1, 2, 3]  # under static mobility nobody moves
    curve = two_groups.curves["dam"].groups
    of_dam = [trace for trace in accuracy if trace["name"].startswith("dam")]
    np.testing.assert_allclose(of_dam[0]["y"], 100 * curve["accuracy_mobile"].mean(0))
    assert [trace["line"]["dash"] for trace in of_dam] == ["solid", "dash"]
    gap = 100 * (curve["accuracy_mobile"] - curve["accuracy_other"])
    line, band = (trace for trace in lead if trace.get("name") == "dam" or trace.get("legendgroup") == "dam")
    np.testing.assert_allclose(line["y"], gap.mean(0))
    low, high = stats.t.interval(0.95, 2, gap.mean(0), stats.sem(gap))
    np.testing.assert_allclose(band["y"], [*high, *low[::-1]])
    contacts = [0.0, *(10 * np.cumsum(curve["num_neighbours_mobile"][:, 1:], axis=1).mean(0))]
    np.testing.assert_allclose(next(t for t in met if t["name"] == "dam, mobile clients")["y"], contacts)
    assert groups.caption(two_groups).endswith(" Not drawn: static (nobody moves).")


def test_the_caption_of_the_groups_tells_why_points_are_not_drawn(make_workdir, two_groups, monkeypatch):
    without = {"distance_moved_per_mobile_client": None}
    run = dataclasses.replace(
        two_groups, summary=two_groups.summary | {"points": [*two_groups.points[:3], two_groups.points[3] | without]}
    )
    told = " Not drawn: static (nobody moves); dcm (no distance moved is known)."
    assert groups.caption(run).endswith(told)
    monkeypatch.setattr(groups, "MAX_POINTS", 1)
    monkeypatch.setattr(groups, "NAMED", 1)
    assert groups.caption(two_groups).endswith("static (nobody moves); 2 points (no colour is left).")


def test_the_raster_of_road_side_units_has_the_clients_with_most_slots_first(make_workdir):
    server = {"server.pattern": "roadside", "server.units": "2,2; 8,8", "server.unit_range": 2.5}
    run = read_workdir(make_workdir([server], rounds=30))
    path, units = run.array(0, "position").astype(float), [(2, 2), (8, 8)]
    met = [[min(np.hypot(*(place - unit)) for unit in units) <= 2.5 for place in row] for row in path[:-1]]
    met = np.array(met)  # [R, N]
    (cells,) = roadside._chart(run).data["traces"]
    order = cells["customdata"][:, 0]
    assert (np.diff(met.sum(0)[order]) <= 0).all()
    np.testing.assert_array_equal(np.isfinite(cells["z"]), met.T[order])
    assert f"in {np.median(met.sum(0)):.0f} of 30 slots (median; " in roadside._caption(run)


def test_a_long_raster_has_shares_of_slots(make_workdir, monkeypatch):
    monkeypatch.setattr(roadside, "MAX_COLUMNS", 7)
    server = {"server.pattern": "roadside", "server.units": "5,5", "server.unit_range": 3.0}
    run = read_workdir(make_workdir([server], rounds=30))
    (cells,) = roadside._chart(run).data["traces"]
    assert cells["z"].shape == (8, 6)  # columns of five slots
    met = roadside._meetings(run)
    shares = met.reshape(6, 5, 8).mean(axis=1).T[cells["customdata"][:, 0]]
    np.testing.assert_allclose(np.nan_to_num(cells["z"]), shares, rtol=1e-6)


def test_no_panel_loads_jax():
    code = "import sys; from mdfl_jax.report.registry import FIGURES; FIGURES.discover(); print('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path.cwd())
    assert done.stdout.strip() == "False"
