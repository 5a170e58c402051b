"""Tables of places as people and tools write them: read right, or refused in one line with the remedy."""

import random
from datetime import UTC, datetime

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from mdfl_jax.traces import Trace, load

HEADERS = {
    "time": ["time", "timestamp", "timestep_time", "datetime", "T"],
    "id": ["id", "vehicle_id", "taxi_id", "Node"],
    "x": ["x", "vehicle_x"],
    "y": ["y", "vehicle_y"],
}


def walk(drawn, nodes=3, instants=4):
    """A walk of some nodes with steps of some metres, from places that lie kilometres apart."""
    start = {f"v{k}": (drawn.uniform(-9000, 9000), drawn.uniform(-9000, 9000)) for k in range(nodes)}
    rows, step = [], drawn.choice([1, 20, 600])
    for k in range(instants):
        for name, (x, y) in start.items():
            rows.append((k * step, name, round(x + drawn.uniform(-9, 9), 3), round(y + drawn.uniform(-9, 9), 3)))
    return pd.DataFrame(rows, columns=["time", "id", "x", "y"])


def places(trace):
    """{(id, time): place} in the metres of the file."""
    assert isinstance(trace, Trace)
    x, y = (column.astype(float) + start for column, start in zip((trace.x, trace.y), trace.origin))
    return {(trace.ids[k], t): (a, b) for k, t, a, b in zip(trace.node, trace.sample_times, x, y)}


def assert_read(trace, table):
    found, wanted = places(trace), {(row.id, float(row.time)): (row.x, row.y) for row in table.itertuples()}
    assert found.keys() == wanted.keys()
    for key, place in wanted.items():
        np.testing.assert_allclose(found[key], place, atol=2e-3)  # float32 about an origin


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_any_header_order_mark_and_further_columns(tmp_path_factory, seed):
    drawn = random.Random(seed)
    table = walk(drawn)
    written = table.rename(columns={role: drawn.choice(names) for role, names in HEADERS.items()})
    if drawn.random() < 0.5:
        written[["speed", "vehicle_type"]] = 3.5, "a car"
    if drawn.random() < 0.3:
        dates = [datetime.fromtimestamp(t, UTC).strftime("%Y-%m-%d %H:%M:%S") for t in table.time]
        written[written.columns[0]] = dates
    written = written[drawn.sample([*written.columns], len(written.columns))]
    if drawn.random() < 0.5:
        written = written.iloc[np.argsort(table.id.to_numpy(), kind="stable")]
    path = tmp_path_factory.mktemp("table") / "table.csv"
    written.to_csv(path, index=False, sep=drawn.choice(",;\t"))
    assert_read(load(path), table)


def test_columns_decide(tmp_path):
    (tmp_path / "a").write_text("0,1,2\n1,2,3\n")
    assert load(tmp_path / "a", columns="round,i,j").pair.tolist() == [[0, 1], [1, 2]]
    assert load(tmp_path / "a", columns="i,j,round").pair.tolist() == [[0, 1], [1, 2]]
    (tmp_path / "b").write_text("0,1,5,7\n1,1,6,8\n")
    assert load(tmp_path / "b", columns="start,end,i,j").ids == ("5", "6", "7", "8")
    assert load(tmp_path / "b", columns="time,id,x,y").ids == ("1",)
    (tmp_path / "c.movements").write_text("0 1 2 3 4 9 8 5 9 11 7 1\n")
    assert load(tmp_path / "c.movements").times.tolist() == [0, 3, 8, 11]
    assert load(tmp_path / "c.movements", columns="time,x,y,z").times.tolist() == [0, 4, 9]


def test_milliseconds_are_seconds_in_every_table(tmp_path):
    """The name of the column says the unit; a date has none, and the moment is the same."""
    instants = [1_700_000_000_500, 1_700_000_010_500, 1_700_000_020_500]
    table = pd.DataFrame({"time_ms": instants, "id": ["a"] * 3, "x": [0.0, 1, 2], "y": [0.0] * 3})
    table.to_csv(tmp_path / "a.csv", index=False)
    pairs = pd.DataFrame({"timestamp_ms": instants, "i": [0] * 3, "j": [1] * 3})
    pairs.to_csv(tmp_path / "contacts.csv", index=False)
    pairs.to_csv(tmp_path / "bare.csv", index=False, header=False)
    assert load(tmp_path / "a.csv").times.tolist() == [k / 1000 for k in instants]
    for name, columns in (("contacts.csv", ""), ("bare.csv", "timestamp_ms,i,j")):
        met = load(tmp_path / name, columns=columns)
        assert met.start.tolist() == [k / 1000 for k in instants]
        assert met.step == 10
