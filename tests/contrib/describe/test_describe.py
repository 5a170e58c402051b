"""What `mdfl data` says of a trace, against plain loops."""

import itertools
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mdfl_jax.traces import load, resampling
from mdfl_jax.traces.plausible import speeds

ROOT = Path(__file__).parents[3]
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
    code += f"d.describe_trace(d.load({str(TOWN)!r})); sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=60).returncode == 0
