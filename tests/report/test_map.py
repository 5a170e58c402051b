"""The map: its data on the page are never too much."""

import re

import numpy as np

from mdfl_jax.report.panels import map as map_panel
from mdfl_jax.report.registry import dumps
from mdfl_jax.results.results import Results


def test_few_rounds_are_left_if_a_point_is_too_long(make_workdir, monkeypatch):
    """Between two places far apart in time lies no straight way, so contacts on the way are not computed."""
    sweep = [{"network.contact": "swept"}, {"network.contact": "round"}]
    run = Results.read(make_workdir(sweep, rounds=200, clients=20, grid=18, seeds=1)).shown()
    text = lambda tree: sum(len(part) for part in re.findall(r'"data":"([^"]*)"', dumps(tree)))  # noqa: E731
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
