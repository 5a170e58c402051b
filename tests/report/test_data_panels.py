"""The panels of the clients' data, of groups of clients and of road-side units."""

import dataclasses

import numpy as np
from scipy import stats

from mdfl_jax.contrib.panels import groups
from mdfl_jax.report.panels import label_counts
from mdfl_jax.report.registry import FIGURES

SWEEP = [{"data.alpha": 0.1, "network.mobility": "dam"}, {"data.alpha": 0.1, "network.mobility": "dcm"}]
SWEEP += [{"data.alpha": 9.0, "network.mobility": "dam"}]


def with_counts(run, *counts):
    arrays = {f"{p}/label_counts": np.array([of]) for p, of in enumerate(counts)}
    return dataclasses.replace(run, arrays=dict(run.arrays) | arrays)


def test_divisions_of_the_labels_are_told_and_named_by_what_differs(study):
    assert label_counts.inequality(np.array([[10, 0], [0, 10], [0, 0]])) == (
        "The labels are divided very unequally: the mean total variation distance between a client's labels and all"
        " labels is 0.50 (0: all alike; 0.50: one class a client), and a client holds 1.0 effective classes of 2 on"
        " average. A client has 0 to 10 samples (Gini coefficient 0.33); 1 of 3 clients hold none."
    )
    assert label_counts.inequality(np.full((4, 5), 3)).endswith("Every client has 15 samples.")
    run, few = study(SWEEP, rounds=10), np.ones((8, 10), int)
    run = with_counts(run, few, few, 5 * few)
    assert [of.points for of in label_counts.divisions(run)] == [[0, 1], [2]]
    (first, second) = FIGURES["label_counts"].chart(run).data["divisions"]
    assert [first["name"], second["name"]] == ["alpha = 0.1", "alpha = 9"]
    np.testing.assert_array_equal(second["counts"], 5 * few)
    one_class = np.full((8, 1), 6)
    assert not FIGURES["label_counts"].applies(with_counts(run, *[one_class] * 3))


def test_lead_and_contacts_of_the_mobile_clients_are_those_of_the_curves(study):
    run, rng = study(rounds=20), np.random.default_rng(3)
    names = ("accuracy_mobile", "accuracy_other", "num_neighbours_mobile", "num_neighbours_other")
    for point, curve in run.curves.items():  # [S = 3, E = 3]
        run.curves[point] = dataclasses.replace(curve, values={name: rng.uniform(size=(3, 3)) for name in names})
    accuracy, lead, met = (panel["traces"] for panel in FIGURES["groups"].chart(run).data["panels"])
    assert groups.shown_points(run) == [1, 2, 3]  # under static mobility nobody moves
    curve = run.curves["dam"].values
    of_dam = next(trace for trace in accuracy if trace["name"].startswith("dam"))
    np.testing.assert_allclose(of_dam["y"], 100 * curve["accuracy_mobile"].mean(0))
    gap = 100 * (curve["accuracy_mobile"] - curve["accuracy_other"])
    band, line = (trace for trace in lead if trace.get("name") == "dam" or trace.get("legendgroup") == "dam")
    np.testing.assert_allclose(line["y"], gap.mean(0))
    low, high = stats.t.interval(0.95, 2, gap.mean(0), stats.sem(gap))
    np.testing.assert_allclose(band["y"], [*high, *low[::-1]])
    contacts = [0.0, *(10 * np.cumsum(curve["num_neighbours_mobile"][:, 1:], axis=1).mean(0))]
    np.testing.assert_allclose(next(t for t in met if t["name"] == "dam, mobile clients")["y"], contacts)
