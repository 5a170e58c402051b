"""The figure of road-side units: whom it takes to be at a unit, and when there is one."""

import numpy as np
import pytest

from configs import city
from mdfl_jax.config import default_config
from mdfl_jax.report import tables
from mdfl_jax.report.page import write_report
from mdfl_jax.report.panels.roadside import _meetings, at_unit, roadside
from mdfl_jax.report.read import read_workdir
from mdfl_jax.report.registry import FIGURES
from mdfl_jax.report.world import units_of
from mdfl_jax.study import make_study, run_study


def test_meetings_drawn_are_those_of_the_places():
    rng = np.random.default_rng(0)
    path, units = rng.uniform(0, 10, (7, 4, 2)), units_of("2,3; 8,8.5;")
    assert units.tolist() == [[2.0, 3.0], [8.0, 8.5]]
    found = at_unit(path, units, 2.5)
    for t in range(7):
        for i in range(4):
            near = any(np.hypot(*(path[t, i] - unit)) <= 2.5 for unit in units)
            assert found[t, i] == near


def study(**changes):
    config = default_config()
    config.seeds, config.rounds, config.eval_every, config.judged = 1, 12, 4, "global"
    config.network.num_clients = config.network.num_mobile = 5
    config.network.mobility, config.network.radius = "manhattan", 100.0
    config.algorithm.name, config.algorithm.batch_size, config.model.name = "fedmobile", 4, "linear"
    config.server.pattern, config.server.units, config.server.unit_range = "roadside", "200,200", 150.0
    for path, value in changes.items():
        section, _, name = path.rpartition(".")
        setattr(config[section] if section else config, name, value)
    return config


@pytest.mark.long
def test_a_study_with_units_has_the_figure_and_is_judged_by_the_global_model(tmp_path):
    summary = run_study(make_study(study()), tmp_path / "run")
    page = write_report(tmp_path / "run").read_text()
    assert (tmp_path / "run" / "figures" / "roadside.png").stat().st_size > 5000
    assert "Road-side units and their meetings" in page
    run = read_workdir(tmp_path / "run")
    (point,) = summary["points"]
    assert point["final_accuracy"]["mean"] == point["mean_model_accuracy"]["mean"]
    assert point["worst_client_accuracy"] is None
    assert run.curves["base"].accuracy[0, -1] == point["final_accuracy"]["mean"]
    assert "of the global model" in tables.note(run.summary, run.config)
    with np.load(tmp_path / "run" / "history.npz") as history:
        met = at_unit(history["0/position"][0, :-1].astype(float), np.array([[200.0, 200.0]]), 150.0)
        assert history["0/reached"][0].tolist() == met.any(axis=0).tolist()
        kinds = ("uploads", "downloads", "relayed_updates", "relayed_models")
        np.testing.assert_array_equal(sum(history[f"0/{kind}"] for kind in kinds), history["0/messages"])
        bits = history["0/direct_bits"] + history["0/relayed_bits"]
        np.testing.assert_array_equal(bits, history["0/bits_sent"])
        assert point["uploads"]["mean"] == history["0/uploads"][0, -1].mean() > 0


@pytest.mark.long
def test_an_absent_client_meets_nobody_in_the_figure(tmp_path):
    """The position of an absent client is its first or last place in the trace, which may be at a unit."""
    config = city.get_config("small_roadside")
    config.rounds, config.eval_every, config.seeds, config.sweep, config.baseline = 6, 6, 1, "", ""
    config.server.unit_range = 1e5  # all places
    config.network.num_clients = config.network.num_mobile = 118  # also vehicles that come later
    run_study(make_study(config), tmp_path / "run")
    run = read_workdir(tmp_path / "run")
    with np.load(tmp_path / "run" / "history.npz") as history:
        met, present = history["0/met_server"][0], history["0/present"][0]
    np.testing.assert_array_equal(met, present)
    assert not met.all()
    np.testing.assert_array_equal(_meetings(run), met)


@pytest.mark.long
def test_without_units_or_places_there_is_no_figure(tmp_path):
    run_study(make_study(study(**{"engine.record_positions": False})), tmp_path / "unplaced")
    assert not FIGURES["roadside"].applies(read_workdir(tmp_path / "unplaced"))


@pytest.mark.long
def test_an_infinite_range_is_drawn_without_circles(tmp_path):
    run_study(make_study(study(**{"server.unit_range": float("inf")})), tmp_path / "all")
    assert len(roadside(read_workdir(tmp_path / "all")).axes) == 2


@pytest.mark.long
def test_float64_goes_with_units(tmp_path):
    changes = {"data.name": "synthetic:linear", "engine.precision": "float64", "data.dimension": 7}
    summary = run_study(make_study(study(**changes)), tmp_path / "wide")
    assert np.isfinite(summary["points"][0]["objective"]["mean"])


@pytest.mark.long
def test_meetings_by_a_pattern_have_a_circle_for_a_map_and_their_own_words(tmp_path):
    config = study(**{"server.pattern": "fixed", "server.units": "", "server.interval": 5})
    run_study(make_study(config), tmp_path / "fixed")
    page = write_report(tmp_path / "fixed").read_text()
    assert "meet a server by the pattern fixed" in page
    assert "contact radius" not in page
    assert "They have no places in this study, so they stand on a circle." in page
