"""Tables of places as people and tools write them: read right, or refused in one line with the remedy."""

import random
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small import told

from mdfl_jax.core.errors import UserError
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


@settings(max_examples=75, deadline=None)
@given(st.integers(0, 2**32))
def test_any_header_order_mark_and_further_columns(tmp_path_factory, seed):
    drawn = random.Random(seed)
    table = walk(drawn)
    written = table.rename(columns={role: drawn.choice(names) for role, names in HEADERS.items()})
    if drawn.random() < 0.5:
        written["speed"] = 3.5
    if drawn.random() < 0.5:
        written["vehicle_type"] = "a car"
    if drawn.random() < 0.3:
        dates = [datetime.fromtimestamp(t, UTC).strftime("%Y-%m-%d %H:%M:%S") for t in table.time]
        written[written.columns[0]] = dates
    written = written[drawn.sample([*written.columns], len(written.columns))]
    if drawn.random() < 0.5:
        written = written.iloc[np.argsort(table.id.to_numpy(), kind="stable")]
    path = tmp_path_factory.mktemp("table") / "table.csv"
    written.to_csv(path, index=False, sep=drawn.choice(",;\t"))
    assert_read(load(path), table)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_a_table_without_a_header_is_read_right_or_refused(tmp_path_factory, seed):
    """In the usual order it is read if nodes are kilometres apart; else it is refused, or read with `columns`."""
    drawn = random.Random(seed)
    table = walk(drawn, nodes=drawn.randint(2, 5), instants=drawn.randint(2, 5))
    table["id"] = [name[1:] for name in table.id]
    order = drawn.choice([["time", "id", "x", "y"], ["id", "time", "x", "y"]])
    table = table.sort_values(order[:2], kind="stable")
    path = tmp_path_factory.mktemp("table") / "table.csv"
    table[order].to_csv(path, index=False, header=False)
    assert_read(load(path, columns=",".join(order)), table)
    if order[0] == "time":
        assert_read(load(path), table)
    else:
        with pytest.raises(UserError, match=r"trace\.columns says it, as time,id,x,y or id,time,x,y"):
            load(path)


@settings(max_examples=75, deadline=None)
@given(st.integers(0, 2**32))
def test_of_two_readings_that_are_as_good_none_is_taken(tmp_path_factory, seed):
    """Nodes that are near one another, in a column on a road or in a room, seen in turn or one after another."""
    drawn = random.Random(seed)
    nodes, instants, step = drawn.randint(2, 9), drawn.randint(2, 9), drawn.choice([1, 2, 60])
    speed, apart = drawn.uniform(0, 40), drawn.uniform(0, 60)
    rows = [
        (step * t, k, round(speed * step * t + drawn.uniform(-1, 1), 2), round(apart * k + drawn.uniform(-1, 1), 2))
        for t in range(instants)
        for k in range(nodes)
    ]
    table, order = pd.DataFrame(rows, columns=["time", "id", "x", "y"]), drawn.choice([["time", "id"], ["id", "time"]])
    table = table.sort_values(drawn.choice([["time", "id"], ["id", "time"]]), kind="stable")
    path = tmp_path_factory.mktemp("table") / "table.csv"
    table[[*order, "x", "y"]].to_csv(path, index=False, header=False)
    with pytest.raises(UserError, match=r"may be time and id, or id and time; trace\.columns says it, as time"):
        load(path)
    assert_read(load(path, columns=",".join([*order, "x", "y"])), table.assign(id=table.id.astype(str)))


