"""From samples to rounds: interpolation, gaps, who is which client, and contact lists, against plain loops."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from small import told

from mdfl_jax.traces import Contacts, Trace, contact_table, load, resample


def trace_of(samples, waypoints=False):
    """A trace of {id: [(time, x, y), ...]}."""
    rows = sorted((time, node, x, y) for node, way in enumerate(samples.values()) for time, x, y in way)
    times, first = np.unique([row[0] for row in rows], return_index=True)
    _, node, x, y = (np.array(column) for column in zip(*rows))
    offsets = np.append(first, len(rows))
    x, y, node = x.astype(np.float32), y.astype(np.float32), node.astype(np.int32)
    return Trace(tuple(samples), times.astype(float), offsets, node, x, y, (0, 0), waypoints, "csv")


def oracle(samples, when, max_gap, waypoints=False):
    """(place, known) of one vehicle's samples at a time, by a loop."""
    for (begin, x, y), (end, to_x, to_y) in itertools.pairwise(samples):
        if begin <= when <= end and end - begin <= max_gap:
            share = (when - begin) / (end - begin)
            return (x + share * (to_x - x), y + share * (to_y - y)), True
    for time, x, y in samples:
        if time == when:
            return (x, y), True
    before = [sample for sample in samples if sample[0] <= when]
    return (before[-1] if before else samples[0])[1:], waypoints


TWO = {
    "a": [(0, 0, 0), (1, 10, 0), (2, 10, 20), (3, 10, 30), (9, 70, 30), (10, 70, 40)],
    "b": [(4, 5, 5), (5, 6, 5), (6, 7, 5)],
}


@st.composite
def random_samples(draw):
    """A few vehicles with samples at whole seconds, some missing."""
    ways = {}
    for vehicle in range(draw(st.integers(1, 4))):
        times = sorted(draw(st.sets(st.integers(0, 30), min_size=1, max_size=12)))
        places = st.integers(-50, 50)
        ways[f"v{vehicle}"] = [(time, draw(places), draw(places)) for time in times]
    return ways


@settings(max_examples=60, deadline=None)
@given(
    random_samples(),
    st.sampled_from([0.5, 1.0, 1.7, 3.0]),
    st.sampled_from([1.0, 4.0, 100.0]),
    st.booleans(),
    st.sampled_from([0.0, 0.25]),
)
def test_resampling_equals_the_loop(ways, dt, max_gap, waypoints, skipped):
    """From the beginning, or for three rounds from a later time on; a client that is held stands where it would."""
    trace = trace_of(ways, waypoints)
    first, last = trace.times[0], trace.times[-1]
    start = first + skipped * (last - first)
    if last - start < 3 * dt:
        return
    window = {"rounds": 3, "start": start} if skipped else {}
    table, held = (resample(trace, dt, gaps=gaps, max_gap=max_gap, **window) for gaps in ("absent", "hold"))
    assert (table.start, table.dt, table.position.dtype) == (start, dt, np.float32)
    assert len(table.position) == 4 or not skipped
    np.testing.assert_array_equal(held.position, table.position)
    assert held.present.all()
    for k, when in enumerate(start + dt * np.arange(len(table.position))):
        for client, way in enumerate(ways.values()):
            place, known = oracle(way, when, np.inf if waypoints else max_gap, waypoints)
            assert table.present[k, client] == known
            np.testing.assert_allclose(table.position[k, client], place, atol=1e-4)


def test_times_that_rounding_misses_are_met():
    """0.1 * 3 is not 0.3; the samples of a vehicle at tenths of a second are met all the same, the last one too."""
    times = [k / 10 for k in range(31)]
    trace = trace_of({"a": [(time, k, 0) for k, time in enumerate(times)]})
    table = resample(trace, 0.1, gaps="absent")
    assert table.present.all()
    assert table.position[:, 0, 0].tolist() == list(range(31))


FLEET = {
    "early": [(0, 1, 0), (1, 1, 0), (2, 1, 0)],
    "short": [(1, 2, 0), (2, 2, 0)],
    "whole": [(t, 3, 0) for t in range(9)],
    "later": [(3, 4, 0), (4, 4, 0), (5, 4, 0), (6, 4, 0)],
    "last": [(7, 5, 0), (8, 5, 0)],
}


