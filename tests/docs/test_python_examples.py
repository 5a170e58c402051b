"""The Python examples of README.md and of the pages of docs/ run as printed."""

import re
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import mdfl_jax
from mdfl_jax.contrib.theory.quantities import QUANTITIES, Rounds

ROOT = Path(__file__).parents[2]
PYTHON, DATA, THEORY = ((ROOT / "docs" / f"{name}.md").read_text() for name in ("python", "data", "theory"))
EXAMPLES, OF_DATA = (
    dict(re.findall(r"^## ([^\n]+)\n(?:(?!^## ).)*?```python\n(.*?)```", text, re.M | re.S)) for text in (PYTHON, DATA)
)
LEARNT = ["A table", "A regression", "Sequences of tokens"]


def test_every_example_is_run_and_short():
    kept = ["Keep the models", "Start from checkpoints"]
    seen = ["Look at the results", "Plot", "Play a map in a notebook"]
    begun = ["Run a study", "Give objects", "Call single rules"]
    assert list(EXAMPLES) == [*begun, *seen, *kept, "Stop early", "One pure function"]
    assert PYTHON.count("```python") == len(EXAMPLES)
    assert max(len(example.splitlines()) for example in EXAMPLES.values()) <= 16
    assert set(LEARNT) <= set(OF_DATA)
    assert DATA.count("```python") == 5  # and two scripts that need files from elsewhere


@pytest.mark.long
def test_the_examples_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(EXAMPLES["Run a study"], names)
    first = names["results"]
    assert capsys.readouterr().out == ""
    exec(EXAMPLES["Give objects"], names)
    assert min(float(names[of].accuracy[0, 0, -1].mean()) for of in ("on_ring", "on_road")) > 0.8
    assert capsys.readouterr().out.count("test accuracy") == 2
    exec(EXAMPLES["Call single rules"], names)
    assert (names["one"].shape, names["each"].shape, names["owner"].shape) == ((100,), (8, 100), (569,))
    exec(EXAMPLES["Look at the results"], names)
    assert isinstance(names["everything"], xr.Dataset)
    assert len(names["clients"]) == 20 * len(names["frame"]) == 20 * 2 * 3 * 3
    assert "'consensus_distance': (('point', 'seed', 'round'), {'long_name': 'consensus" in capsys.readouterr().out
    exec(EXAMPLES["Plot"], names)
    for file in ("consensus.png", "worst_client.png", "final_accuracy.pdf", "both.png"):
        assert (tmp_path / file).stat().st_size > 5000
    assert capsys.readouterr().out == "runs/two_rules/report.html\n"
    exec(EXAMPLES["Play a map in a notebook"], names)
    assert capsys.readouterr().out.startswith("<Map of random_movement, seed 1; a notebook plays it> ")
    exec(EXAMPLES["Keep the models"], names)
    assert capsys.readouterr().out.split() == ["[0.", *["0."] * 18, "0.]"]
    exec(EXAMPLES["Start from checkpoints"], names)
    ended = names["kept"].accuracy.sel(point="random_movement", round=40).mean("client")
    assert capsys.readouterr().out.count(str(float(ended[0]))[:6]) == 1
    exec(EXAMPLES["Stop early"], names)
    assert "without overwrite, goes on where runs/longer was left" in capsys.readouterr().out
    assert names["results"].accuracy.sizes["round"] == 5
    np.testing.assert_array_equal(names["results"].accuracy[:, :, :3], first.accuracy)
    exec(EXAMPLES["One pure function"].replace("rounds=100, eval_every=20", "rounds=10, eval_every=2"), names)
    assert names["history"].accuracy.shape == (4, 6, 20)
    assert float(names["history"].accuracy[:, -1].mean()) > 0.2


