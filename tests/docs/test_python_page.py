"""The examples of docs/python.md run as printed, one after the other."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
EXAMPLES = dict(re.findall(r"^## ([^\n]+)\n(?:(?!^## ).)*?```python\n(.*?)```", PAGE.read_text(), re.M | re.S))


def test_every_example_is_run_and_short():
    kept = ["Keep the models", "Start from kept models"]
    assert list(EXAMPLES) == ["Run a study", "Look at the results", "Plot", *kept, "Stop early", "Log in your own way"]
    assert PAGE.read_text().count("```python") == len(EXAMPLES)
    assert max(len(example.splitlines()) for example in EXAMPLES.values()) <= 16


@pytest.mark.long
def test_the_examples_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(EXAMPLES["Run a study"], names)
    first = names["results"]
    assert capsys.readouterr().out == ""
    exec(EXAMPLES["Look at the results"], names)
    assert isinstance(names["everything"], xr.Dataset)
    assert len(names["clients"]) == 20 * len(names["frame"]) == 20 * 2 * 3 * 3
    assert "'consensus_distance': ('consensus distance', '', ('point', 'seed', 'round'))" in capsys.readouterr().out
    exec(EXAMPLES["Plot"], names)
    for file in ("consensus.png", "worst_client.png", "final_accuracy.pdf", "both.png"):
        assert (tmp_path / file).stat().st_size > 5000
    assert capsys.readouterr().out == "runs/two_rules/report.html\n"
    exec(EXAMPLES["Keep the models"], names)
    assert capsys.readouterr().out.split() == ["[0.", *["0."] * 18, "0.]"]
    exec(EXAMPLES["Start from kept models"], names)
    ended = names["kept"].accuracy.sel(point="random_movement", round=40).mean("client")
    assert capsys.readouterr().out.count(str(float(ended[0]))[:6]) == 1
    exec(EXAMPLES["Stop early"], names)
    assert "without overwrite, goes on where runs/longer was left" in capsys.readouterr().out
    assert names["results"].accuracy.sizes["round"] == 5
    np.testing.assert_array_equal(names["results"].accuracy[:, :, :3], first.accuracy)
    exec(EXAMPLES["Log in your own way"], names)
    rows = list(csv.reader((tmp_path / "log.csv").open()))
    assert len(rows) == 2 * 3 * 3
    last = {(point, int(seed)): float(accuracy) for point, seed, r, accuracy, _ in rows if r == "40"}
    for point, seed in last:
        assert last[point, seed] == pytest.approx(float(first.accuracy.sel(point=point, seed=seed, round=40).mean()))
