"""The city: the studies follow its traffic."""

import importlib
from pathlib import Path

import numpy as np
import pytest
from small import told
from tiny import run_study

from mdfl_jax.study import make_study
from mdfl_jax.traces import load, resample

ROOT = Path(__file__).parents[2]
DATA = ROOT / "configs" / "data"
SMALL = DATA / "city_small.fcd.xml.gz"


def city(argument, **changes):
    config = importlib.import_module("configs.city").get_config(argument)
    for path, value in changes.items():
        *sections, name = path.split("__")
        (config[sections[0]] if sections else config)[name] = value
    return config


def test_traffic_that_is_not_made_yet_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("MDFL_DATA_DIR", str(tmp_path))
    config = city("city", data__name="digits", eval_samples=0)
    assert "city.fcd.xml.gz': there is no such file; python" in told(make_study, config)


@pytest.mark.long
@pytest.mark.parametrize("argument", ["small", "small_roadside"])
def test_the_small_city_runs(argument, tmp_path):
    config = city(argument, rounds=4, eval_every=2, seeds=1)
    run_study(make_study(config), tmp_path / "run")
    with np.load(tmp_path / "run" / "history.npz") as history:
        last = history["1/accuracy" if argument == "small" else "1/mean_model_accuracy"][0, -1]
        assert np.isfinite(last).all()
        table = resample(load(SMALL), 6.0, 4, 100, gaps="absent")
        np.testing.assert_array_equal(history["1/position"][0], table.position)
        np.testing.assert_array_equal(history["1/present"][0], table.present[:4])
        moved = np.linalg.norm(np.diff(table.position, axis=0), axis=-1) * table.goes
        np.testing.assert_allclose(history["1/distance_moved"][0, -1], moved.sum(axis=0), rtol=1e-4)
