"""What the panels of the page are made of: curves, the clients' data, the map."""

import dataclasses
import re

import numpy as np

from mdfl_jax.report.panels import label_counts
from mdfl_jax.report.panels import map as map_panel
from mdfl_jax.report.panels.curves import explorer
from mdfl_jax.report.quantities import recorded
from mdfl_jax.report.registry import FIGURES, script_json
from mdfl_jax.results.results import Results
from tests.report.made_report import change


def test_points_with_other_rounds_and_seeds_have_gaps_and_the_later_line_counts(make_workdir):
    def cut(row):
        return None if row["point"] == "dcm" and (row["seed"] == 2 or row["round"] == 40) else row

    folder = change(make_workdir(), cut)
    with open(folder / "metrics.jsonl", "a", encoding="utf-8") as file:
        file.write('{"schema": 1, "point": "dam", "seed": 1, "round": 10, "accuracy": null}\n\n')
        file.write('{"schema": 1, "point": "dcm", "seed": 1, "round": 10, "accuracy": 0.125}\n')
    run = Results.read(folder).shown()
    known = np.isfinite(recorded(run).values["accuracy"])
    expected = np.ones_like(known)
    expected[3, 2], expected[3, :, 4], expected[2, 1, 1] = False, False, False
    np.testing.assert_array_equal(known, expected)
    assert run.curves["dcm"].accuracy[1, 1] == 0.125
    assert [list(point["seeds"]) for point in explorer(run)["points"]] == [[0, 1, 2]] * 3 + [[0, 1]]


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


def test_few_rounds_are_left_if_a_point_is_too_long(make_workdir, monkeypatch):
    """Between two places far apart in time lies no straight way, so contacts on the way are not computed."""
    sweep = [{"network.contact": "swept"}, {"network.contact": "round"}]
    run = Results.read(make_workdir(sweep, rounds=200, clients=20, grid=18, seeds=1)).shown()
    text = lambda tree: sum(len(part) for part in re.findall(r'"data":"([^"]*)"', script_json(tree)))  # noqa: E731
    whole = text(map_panel.playback(run)["points"])
    assert map_panel.without_links(map_panel.playback(run)) == []
    monkeypatch.setattr("mdfl_jax.report.panels.map.BUDGET", whole // 2)
    data = map_panel.playback(run)
    assert map_panel.strides(data) > 1
    evaluations = sum(text([point["values"], point["evaluated"]]) for point in data["points"])
    assert text(data["points"]) - evaluations <= whole // 2
    point = data["points"][1]
    frames = point["frames"]
    assert (frames[0], frames[-1]) == (0, 200)
    assert set(np.diff(frames)[:-1]) == {point["stride"]}
    assert map_panel.without_links(data) == [0]
