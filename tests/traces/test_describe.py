"""What `mdfl data` says of a trace, against plain loops, and how it says it."""

import itertools
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mdfl_jax.traces import load, resampling
from mdfl_jax.traces.describe import describe
from mdfl_jax.traces.plausible import speeds

ROOT = Path(__file__).parents[2]
FILES = ROOT / "tests" / "data" / "traces"
TOWN = ROOT / "configs" / "data" / "town.fcd.xml.gz"


def test_speeds_equal_the_loop(monkeypatch):
    """Also where a node's samples fall into different parts of those looked at together."""
    trace = load(TOWN)
    steps = []
    for node in range(len(trace.ids)):
        mine = trace.node == node
        way = list(zip(trace.sample_times[mine], trace.x[mine].astype(float), trace.y[mine].astype(float)))
        steps += [(b[0] - a[0], math.dist(a[1:], b[1:]), node) for a, b in itertools.pairwise(way)]
    seconds, metres, owner = map(np.array, zip(*steps))
    speed = metres / seconds
    order = np.argsort(speed)
    middle = speed[order][np.searchsorted(np.cumsum(seconds[order]), seconds.sum() / 2)]
    for chunk in (1 << 19, 101):
        monkeypatch.setattr(resampling, "CHUNK", chunk)
        got = speeds(trace)
        assert got.mean == pytest.approx(metres.sum() / seconds.sum())
        assert got.median == pytest.approx(middle, abs=0.011)
        assert got.largest == pytest.approx(speed.max())
        np.testing.assert_allclose(got.metres, np.bincount(owner, weights=metres))


def test_a_small_trace_in_words():
    """crossing.fcd.xml: three are there at each of three instants; at the last, one has left and one come."""
    lines = dict(describe(load(FILES / "crossing.fcd.xml"), radius=50, gaps="absent"))
    assert lines == {
        "format": "sumo: the element <fcd-export>",
        "ids": "4 (east, north, walker, late)",
        "types": "3 car, 1 person",
        "samples": "9 at 3 instants",
        "time": "0 to 2 s, a sample of an id every 1 s (median)",
        "area": "100.0 x 100.0 m from x = 0.0, y = 0.0",
        # 10 m/s for 2 s and 1 s, and 2 s at rest
        "speed": "mean 6.00, median 10.00, largest 10.00 m/s",
        "still": "2 ids never move",
        "presence": "median 1.5 s an id; 1 come after the beginning, 1 leave before the end: they are gone "
        "(trace.gaps=absent)",
        "rounds": "2 of 1 s; contacts at radius 50 m, at 2 of their beginnings:",
        "nodes present": "mean 3.0, max 3",
        # 0 s: walker with both; 1 s: walker with both
        "contacts": "mean 2.0, largest 2 pairs a round; a pair is two links",
        "degree": "mean 1.33; without a neighbour 0.0%",
        "components": "mean 1.0; the largest holds 100.0% of those present",
    }


def test_the_town_is_what_its_script_makes():
    import gzip
    import importlib.util

    spec = importlib.util.spec_from_file_location("make_trace", ROOT / "configs" / "data" / "make_trace.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert gzip.decompress(TOWN.read_bytes()) == module.make()
    assert TOWN.stat().st_size < 300_000


def test_describing_does_without_jax():
    """JAX alone would take 120 MB, and a trace of 1 GB is to be described in 300 MB."""
    code = "import sys, mdfl_jax.contrib.describe.command as d; "
    code += f"d.describe(d.load({str(TOWN)!r})); sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=60).returncode == 0
