"""Traces by configuration: their heights."""

import numpy as np
import pytest

from mdfl_jax.study import make_study
from mdfl_jax.study.plan import plan


@pytest.fixture
def traced(tiny, tmp_path):
    """The tiny study along a trace of eight vehicles, of which the last one leaves after second 2; changed by path."""
    there = [(t, i) for t in range(7) for i in range(8) if i < 7 or t <= 2]
    rows = [f"{t},v{i},{(100 * i + (37 * i + 20) * t) % 400},{(60 * i + 11 * t * i) % 300}" for t, i in there]
    (tmp_path / "town.csv").write_text("\n".join(["time,id,x,y", *rows, ""]))
    start = {"network.mobility": "trace", "trace.file": str(tmp_path / "town.csv"), "network.radius": 120.0, "seeds": 1}
    return lambda **changes: tiny(**start | changes)


def test_heights_go_to_the_radio_that_reads_them(traced, tmp_path):
    """Every client of these rows climbs, and is assigned its own; the plan says what counts and what does not."""
    rows = [f"{t},v{i},{50 * i + t},0,{10 * i + t}" for t in range(6) for i in range(6)]
    (tmp_path / "up.csv").write_text("\n".join(["time,id,x,y,z", *rows, ""]))
    up = {"trace.file": str(tmp_path / "up.csv"), "baseline": "", "sweep": "network.mobility=trace,random_waypoint"}
    study = make_study(traced(**up, **{"radio.name": "air_to_ground", "radio.height": 50.0}))
    climbs, other = (hparams.network.trace.height for hparams in study.groups[0].hparams)
    np.testing.assert_array_equal(climbs, 10 * np.arange(6) + np.arange(5)[:, None])
    assert climbs.shape == other.shape
    assert np.isnan(other).all()
    file = f"trace.file {tmp_path / 'up.csv'}"
    lines = plan(study).splitlines()
    assert f"  note: {file}: heights from the ground, 0.0 to 55.0 m, are read" in lines
    assert f"  note: radio.height is 50.0; ignored: '{tmp_path / 'up.csv'}' has heights" in lines
    assert not any("radio.flying" in line or "height_spread" in line for line in lines)
    left_out = make_study(traced(**up))
    assert all(hparams.network.trace.height is None for hparams in left_out.groups[0].hparams)
    assert f"  note: {file}: its heights are left out: nothing reads them" in plan(left_out).splitlines()
