"""Round trips: what is written is read as it was."""

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdfl_jax.core.errors import UserError
from mdfl_jax.traces import Trace, load, write_bonnmotion, write_csv

FILES = Path(__file__).parents[1] / "data" / "traces"
PLACES = st.floats(-60_000, 60_000, width=32)


@st.composite
def traces(draw):
    """Any trace: some instants, at each of them some of the nodes."""
    times = sorted(draw(st.sets(st.floats(0, 1e6), min_size=1, max_size=8)))
    names = draw(st.lists(st.text("abcXYZ019-_.", min_size=1, max_size=6), min_size=1, max_size=5, unique=True))
    rows = [(k, node) for k in range(len(times)) for node in range(len(names)) if k == 0 or draw(st.booleans())]
    offsets = np.searchsorted([k for k, _ in rows], np.arange(len(times) + 1))
    kept = [k for k in range(len(times)) if offsets[k + 1] > offsets[k]]  # a file of samples has no empty instants
    x, y, z = (np.array([draw(PLACES) for _ in rows], np.float32) for _ in "xyz")
    rises = draw(st.booleans()) and np.round(z, 4).any()  # heights of zero are none
    return Trace(
        ids=tuple(names),
        times=np.array(times)[kept],
        offsets=np.append(offsets[kept], len(rows)),
        node=np.array([node for _, node in rows], np.int32),
        x=x,
        y=y,
        origin=(0.0, 0.0),
        waypoints=False,
        format="csv",
        z=z if rises else None,
    )


def same(got, expected, ids=True):
    """Equal but for a tenth of a millimetre, to which places are written, and float32's own rounding."""
    if ids:
        assert got.ids == expected.ids
    for name in ("times", "offsets"):
        np.testing.assert_array_equal(getattr(got, name), getattr(expected, name))
    # Within an instant a file of nodes gives them in their order.
    a, b = (np.lexsort((trace.node, trace.sample_times)) for trace in (got, expected))
    np.testing.assert_array_equal(got.node[a], expected.node[b])
    for mine, theirs in zip(got.axes, expected.axes, strict=True):
        np.testing.assert_allclose(mine[a], theirs[b], rtol=1e-7, atol=1e-4)


@settings(max_examples=60, deadline=None)
@given(traces())
def test_csv_round_trip(tmp_path_factory, trace):
    path = tmp_path_factory.mktemp("trip") / "trace.csv"
    write_csv(trace, path)
    same(load(path, "csv"), trace)  # whose places may look like degrees


@settings(max_examples=60, deadline=None)
@given(traces())
def test_bonnmotion_round_trip(tmp_path_factory, trace):
    path = tmp_path_factory.mktemp("trip") / "trace.movements"
    write_bonnmotion(trace, path)
    back = load(path, "bonnmotion")
    same(back, trace, ids=False)
    assert back.ids == tuple(str(node) for node in range(len(trace.ids)))


@pytest.mark.parametrize("name", ["crossing.fcd.xml", "pair.movements", "pair.ns_movements", "places.csv", "globe.csv"])
def test_every_format_goes_into_the_ones_written(tmp_path, name):
    for ending, write in (("csv.gz", write_csv), ("movements.gz", write_bonnmotion)):
        trace, path = load(FILES / name), tmp_path / f"trace.{ending}"
        write(trace, path)
        same(load(path), trace, ids=write is write_csv)


def test_far_origins_are_written_in_full(tmp_path):
    trace = replace(load(FILES / "places.csv"), origin=(691_000.0, 5_334_000.0))
    write_csv(trace, tmp_path / "far.csv")
    back = load(tmp_path / "far.csv")
    assert back.origin == trace.origin or back.origin == (691_000.0, 5_333_000.0)
    shift = np.subtract(back.origin, trace.origin)
    np.testing.assert_allclose(back.x + np.float32(shift[0]), trace.x, atol=1e-3)
    np.testing.assert_allclose(back.y + np.float32(shift[1]), trace.y, atol=1e-3)
    assert "691001.5,5334002.0" in (tmp_path / "far.csv").read_text()


def test_gzip_files_are_the_same_at_every_time(tmp_path):
    trace = load(FILES / "places.csv")
    write_csv(trace, tmp_path / "t.csv.gz")
    packed = (tmp_path / "t.csv.gz").read_bytes()
    assert packed[4:8] == b"\0\0\0\0"
    assert gzip.decompress(packed).startswith(b"time,id,x,y\n0.0,a,0.0,0.0\n")


def test_what_cannot_be_written(tmp_path):
    trace = load(FILES / "places.csv")
    for name in ("a,b", 'a"', " a", "a\n", "#a"):
        with pytest.raises(UserError, match="cannot stand in a CSV file"):
            write_csv(replace(trace, ids=("x", name)), tmp_path / "t.csv")
    assert not (tmp_path / "t.csv").exists()
    for write in (write_csv, write_bonnmotion):
        with pytest.raises(UserError, match="cannot be written"):
            write(trace, tmp_path / "nowhere" / "t.csv")
