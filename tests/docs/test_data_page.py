"""The examples of docs/data.md run as printed, and learn something."""

import re
from pathlib import Path

import numpy as np
import pytest

import mdfl_jax

PAGE = Path(__file__).parents[2] / "docs" / "data.md"
EXAMPLES = dict(re.findall(r"^## ([^\n]+)\n(?:(?!^## ).)*?```python\n(.*?)```", PAGE.read_text(), re.M | re.S))
LEARNT = ["A table", "A regression", "Sequences of tokens"]


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
    exec(EXAMPLES[title], names)
    assert capsys.readouterr().out.count("\n") >= 1
    losses = names["results"].array("loss").mean(axis=(0, 2))
    assert losses[-1] < 0.9 * losses[0]
    assert names["results"].array("accuracy")[:, -1].mean() > {"A table": 0.8, "A regression": 0.3}.get(title, 0.1)


@pytest.mark.long
@pytest.mark.usefixtures("unregistered")
def test_a_loss_of_ones_own_is_used(names):
    exec(EXAMPLES["A loss of your own"], names)
    exec(EXAMPLES["A regression"], names)
    plain = names["results"]
    huber = mdfl_jax.run(names["config"] | {"model.loss": "huber", "model.delta": 0.5}, data=names["data"])
    assert huber.array("loss")[:, -1].mean() < 0.9 * huber.array("loss")[:, 0].mean()
    assert not np.allclose(huber.array("accuracy")[:, -1], plain.array("accuracy")[:, -1])


def test_every_example_is_run():
    assert {*LEARNT, "A loss of your own"} <= set(EXAMPLES)
    assert PAGE.read_text().count("```python") == 6  # and two scripts that need files from elsewhere
