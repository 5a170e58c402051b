"""The city: its traffic is SUMO's, lies on its streets and stops at its lights, and the studies follow it."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from small import told
from tiny import run_study

from configs.data.sumo_tools import sumo_home
from mdfl_jax.core.errors import UserError
from mdfl_jax.study import make_study
from mdfl_jax.traces import load, resample
from mdfl_jax.traces.formats.sumo import street_pieces

ROOT = Path(__file__).parents[2]
DATA = ROOT / "configs" / "data"
SMALL = DATA / "city_small.fcd.xml.gz"
MAKE = [sys.executable, str(DATA / "make_city.py")]


def city(argument, **changes):
    config = importlib.import_module("configs.city").get_config(argument)
    for path, value in changes.items():
        *sections, name = path.split("__")
        (config[sections[0]] if sections else config)[name] = value
    return config


def make(*flags, **variables):
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | variables
    return subprocess.run([*MAKE, *flags], capture_output=True, text=True, env=environment)


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


def test_the_units_stand_where_vehicles_wait():
    config = city("small_roadside")
    table = resample(load(SMALL), 6.0, num_clients=100, gaps="absent")
    units = np.array([unit.split(",") for unit in config.server.units.split(";")], float)
    near = np.linalg.norm(table.position[:, :, None] - units, axis=-1).min(axis=-1) <= config.server.unit_range
    met = (near & table.present).any(axis=0)
    assert 20 < met.sum() < 100


@pytest.mark.parametrize(
    ("argument", "changes", "said"),
    [
        ("city", {"data__name": "digits", "eval_samples": 0}, "city.fcd.xml.gz': there is no such file; python"),
        ("small", {"rounds": 70}, "lasts 360 s: 60 rounds of motion.dt 6, and rounds is 70"),
        ("small", {"network__num_clients": 121}, "network.num_clients is 121; "),
    ],
)
def test_mistakes_are_one_line(argument, changes, said, tmp_path, monkeypatch):
    monkeypatch.setenv("MDFL_DATA_DIR", str(tmp_path))
    config = city(argument, **changes)
    assert said in told(make_study, config)


@pytest.mark.parametrize("argument", ["city", "roadside"])
def test_the_large_city_is_a_study_with_other_traffic(argument):
    """Its fields agree with each other; the small traffic and shipped data stand for its own."""
    few = {"network__num_clients": 100, "network__num_mobile": 100, "rounds": 60}
    few |= {"eval_clients": 50, "eval_samples": 100} if argument == "city" else {}
    files = {"trace__file": str(SMALL), "trace__streets": str(DATA / "city_small.net.xml.gz"), "data__name": "digits"}
    config = city(argument)
    asked = (config.network.num_clients, config.rounds * config.motion.dt, config.eval_clients)
    assert asked == (5000, 3600, 500 if argument == "city" else 0)
    study = make_study(city(argument, **few, **files))
    assert len(study.points) == (1 if argument == "city" else 2)
    assert study.streets is not None


def test_an_unknown_argument_is_refused():
    with pytest.raises(ValueError, match="known: city, roadside, small, small_roadside"):
        city("large")


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


@pytest.mark.long
def test_the_traffic_is_made_once_and_absent_sumo_is_one_line(tmp_path):
    there = make("--size=small")
    assert there.returncode == 0, there.stderr
    assert "is there already" in there.stdout
    try:
        sumo_home()
    except UserError:
        absent = make(f"--out={tmp_path / 'out'}", SUMO_HOME="")
        assert absent.returncode == 2
        assert absent.stderr.startswith("error: SUMO is absent: ")
        assert absent.stderr.count("\n") == 1
        assert not (tmp_path / "out").exists()
        pytest.skip("the extra sumo is not installed")
    made = [make("--size=small", f"--out={tmp_path / name}") for name in "ab"]
    assert [one.returncode for one in made] == [0, 0], made[0].stderr
    for kind in ("fcd", "net"):
        first, second = ((tmp_path / name / f"city_small.{kind}.xml.gz").read_bytes() for name in "ab")
        assert first == second
