"""The examples of docs/extending.md, each written to a file outside of the package and run as a study."""

import base64
import json
import re
import runpy
import zlib
from pathlib import Path

import numpy as np
import pytest
from tiny import run_study

from mdfl_jax.contrib.new import command as new
from mdfl_jax.results.results import Results
from mdfl_jax.study import make_study

pytestmark = pytest.mark.usefixtures("unregistered")
TEXT = (Path(__file__).parents[2] / "docs" / "extending.md").read_text()
EXAMPLES = dict(re.findall(r"^## ([^\n]+)\n(?:(?!^## ).)*?```python\n(.*?)```", TEXT, re.M | re.S))
OWN = ["A task", "A mobility rule", "An algorithm", "An aggregation rule", "An attack", "A compressor", "A graph"]
OWN += ["Mixing weights", "A loss", "A partition", "A model", "A model of flax nnx"]
KINDS = {title: kind for kind, title in new.RECIPES.items()}
OBSERVERS = ["A metric of every round", "A logger", "A figure of the report", "A panel of the report", "A metric"]
OF_TASKS = {"A compressor"}  # which tests/docs/test_tasks.py runs as `mdfl new` writes it


def config_of(title, folder):
    """The configuration of an example as printed."""
    folder.mkdir(exist_ok=True)
    path = folder / "own.py"
    path.write_text(EXAMPLES[title])
    return runpy.run_path(str(path))["get_config"]()


def written_config_of(title, folder):
    """The configuration of an example under another name, as `mdfl new` writes it, where it has this kind."""
    if title not in KINDS:
        return config_of(title, folder)
    config = runpy.run_path(str(new.write_entry(KINDS[title], "own_name", folder)))["get_config"]()
    assert config.name == "own_name"
    return config


def run_cut_down(config, folder):
    """Runs an example, cut down; returns the summary."""
    config.seeds, config.rounds, config.eval_every = 1, 10, 5
    config.network.num_clients, config.network.num_mobile, config.network.grid_size = 4, 2, 5
    config.data.limit_train, config.data.limit_test = 120, 60
    return run_study(make_study(config), folder)


def test_every_example_is_run():
    assert set(EXAMPLES) == {*OWN, *OBSERVERS, "A data set"}
    assert set(EXAMPLES) >= OF_TASKS


@pytest.mark.long
@pytest.mark.parametrize("title", [title for title in [*OWN, "A data set"] if title not in OF_TASKS])
def test_an_example_runs_as_a_study_and_learns_something(title, tmp_path):
    config = written_config_of(title, tmp_path)
    if not title.startswith("A model"):
        config.model.name = "linear"
    summary = run_cut_down(config, tmp_path / "out")
    values = [point["final_accuracy"]["mean"] for point in summary["points"]]
    assert np.isfinite(values).all()
    history = np.load(tmp_path / "out" / "history.npz")
    losses = np.nanmean(history["0/train_loss"][0], axis=1)  # [E], NaN before the first round
    assert losses[-1] < losses[1]


@pytest.mark.long
def test_what_observes_a_study_is_in_its_files_and_in_its_report(tmp_path):
    """The metrics, the logger, the figure and the panel of the page, all of them in one study."""
    *_, config = (config_of(title, tmp_path / f"{k}") for k, title in enumerate(OBSERVERS))
    config.loggers, config.model.name, out = "accuracies", "linear", tmp_path / "out"
    summary = run_cut_down(config, out)
    page = Results.read(out).report().read_text()
    with np.load(out / "history.npz") as found:
        history = dict(found)
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    for p, point in enumerate(summary["points"]):
        norms = history[f"{p}/model_norm"]
        assert norms.shape == (1, 3, 4)
        assert (norms > 0).all()
        own = [line for line in lines if line["point"] == point["id"]]
        np.testing.assert_allclose([line["model_norm"] for line in own], norms[0].mean(axis=1), rtol=1e-6)
        np.testing.assert_allclose(point["model_norm"]["mean"], norms[0, -1].mean(), rtol=1e-6)
        assert history[f"{p}/alone"].shape == (1, 10)
        np.testing.assert_array_equal(history[f"{p}/alone"], (history[f"{p}/links"] == 0).all(axis=3).sum(axis=2))
        (path,) = (out / "loggers" / "accuracies").rglob(f"*{point['id']}*/seed-0.txt")
        assert path.read_text() == "".join(f"{line['round']} {line['accuracy']}\n" for line in own)
    assert "Euclidean norm of a model" in page
    assert (out / "figures" / "megabits.png").stat().st_size > 1000
    assert "Megabits that a client of each point has sent until the end." in page
    assert not (out / "figures" / "spread.png").exists()
    assert "Accuracy of each of the 4 clients at the end, over all seeds." in page
    section = page[page.index('<section class="panel" id="spread" data-kind="plotly"') :]
    chart = json.loads(section.split('<script type="application/json">')[1].split("</script>")[0])
    packed = chart["traces"][1]["y"]
    shown = np.frombuffer(zlib.decompress(base64.b64decode(packed["data"])), "<" + packed["$"])
    np.testing.assert_allclose(shown, 100 * history["1/accuracy"][0, -1], rtol=1e-6)