@pytest.mark.long
def test_the_example_of_the_readme_runs(tmp_path, monkeypatch):
    """Its study and its plot, with fewer rounds."""
    (study,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert study.count("\n") <= 6
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(study.replace('"rounds": 100', '"rounds": 2, "eval_every": 2'), names)
    assert names["results"].array("accuracy", "dcm").shape == (4, 2, 20)
    assert (tmp_path / "runs" / "movement" / "summary.json").is_file()
    assert (tmp_path / "accuracy.png").stat().st_size > 5000


@pytest.fixture
def names(tmp_path, monkeypatch):
    """The names of an example, whose clients stay on one of the eight devices of the tests.

    Eight devices on two busy cores may wait for one another, in each step of a recurrent model, until XLA gives up.
    """
    run = mdfl_jax.run
    on_one = lambda config, *args, **named: run({**config, "engine.client_devices": 1}, *args, **named)  # noqa: E731
    monkeypatch.setattr(mdfl_jax, "run", on_one)
    monkeypatch.chdir(tmp_path)
    return {}


@pytest.mark.long
@pytest.mark.parametrize("title", LEARNT)
def test_an_example_learns_something(title, names, capsys):
    exec(OF_DATA[title], names)
    assert capsys.readouterr().out.count("\n") >= 1
    losses = names["results"].array("loss").mean(axis=(0, 2))
    assert losses[-1] < 0.9 * losses[0]
    assert names["results"].array("accuracy")[:, -1].mean() > {"A table": 0.8, "A regression": 0.3}.get(title, 0.1)


SECTIONS = {
    ("time.md", "Clocks"): lambda results: {*of(results, "works").sum(axis=2).flat} == {40.0, 10.0, 2.0, 0.0},
    ("collecting.md", "Streaming data"): lambda results: (
        of(results, "accuracy_here")[:, :, -1].mean(axis=(1, 2)) > 0.6
    ).all(),
}


def of(results, metric):
    """A metric of all points, [P, S, E, ...]."""
    return np.stack([results.array(metric, point) for point in results.points])


@pytest.mark.long
@pytest.mark.parametrize(("page", "section"), SECTIONS)
def test_the_example_of_a_section_runs(page, section, capsys):
    text = (ROOT / "docs" / page).read_text()
    (example,) = re.findall(rf"^#+ {section}\b(?:(?!^#).)*?```python\n(.*?)```", text, re.M | re.S)
    assert len(example.splitlines()) <= 16
    names: dict = {}
    exec(example, names)
    assert SECTIONS[page, section](names["results"]), capsys.readouterr().out
    assert capsys.readouterr().out.count("\n") >= 3


@pytest.mark.long
def test_the_environment_runs(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "environment.md").read_text(), re.DOTALL)
    assert len(example.splitlines()) <= 13
    names: dict = {}
    exec(example, names)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[2] for row in rows] == ["False"] * 19 + ["True"]
    first, *rest = (float(row[3]) for row in rows)
    assert sum(float(row[1]) for row in rows[1:]) == pytest.approx(rest[-1] - first, abs=1e-5)
    assert int(names["state"].carry.round) == 0  # the next episode has begun


def test_the_functions_of_theory_print_what_the_comments_say(capsys):
    (example,) = (text for text in re.findall(r"```python\n(.*?)```", THEORY, re.S) if "print(" in text)
    exec(example, {})
    said = [line.rsplit(": ", 1)[1] for line in example.splitlines() if line.startswith("print(")]
    assert capsys.readouterr().out.splitlines() == said


def test_a_quantity_of_ones_own_and_an_explanation_of_every_other():
    for name in QUANTITIES.as_registered():
        assert QUANTITIES[name].label.split(",")[0].split(" (")[0] in THEORY, name
    (example,) = (text for text in re.findall(r"```python\n(.*?)```", THEORY, re.S) if "@quantity" in text)
    links, places = np.zeros((1, 2, 4, 4), bool), np.ones((1, 4, 2))
    links[0, 0, 0, 1] = links[0, 0, 1, 0] = True
    try:
        exec(example, {"__name__": "own"})
        rounds = Rounds(links, np.tile(np.eye(4), (1, 2, 1, 1)), places, links[0, :1, 0], places, links[0, :1, 0])
        assert QUANTITIES["isolated"].of(rounds, None).tolist() == [3.0]  # two in round 0, four in round 1
    finally:
        QUANTITIES.remove("isolated")
