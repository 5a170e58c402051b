"""What the report reads: worlds, streets, colours, and evaluations of a sample of clients."""

import json

import numpy as np
import pytest
from PIL import Image

from mdfl_jax.core.errors import UserError
from mdfl_jax.report.movie import save_movie
from mdfl_jax.report.panels.map import MISSING, playback
from mdfl_jax.report.read import read_workdir
from mdfl_jax.report.setting import World, describe_setting
from mdfl_jax.report.tables import note
from mdfl_jax.storage.study_files import read_lines
from tests.report.conftest import write_workdir

STREETS = np.array([[0.0, 1.0, 5.0, 1.0], [2.0, 0.0, 2.0, 9.0]])


def test_a_metric_may_have_the_name_of_another_files_entry(tmp_path):
    line = '{"schema": 1, "point": "a", "seed": 0, "round": 4, "status": 0.3, "config": 1}\n'
    (tmp_path / "metrics.jsonl").write_text(line)
    assert read_lines(tmp_path / "metrics.jsonl")[0]["status"] == 0.3
    (tmp_path / "metrics.jsonl").write_text(line.replace("4", "[4]"))
    with pytest.raises(UserError, match=r"metrics.jsonl:1: round is \[4\]; no study writes such a value"):
        read_lines(tmp_path / "metrics.jsonl")


def test_streets_of_another_shape_are_one_line(make_workdir):
    folder = make_workdir()
    np.savez(folder / "streets.npz", streets=STREETS[:, :3])
    with pytest.raises(UserError, match=r"streets\.npz: streets has shape \(2, 3\); \[K, 4\] is needed"):
        read_workdir(folder)


def test_who_leaves_on_one_side_of_a_world_without_edges_leaps():
    places = np.array([[0.5, 5.0], [9.5, 5.0], [9.5, 9.9], [9.5, 0.1], [5.0, 0.1]])
    steps = places[:-1], places[1:]
    low, high = np.zeros(2), np.full(2, 10.0)
    assert World("plane", low, high, walls=True, wraps=True).leaps(*steps).tolist() == [True, False, True, False]
    assert not World("plane", low, high, walls=True).leaps(*steps).any()


GREY = (107, 107, 107)  # the colour of a client whose value is unknown


@pytest.fixture(scope="module")
def workdirs(tmp_path_factory):
    """A study of all clients, and the same with four of eight clients evaluated in between."""
    found = [write_workdir(tmp_path_factory.mktemp(name), seeds=2, rounds=6, every=2) for name in ("all", "sample")]
    folder = found[1]
    config, summary = (json.loads((folder / f"{name}.json").read_text()) for name in ("config", "summary"))
    config["config"] |= {"eval_clients": 4, "eval_samples": 500}
    for k, point in enumerate(summary["points"]):
        point["sampling"] = {"ci95": None if k == 1 else 0.01 * (k + 1), "round": 2, "mean_ci95": 0.01}
    arrays = dict(np.load(folder / "history.npz"))
    for key, values in arrays.items():
        if key.endswith("/accuracy"):
            values[:, 1:-1, 4:] = np.nan
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "summary.json").write_text(json.dumps(summary))
    np.savez(folder / "history.npz", **arrays)
    return found


def test_the_setting_and_the_note_tell_the_sample(workdirs):
    plain, sampled = map(read_workdir, workdirs)
    said = "with a test every 2 (of a sample of 4 clients and 500 test samples; of all at the first"
    assert said in describe_setting(sampled)
    assert "sample;" not in describe_setting(plain)
    assert "of a sample, which adds an error of at most 4.00 points (95 %)" in note(sampled.summary, sampled.config)
    assert "sample" not in note(plain.summary, plain.config)


def test_clients_that_were_not_evaluated_have_no_colour(workdirs, tmp_path):
    grey = []
    for folder, unknown in zip(workdirs, (False, True)):
        run = read_workdir(folder)
        values = playback(run)["points"][0]["values"]  # [evaluations, clients]
        assert (values[1, 4:] == MISSING).all() == unknown
        assert (values[[0, -1]] != MISSING).all()
        path = save_movie(run, tmp_path / f"{unknown}.gif", [2], rounds=3, fps=10, width=3.0)
        with Image.open(path) as image:
            image.seek(image.n_frames - 1)  # at round 3 the last evaluation is that of round 2
            shown = np.array(image.convert("RGB")).astype(int)
        grey.append((abs(shown - GREY).max(axis=-1) <= 6).sum())
    assert grey[1] > grey[0] + 4 * 50, "four discs of about a hundred pixels; letters have some grey too"
