"""The README's study from Python runs as it is printed, and figures that pages print are those of results files."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
SUITES = ("mnist_round", "mnist_round_100", "digits_round", "gn_lenet_round", "cifar_round")


def page(name):
    return (ROOT / name).read_text()


def rows(text, first):
    """The cells of the rows of a table whose first cell begins so."""
    lines = [line.strip("| \n").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip("* ") for cell in line] for line in lines if line[0].startswith(first)]


@pytest.mark.long
def test_the_study_of_the_readme_runs(tmp_path, monkeypatch):
    """Half as long."""
    blocks = re.findall(r"```python\n(.*?)```", page("README.md"), re.DOTALL)
    example = next(block for block in blocks if "mdfl_jax.run(" in block)
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(example.replace('"rounds": 40', '"rounds": 20'), names)
    assert names["results"].array("accuracy", "dcm").shape == (3, 2, 20)
    assert len(names["frame"]) == 2 * 3 * 2
    assert (tmp_path / "runs" / "two" / "summary.json").is_file()


@pytest.mark.parametrize("suite", SUITES)
def test_round_times_are_those_measured(suite):
    measured = {row["variant"]: row for row in json.loads((RESULTS / f"{suite}-cpu.json").read_text())["rows"]}
    (printed,) = rows(page("docs/performance.md"), f"`{suite}`:")
    milliseconds = measured["ours"]["seconds_per_round"]["median"] * 1e3
    assert float(printed[1]) == pytest.approx(milliseconds, rel=0.01)
    assert float(printed[2]) == round(measured["ours"]["ratio"], 2)
    for cell, variant in zip(printed[4:], ("torch.func vmap", "torch, 2 processes of one thread")):
        assert cell == (f"{measured[variant]['ratio']:.2f}" if variant in measured else "-")


def test_the_demo_takes_what_was_measured():
    measured = json.loads((RESULTS / "demo-cpu.json").read_text())["rows"]
    warm = sorted(row["seconds"] for row in measured if row["variant"] == "warm cache")[1]
    cold = next(row["seconds"] for row in measured if row["variant"] == "cold cache")
    for name in ("README.md", "docs/configs.md"):
        assert f"takes {warm:.0f} s on two CPU cores" in page(name)
    assert f"{cold:.0f} s the first time" in page("docs/configs.md")
    assert max(row["peak_resident_mib"] for row in measured) < 900


def test_figure_3_of_fedmobile_is_that_measured():
    tables = json.loads((RESULTS / "fedmobile-figure3-cpu.json").read_text())["tables"]
    variants = next(table["rows"] for table in tables if table["title"] == "variants")
    text = page("docs/fedmobile.md").split("## Least squares: figure 3")[1]
    for name, score, *_ in variants:
        (printed,) = rows(text, f"`{name}`")
        assert [float(n) for n in printed[1].split(" ± ")] == [float(n) for n in score.split(" ± ")]