@pytest.mark.parametrize(
    "text",
    [
        "0,a,1,2\n0,b,2,2\n1,a,1,3\n1,b,2,3\n",  # times are no words
        "0.0,1,1,2\n0.0,2,2,2\n1.0,1,1,3\n1.0,2,2,3\n",  # ids have no decimals
        "0,2,1,2\n0,1,2,2\n1,2,1,3\n1,1,2,3\n",  # times grow
        "0,1,1.5,2\n0,2,900,2\n1,1,1.5,3\n1,2,900,3\n",  # nobody moves 900 m in a second
    ],
)
def test_a_table_that_can_be_but_one_thing_needs_no_header(tmp_path, text):
    (tmp_path / "t").write_text(text)
    assert load(tmp_path / "t").times.tolist() == [0, 1]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_dates_tell_which_column_is_the_time(tmp_path_factory, seed):
    """As in T-Drive: id, date, longitude, latitude, whatever the order of id and date."""
    drawn = random.Random(seed)
    lon, lat, rows = drawn.uniform(100, 140), drawn.uniform(-60, 60), []
    for taxi in range(3):
        for k in range(4):
            at = datetime.fromtimestamp(1.2e9 + 300 * k, UTC).strftime("%Y-%m-%d %H:%M:%S")
            rows.append([str(taxi), at, lon + drawn.uniform(-0.01, 0.01), lat + drawn.uniform(-0.01, 0.01)])
    if drawn.random() < 0.5:
        rows = [[at, taxi, *place] for taxi, at, *place in rows]
    path = tmp_path_factory.mktemp("table") / "1.txt"
    pd.DataFrame(rows).to_csv(path, index=False, header=False, float_format="%.5f")
    trace = load(path)
    assert trace.format == "csv_geo"
    assert sorted(trace.ids) == ["0", "1", "2"]
    assert (trace.times - 1.2e9).tolist() == [0, 300, 600, 900]
    assert max(np.ptp(trace.x), np.ptp(trace.y)) < 3000


def test_a_sample_that_is_there_twice_counts_once(tmp_path):
    (tmp_path / "t").write_text("time,id,x,y\n0,a,1,2\n0,a,1,2\n1,a,2,2\n")
    assert len(load(tmp_path / "t").node) == 2


def test_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    table = walk(random.Random(1))
    table.rename(columns={"time": "timestep_time", "id": "vehicle_id"}).to_parquet(tmp_path / "fcd.parquet")
    assert_read(load(tmp_path / "fcd.parquet"), table)
    table.assign(time=pd.to_datetime(table.time, unit="s", utc=True)).to_parquet(tmp_path / "dates.parquet")
    assert_read(load(tmp_path / "dates.parquet"), table)


@pytest.mark.parametrize(
    ("text", "columns", "says"),
    [
        ("when,who,x,y\n0,a,1,2\n", "", "columns when,who,x,y; they must be time,id,x,y or time,id,lon,lat"),
        ("time,t,id,x,y\n", "", "it holds no samples"),  # 'time' itself is the time
        ("t,seconds,id,x,y\n0,0,a,1,2\n", "", "t and seconds may both be the time; trace.columns names them"),
        ("time,id,x,y,lon,lat\n0,a,1,2,3,4\n", "", "it has x and y, and lon and lat; trace.columns names them"),
        ("0,a,1\n", "time,id,x,y", "trace.columns names 4 columns, and the file has 3"),
        ("0,a,1,2\n", "time,name,x", "trace.columns names 3 columns, and the file has 4"),
        ("0,a,1,2\n", "time,id,x,z", "columns time,id,x,z; they must be"),
        ("a,2008-02-02 10:00:00,2008-02-03 10:00:00,4\n", "", "two of its columns are dates"),
        ("a,2008-02-02 10:00:00,11.5,48.1\n", "", "11.5 and 48.1 may be longitude and latitude or"),
        ("time;id;x;y\n0,5;a;1;2\n", "", "time is '0,5'; it must be a number"),
        ("2008-02-02 10:00:00,a,116.5,48.1\nsoon,a,116.5,48.1\n", "", "time is 'soon'; it must be a date with a time"),
        ("<fcd-export/>", "time,id,x,y", "trace.columns names 4 columns, and the file has 1"),
    ],
)  # fmt: skip
def test_what_may_be_something_else_is_one_line(tmp_path, text, columns, says):
    (tmp_path / "table").write_text(text)
    assert says in told(load, tmp_path / "table", columns=columns)


def test_degrees_of_sumo_are_told_by_its_options(tmp_path):
    body = '<fcd-export><timestep time="{t}"><vehicle id="a" x="11.{t}" y="48.2"/></timestep>'
    fcd = "".join(body.format(t=t).removeprefix("" if t == 0 else "<fcd-export>") for t in range(3)) + "</fcd-export>"
    options = '<!-- <fcd-output.geo value="true"/> -->\n'
    (tmp_path / "geo.xml").write_text(options + fcd)
    assert load(tmp_path / "geo.xml").format == "sumo_geo"
    (tmp_path / "bare.xml").write_text(fcd)
    with pytest.raises(UserError, match=r"trace\.format=sumo reads metres; trace\.format=sumo_geo reads degrees"):
        load(tmp_path / "bare.xml")
    assert load(tmp_path / "bare.xml", "sumo").format == "sumo"