def test_which_vehicle_a_client_is():
    for vehicles, clients, places, there in [
        ("longest", 2, [3, 4], [9, 4]),
        ("longest", 3, [1, 3, 4], [3, 9, 4]),
        ("first", 2, [1, 2], [3, 2]),
        (("last", "early"), 2, [5, 1], [2, 3]),
        (("last",), 2, [5, 1], [2, 0]),  # the second client is nobody; it stands in the corner of the area
        ("longest", 6, [1, 2, 3, 4, 5, 1], [3, 2, 9, 4, 2, 0]),
    ]:
        table = resample(trace_of(FLEET), 1, num_clients=clients, vehicles=vehicles, gaps="absent")
        assert (table.position[..., 0] == places).all(), vehicles
        assert table.present.sum(axis=0).tolist() == there, vehicles
    held = resample(trace_of(FLEET), 1, num_clients=7, gaps="hold")
    assert held.present.sum(axis=0).tolist() == [9] * 5 + [0] * 2
    two, three = (resample(trace_of(FLEET), 1, num_clients=n, vehicles="reuse", gaps="absent") for n in (2, 3))
    # "early" then "later" then "last"; "whole" is there all the time; "short" finds no client free.
    assert two.position[..., 0].T.tolist() == [[1, 1, 1, 4, 4, 4, 4, 5, 5], [3] * 9]
    assert two.present.all()
    assert three.position[:, 2, 0].tolist() == [2, 2, 2, 2, 2, 2, 2, 5, 5]
    assert three.present[:, 2].tolist() == [False, True, True, False, False, False, False, True, True]


def test_wrong_arguments():
    for arguments, expected in [
        ({"dt": 0}, "dt is 0; it must be above 0 seconds"),
        ({"rounds": 11}, "11 rounds of 1 s from 0 s: the trace ends at 10 s, after 10"),
        ({"start": 12}, "start is 12; the trace is from 0 to 10 s"),
        ({"max_gap": 0}, "max_gap is 0; it must be above 0 seconds"),
        ({"vehicles": "longst"}, "unknown choice of vehicles 'longst' (did you mean 'longest'?)"),
        ({"vehicles": ["a", "c"]}, "unknown vehicle 'c'; known: a, b"),
        ({"vehicles": ["a", "a"]}, "2 vehicles for 2 clients; each may be named once"),
    ]:
        assert expected in told(resample, trace_of(TWO), **({"dt": 1} | arguments))
    rows = contacts_of([(0, 1, 0, 1), (3, 4, 2, 7)], True)
    refused = "trace 'list.csv': the contact 2,7 in round 3 names client 7; there are 6 clients, 0 to 5"
    assert told(contact_table, rows, 6) == refused
    for wrong in ({"num_clients": 0}, {"dt": np.inf}, {"rounds": -1}):
        assert "it must be" in told(contact_table, rows, **({"num_clients": 8} | wrong))


def contacts_of(rows, in_rounds=False):
    start, end, *pair = (np.array(column) for column in zip(*rows))
    pair = np.stack(pair, axis=1).astype(np.int32)
    return Contacts(start.astype(float), end.astype(float), pair, in_rounds, "list.csv")


def links(table):
    """The links of each round as sets."""
    parts = np.split(table.edges, table.offsets[1:-1])
    assert all(len(part) == len({tuple(edge) for edge in part.tolist()}) for part in parts)
    return [{tuple(edge) for edge in part.tolist()} for part in parts]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 9), st.integers(0, 4), st.integers(1, 4)), min_size=1),
    st.sampled_from([1, 2, 5]),
    st.sampled_from([-3, 0, 4]),
)
def test_contact_lists_by_time_equal_the_loop(rows, dt, start):
    """A contact is in a round if some instant of it is: an instant t of start <= t < end, or start itself."""
    rows = [(begin, begin + length, i, (i + step) % 5) for begin, length, i, step in rows]
    expected = []
    for k in range(6):
        low, high = start + k * dt, start + (k + 1) * dt
        on = [(i, j) for a, b, i, j in rows if (a < high and b > low and b > a) or (low <= a < high)]
        expected.append({*on, *((j, i) for i, j in on)})
    assert links(contact_table(contacts_of(rows), 5, rounds=6, dt=dt, start=start)) == expected
    of_rounds = contacts_of([(0, 1, 0, 1), (0, 1, 1, 0), (0, 1, 0, 1), (2, 3, 1, 2)], True)
    assert links(contact_table(of_rounds, 3)) == [{(0, 1), (1, 0)}, set(), {(1, 2), (2, 1)}]
    assert links(contact_table(of_rounds, 3, rounds=4, directed=True))[2:] == [{(1, 2)}, set()]


def test_gaps_are_those_of_each_vehicle(tmp_path):
    """A vehicle that is seen each second and one that is seen each minute: neither stands still nor leaps."""
    rows = [f"{t},fast,{10 * t},0" for t in range(121)] + [f"{t},slow,{10 * t},5" for t in (0, 60, 120)]
    (tmp_path / "t.csv").write_text("time,id,x,y\n" + "\n".join(rows))
    table = resample(load(tmp_path / "t.csv"), dt=10.0)
    assert table.present.all()
    assert table.goes.all()
    np.testing.assert_allclose(table.position[:, 1, 0], 100 * np.arange(13))
    held = resample(load(tmp_path / "t.csv"), dt=10.0, max_gap=3.0)
    assert held.position[5, 1, 0] == 0  # as asked for: a minute is a gap then
