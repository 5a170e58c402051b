"""The formats of public traces and of other simulators, against readings made with other tools."""

import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdfl_jax.contrib.describe.traces import describe_trace
from mdfl_jax.traces import Contacts, contact_table, load
from mdfl_jax.traces.loading import EARTH_RADIUS

BEGIN = datetime(2008, 10, 23, 2, 53, 4, tzinfo=UTC)
Places = dict[str, list[tuple[float, float, float]]]  # node -> (seconds since BEGIN, longitude, latitude)


def geolife(folder, nodes: Places):
    """A folder for each user, with a file for each of her days, as the data set has them."""
    for node, rows in nodes.items():
        (folder / node / "Trajectory").mkdir(parents=True)
        for k, part in enumerate(np.array_split(np.arange(len(rows)), 2 if len(rows) > 1 else 1)):
            when = [BEGIN + timedelta(seconds=rows[i][0]) for i in part]
            days = [(at - datetime(1899, 12, 30, tzinfo=UTC)) / timedelta(days=1) for at in when]
            lines = [
                f"{rows[i][2]:.6f},{rows[i][1]:.6f},0,492,{day:.10f},{at:%Y-%m-%d,%H:%M:%S}"
                for i, at, day in zip(part, when, days)
            ]
            head = ["Geolife trajectory", "WGS 84", "Altitude is in Feet", "Reserved 3", "0,2,255,My Track,0", "0"]
            (folder / node / "Trajectory" / f"{k}.plt").write_text("\n".join([*head, *lines]) + "\n")
    return folder


def cabspotting(folder, nodes: Places):
    """A file for each taxi, the latest sample first."""
    for node, rows in nodes.items():
        lines = [f"{lat:.6f} {lon:.6f} 0 {int(BEGIN.timestamp() + t)}" for t, lon, lat in reversed(rows)]
        (folder / f"new_{node}.txt").write_text("\n".join(lines) + "\n")
    (folder / "_cabs.txt").write_text('<cab id="abboip" updates="24527"/>\n')
    return folder


degrees = st.tuples(st.integers(-170_000_000, 170_000_000), st.integers(-80_000_000, 80_000_000))
walks = st.lists(st.tuples(st.integers(1, 600), st.integers(-900, 900), st.integers(-900, 900)), min_size=1, max_size=6)


@pytest.mark.parametrize("write", [geolife, cabspotting])  # GPX: tests/traces/test_real_tools.py
@settings(max_examples=15, deadline=None)
@given(start=degrees, moves=st.lists(walks, min_size=1, max_size=3))
def test_a_trace_that_is_written_is_read_back(write, tmp_path_factory, start, moves):
    """To the sixth digit of a degree, projected about the mean of all samples."""
    nodes: Places = {}
    for k, steps in enumerate(moves):
        t, x, y = 0, *start
        nodes[f"n{k}"] = []
        for dt, dx, dy in steps:
            t, x, y = t + dt, x + dx, y + dy
            nodes[f"n{k}"].append((t, x / 1e6, y / 1e6))
    named = {"format": "cabspotting"} if write is cabspotting else {}
    trace = load(write(tmp_path_factory.mktemp(write.__name__), nodes), **named)
    assert trace.format == f"{write.__name__}_geo"
    assert set(trace.ids) == set(nodes)
    table = pd.DataFrame(
        [(node, *row) for node, rows in nodes.items() for row in rows], columns=["id", "t", "lon", "lat"]
    )
    metres = math.radians(1) * EARTH_RADIUS
    table["x"] = (table.lon - table.lon.mean()) * metres * math.cos(math.radians(table.lat.mean()))
    table["y"] = (table.lat - table.lat.mean()) * metres
    found = pd.DataFrame(
        {"id": [trace.ids[k] for k in trace.node], "t": trace.sample_times, "x": trace.x, "y": trace.y}
    ).sort_values(["id", "t"], ignore_index=True)
    table = table.sort_values(["id", "t"], ignore_index=True)
    assert (found.t - BEGIN.timestamp()).tolist() == table.t.tolist()
    np.testing.assert_allclose(found[["x", "y"]], table[["x", "y"]], atol=1.5)  # float32 degrees of 170


def contacts_of(loaded, rounds, dt):
    """{(round, i, j)} of a list, by the names of the clients."""
    assert isinstance(loaded, Contacts)
    table = contact_table(loaded, len(loaded.ids), rounds, dt, start=0.0)
    owner = np.repeat(np.arange(rounds), np.diff(table.offsets))
    return {(int(k), loaded.ids[i], loaded.ids[j]) for k, (i, j) in zip(owner, table.edges) if i < j}


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5), st.integers(0, 5)), min_size=3, max_size=30))
def test_sociopatterns_in_both_orders(tmp_path_factory, drawn):
    """Badges of any numbers, each step 20 seconds, with and without classes; a contact may be there twice."""
    folder, badges = tmp_path_factory.mktemp("tij"), [702, 33, 1201, 9, 88, 412]
    rows = sorted((step, badges[i], badges[j]) for step, i, j in drawn if i != j)
    if not rows:
        return
    (folder / "tij").write_text("".join(f"{20 * (k + 1)}\t{i}\t{j}\tA B\n" for k, i, j in rows))
    (folder / "ijt").write_text("".join(f"{i} {j} {k}\n" for k, i, j in rows))
    names = tuple(str(b) for b in sorted({b for _, *pair in rows for b in pair}))
    expected = {(k, str(min(i, j)), str(max(i, j))) for k, i, j in rows}
    for name, kind in (("tij", "sociopatterns"), ("ijt", "sociopatterns_ijt")):
        loaded = load(folder / name, kind)
        assert loaded.ids == names
        assert contacts_of(loaded, 10, 20.0) == expected
    assert "9" not in names or "clients 0 to" in dict(describe_trace(loaded))["ids"]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(1, 90)), min_size=2, max_size=25))
def test_a_report_of_connections_is_the_list_of_its_intervals(tmp_path_factory, drawn):
    folder, now, since, events, intervals = tmp_path_factory.mktemp("one"), 0, {}, [], []
    for i, j, dt in drawn:
        if i == j:
            continue
        now, pair = now + dt, (min(i, j), max(i, j))
        events.append(f"{now}.0 CONN p{i} p{j} {'down' if pair in since else 'up'}\n")
        if pair in since:
            intervals.append((since.pop(pair), now, *pair))
        else:
            since[pair] = now
    if not events:
        return
    intervals += [(begun, now, *pair) for pair, begun in since.items()]
    (folder / "report.txt").write_text("".join(events))
    found = load(folder / "report.txt", "one_conn")
    assert isinstance(found, Contacts)
    names = sorted({k for *_, i, j in intervals for k in (i, j)})
    assert found.ids == tuple(f"p{k}" for k in names)
    rows = [(s, e, found.ids[i], found.ids[j]) for s, e, (i, j) in zip(found.start, found.end, found.pair)]
    assert sorted(rows) == sorted((s, e, f"p{i}", f"p{j}") for s, e, i, j in intervals)
