"""The report of a study of which only a sample was evaluated between the first and the last evaluation."""

import json

import numpy as np
import pytest
from PIL import Image

from mdfl_jax.report.described import describe_setting
from mdfl_jax.report.movie import save_movie
from mdfl_jax.report.panels.map import MISSING, playback
from mdfl_jax.report.read import read_workdir
from mdfl_jax.report.tables import note
from tests.report.conftest import write_workdir

GREY = (107, 107, 107)  # the colour of a client whose value is unknown


@pytest.fixture(scope="module")
def workdirs(tmp_path_factory):
    """A study of all clients, and the same with four of eight clients evaluated in between."""
    found = [write_workdir(tmp_path_factory.mktemp(name), seeds=2, rounds=20) for name in ("all", "sample")]
    folder = found[1]
    config, summary = (json.loads((folder / f"{name}.json").read_text()) for name in ("config", "summary"))
    config["config"] |= {"eval_clients": 4, "eval_samples": 500}
    for k, point in enumerate(summary["points"]):
        point["sampling"] = {"ci95": None if k == 1 else 0.01 * (k + 1), "round": 10, "mean_ci95": 0.01}
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
    assert (
        "with a test every 10 (of a sample of 4 clients and 500 test samples; of all at the first"
        in describe_setting(sampled)
    )
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
        path = save_movie(run, tmp_path / f"{unknown}.gif", [2], rounds=12, fps=10, width=3.0)
        with Image.open(path) as image:
            image.seek(image.n_frames - 1)  # at round 12 the last evaluation is that of round 10
            shown = np.array(image.convert("RGB")).astype(int)
        grey.append((abs(shown - GREY).max(axis=-1) <= 6).sum())
    assert grey[1] > grey[0] + 4 * 50, "four discs of about a hundred pixels; letters have some grey too"
