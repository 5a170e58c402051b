"""From samples to rounds: interpolation, gaps, who is which client, and contact lists, against plain loops."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small import told

from mdfl_jax.core.errors import UserError
from mdfl_jax.traces import Contacts, Trace, contact_table, load, resample, resampling, write_csv


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


def test_places_between_samples_in_gaps_and_outside_by_hand():
    table = resample(trace_of(TWO), dt=2.5, gaps="absent")
    assert table.position.dtype == np.float32
    assert (table.start, table.dt) == (0, 2.5)
    # Samples are 1 s apart, so the 6 s from 3 to 9 are a gap (more than three times that).
    assert table.present[:, 0].tolist() == [True, True, False, False, True]
    assert table.position[:, 0].tolist() == [[0, 0], [10, 25], [10, 30], [10, 30], [70, 40]]
    assert table.present[:, 1].tolist() == [False, False, True, False, False]
    assert table.position[:, 1].tolist() == [[5, 5], [5, 5], [6, 5], [7, 5], [7, 5]]


def test_hold_keeps_clients_in_gaps_and_a_longer_gap_may_be_bridged():
    held = resample(trace_of(TWO), dt=2.5, gaps="hold")
    np.testing.assert_array_equal(held.position, resample(trace_of(TWO), dt=2.5, gaps="absent").position)
    assert held.present.all()
    bridged = resample(trace_of(TWO), dt=2.5, gaps="absent", max_gap=6)
    assert bridged.present[:, 0].all()
    assert bridged.position[2, 0].tolist() == [30, 30]


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
@given(random_samples(), st.sampled_from([0.5, 1.0, 1.7, 3.0]), st.sampled_from([1.0, 4.0, 100.0]), st.booleans())
def test_resampling_equals_the_loop(ways, dt, max_gap, waypoints):
    trace = trace_of(ways, waypoints)
    if trace.times[-1] - trace.times[0] < dt:
        return
    table = resample(trace, dt, gaps="absent", max_gap=max_gap)
    for k, when in enumerate(trace.times[0] + dt * np.arange(len(table.position))):
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


@pytest.mark.parametrize(
    ("vehicles", "clients", "places", "there"),
    [
        ("longest", 2, [3, 4], [9, 4]),
        ("longest", 3, [1, 3, 4], [3, 9, 4]),
        ("first", 2, [1, 2], [3, 2]),
        (("last", "early"), 2, [5, 1], [2, 3]),
        (("last",), 2, [5, 1], [2, 0]),  # the second client is nobody; it stands in the corner of the area
        ("longest", 6, [1, 2, 3, 4, 5, 1], [3, 2, 9, 4, 2, 0]),
    ],
)
def test_which_vehicle_a_client_is(vehicles, clients, places, there):
    table = resample(trace_of(FLEET), 1, num_clients=clients, vehicles=vehicles, gaps="absent")
    assert (table.position[..., 0] == places).all()
    assert table.present.sum(axis=0).tolist() == there


def test_a_client_reuses_vehicles_one_after_another():
    table = resample(trace_of(FLEET), 1, num_clients=2, vehicles="reuse", gaps="absent")
    # "early" then "later" then "last"; "whole" is there all the time; "short" finds no client free.
    assert table.position[:, 0, 0].tolist() == [1, 1, 1, 4, 4, 4, 4, 5, 5]
    assert table.position[:, 1, 0].tolist() == [3] * 9
    assert table.present.all()
    three = resample(trace_of(FLEET), 1, num_clients=3, vehicles="reuse", gaps="absent")
    assert three.position[:, 2, 0].tolist() == [2, 2, 2, 2, 2, 2, 2, 5, 5]
    assert three.present[:, 2].tolist() == [False, True, True, False, False, False, False, True, True]


def test_large_traces_are_taken_in_parts(monkeypatch, tmp_path):
    """The same table whatever the number of samples looked at together."""
    rng = np.random.default_rng(0)
    ways = {f"v{i}": [(t, *rng.uniform(0, 99, 2)) for t in range(40) if rng.random() < 0.7] for i in range(9)}
    path = tmp_path / "t.csv"
    write_csv(trace_of(ways), path)
    trace = load(path)
    whole = resample(trace, 7.3, num_clients=4, vehicles="reuse", gaps="absent", max_gap=2)
    monkeypatch.setattr(resampling, "CHUNK", 5)
    for a, b in zip(whole, resample(trace, 7.3, num_clients=4, vehicles="reuse", gaps="absent", max_gap=2)):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"dt": 0}, "dt is 0; it must be above 0 seconds"),
        ({"rounds": 11}, "11 rounds of 1 s from 0 s: the trace ends at 10 s, after 10"),
        ({"dt": 11}, "1 rounds of 11 s from 0 s: the trace ends at 10 s, after 0"),
        ({"start": 12}, "start is 12; the trace is from 0 to 10 s"),
        ({"gaps": "holdd"}, "unknown rule for gaps 'holdd' (did you mean 'hold'?); known: absent, hold"),
        ({"max_gap": 0}, "max_gap is 0; it must be above 0 seconds"),
        ({"vehicles": "longst"}, "unknown choice of vehicles 'longst' (did you mean 'longest'?)"),
        ({"vehicles": ["a", "c"]}, "unknown vehicle 'c'; known: a, b"),
        ({"vehicles": ["a", "a"]}, "2 vehicles for 2 clients; each may be named once"),
    ],
)
def test_wrong_arguments(arguments, expected):
    assert expected in told(resample, trace_of(TWO), **({"dt": 1} | arguments))


def contacts_of(rows, in_rounds=False):
    start, end, *pair = (np.array(column) for column in zip(*rows))
    pair = np.stack(pair, axis=1).astype(np.int32)
    return Contacts(start.astype(float), end.astype(float), pair, in_rounds, "list.csv")


def links(table):
    """The links of each round as sets."""
    parts = np.split(table.edges, table.offsets[1:-1])
    assert all(len(part) == len({tuple(edge) for edge in part.tolist()}) for part in parts)
    return [{tuple(edge) for edge in part.tolist()} for part in parts]


def test_contact_lists_by_round():
    rows = [(0, 1, 0, 1), (0, 1, 1, 0), (0, 1, 0, 1), (2, 3, 1, 2)]
    assert links(contact_table(contacts_of(rows, True), 3)) == [{(0, 1), (1, 0)}, set(), {(1, 2), (2, 1)}]
    assert links(contact_table(contacts_of(rows, True), 3, directed=True)) == [{(0, 1), (1, 0)}, set(), {(1, 2)}]
    assert links(contact_table(contacts_of(rows, True), 3, rounds=1)) == [{(0, 1), (1, 0)}]
    assert links(contact_table(contacts_of(rows, True), 3, rounds=4))[3] == set()


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


def test_a_contact_of_nobody_is_refused():
    rows = contacts_of([(0, 1, 0, 1), (3, 4, 2, 7)], True)
    refused = "trace 'list.csv': the contact 2,7 in round 3 names client 7; there are 6 clients, 0 to 5"
    assert told(contact_table, rows, 6) == refused
    assert contact_table(rows, 8).num_clients == 8


@pytest.mark.parametrize("arguments", [{"num_clients": 0}, {"dt": 0}, {"dt": np.inf}, {"rounds": -1}])
def test_wrong_arguments_of_contact_tables(arguments):
    with pytest.raises(UserError, match="it must be"):
        contact_table(contacts_of([(0, 1, 0, 1)]), **({"num_clients": 2} | arguments))


def test_start_and_rounds_take_a_window():
    table = resample(trace_of(TWO), 1, rounds=3, start=4.5, gaps="absent", max_gap=100)
    assert table.position[:, 0, 0].tolist() == [25, 35, 45, 55]
    assert table.present[:, 1].tolist() == [True, True, False, False]


def test_nobody_is_still_absent_when_gaps_are_held():
    table = resample(trace_of(FLEET), 1, num_clients=7, gaps="hold")
    assert table.present[:, :5].all()
    assert not table.present[:, 5:].any()


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


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(1, 90), max_size=9), min_size=1, max_size=5), st.integers(1, 7))
def test_spacings_are_medians_by_node(drawn, chunk):
    samples = sorted((float(t), k) for k, steps in enumerate(drawn) for t in np.cumsum([0, *steps]))
    times = np.unique([t for t, _ in samples])
    offsets = np.searchsorted([t for t, _ in samples], [*times, np.inf])
    node = np.array([k for _, k in samples], np.int32)
    zeros = np.zeros(len(node), np.float32)
    trace = Trace(tuple(map(str, range(len(drawn)))), times, offsets, node, zeros, zeros, (0, 0), False, "csv")
    before, resampling.CHUNK = resampling.CHUNK, chunk
    try:
        found = resampling.spacings(trace)
    finally:
        resampling.CHUNK = before
    np.testing.assert_array_equal(found, [np.median(steps) if steps else np.nan for steps in drawn])
