"""The city: its traffic is SUMO's, lies on its streets and stops at its lights, and the studies follow it."""

import importlib
import json
from pathlib import Path

import numpy as np
import pytest
from small import told
from tiny import run_study

from mdfl_jax.study import make_study
from mdfl_jax.traces import load, resample
from mdfl_jax.traces.formats.sumo import street_pieces

ROOT = Path(__file__).parents[2]
DATA = ROOT / "configs" / "data"
SMALL = DATA / "city_small.fcd.xml.gz"


def city(argument, **changes):
    config = importlib.import_module("configs.city").get_config(argument)
    for path, value in changes.items():
        *sections, name = path.split("__")
        (config[sections[0]] if sections else config)[name] = value
    return config


def away_from(pieces, places):
    """[n] metres from each place to the nearest of the pieces of street."""
    start, way = pieces[:, :2], pieces[:, 2:] - pieces[:, :2]
    apart = places[:, None] - start
    along = np.clip((apart * way).sum(-1) / np.maximum((way**2).sum(-1), 1e-9), 0, 1)
    return np.linalg.norm(apart - along[..., None] * way, axis=-1).min(axis=1)


def test_the_small_traffic_is_on_its_streets_and_stands_at_its_lights():
    trace = load(SMALL)
    pieces = street_pieces(DATA / "city_small.net.xml.gz", trace)
    places = np.stack([trace.x, trace.y], axis=1)[::7]
    # On a road of two lanes the middle of a junction is 10 m from the first lanes.
    assert away_from(pieces, places).max() < 15
    assert away_from(pieces, places[:, ::-1] + 40).max() > 15  # so would not be said of other places
    table = resample(trace, 6.0, gaps="absent")
    moved = np.linalg.norm(np.diff(table.position, axis=0), axis=-1)[table.goes]
    assert moved.max() <= 6 * 13.89 * 1.25  # 50 km/h, which some drivers exceed
    assert 0.03 < (moved < 0.1).mean() < 0.5
    told = json.loads((DATA / "city_small.json").read_text())
    present = table.present.sum(axis=1)
    assert told["traffic"]["present"]["least"] - 1 <= present.min() <= present.max() <= told["traffic"]["vehicles"]


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
