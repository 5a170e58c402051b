"""The panel of the clients' data."""

import dataclasses

import numpy as np

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
