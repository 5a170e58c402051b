"""The data of the playback map: what the page gets is what history.npz holds, and it is never too much."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mdfl_jax.report import pack, playback, world
from mdfl_jax.report.panels.map import _caption, _chart
from mdfl_jax.report.read import read_workdir
from mdfl_jax.report.registry import FIGURES
from tests.report.recorded_rounds import add_records, linked

Maker = Callable[..., Path]


def recovered(coded: np.ndarray, low, high) -> np.ndarray:
    """Places [T, n, 2] from the differences [n, 2, T]: what map_data.js does, number by number."""
    found = np.zeros(coded.shape)
    for i, axis in np.ndindex(*coded.shape[:2]):
        whole = 0
        for t, change in enumerate(coded[i, axis]):
            whole = (whole + int(change)) % 65536
            share = float("nan") if whole == pack.MISSING else whole / pack.LEVELS
            found[i, axis, t] = low[axis] + share * (high[axis] - low[axis])
    return found.transpose(2, 0, 1)


def links_of(coded: dict, clients: int) -> np.ndarray:
    """Links [T, N, N] from their coded form, pair by pair."""
    pairs = [(i, j) for i in range(clients) for j in range(clients) if not coded["mutual"] or i < j]
    found = np.zeros((len(coded["bits"]), clients, clients), bool)
    before = np.zeros(len(pairs), int)
    for t, row in enumerate(coded["bits"]):
        bits = np.array([row[k // 8] >> (7 - k % 8) & 1 for k in range(len(pairs))], int)
        before = bits ^ before if coded["changes"] else bits
        for (i, j), bit in zip(pairs, before):
            found[t, i, j] = bit
            if coded["mutual"]:
                found[t, j, i] = bit
    return found


PLACES = arrays(np.float64, (5, 3, 2), elements=st.floats(-40, 70, width=32) | st.just(float("nan")))


@given(PLACES)
@settings(deadline=None)
def test_places_are_recovered_within_half_a_quantum(places):
    low, high = np.array([-40.0, -50.0]), np.array([70.0, 90.0])
    again = recovered(playback.changes(playback.quantised(places, low, high)), low, high)
    assert np.array_equal(np.isnan(again), np.isnan(places))
    half = (high - low) / pack.LEVELS / 2
    assert np.nanmax(np.abs(again - places) / half, initial=0) <= 1 + 1e-6


@given(arrays(bool, (4, 11, 11)), st.booleans(), st.booleans())
@settings(deadline=None)
def test_links_are_recovered_exactly(hears, mutual, steady):
    hears = hears & ~np.eye(11, dtype=bool)
    hears = hears | hears.transpose(0, 2, 1) if mutual else hears
    hears = np.repeat(hears[:1], 4, axis=0) if steady else hears
    coded = playback.coded_links(np.packbits(hears, axis=-1), 11)
    assert np.array_equal(links_of(coded, 11), hears)
    assert coded["mutual"] or not mutual


def test_links_that_stay_take_almost_no_room():
    hears = np.repeat(np.random.default_rng(0).random((1, 60, 60)) < 0.3, 400, axis=0)
    coded = playback.coded_links(np.packbits(hears | hears.transpose(0, 2, 1), axis=-1), 60)
    assert coded["changes"]
    assert not coded["bits"][1:].any()


def test_the_page_has_what_the_history_has(make_workdir: Maker) -> None:
    folder = add_records(make_workdir(clients=9), server=True, one_way=True)
    data = playback.playback(read_workdir(folder))
    history = np.load(folder / "history.npz")
    assert [point["point"] for point in data["points"]] == [0, 1, 2, 3]
    for p, point in enumerate(data["points"]):
        low, high = point["world"]["low"], point["world"]["high"]
        first = {
            name: history[f"{p}/{name}"][0] for name in ("position", "links", "met_server", "relay_upload", "accuracy")
        }
        assert np.abs(recovered(point["position"], low, high) - first["position"]).max() <= 9 / pack.LEVELS / 2 + 1e-9
        assert np.array_equal(links_of(point["links"], 9), np.unpackbits(first["links"], axis=2, count=9).astype(bool))
        assert np.array_equal(np.unpackbits(point["met_server"], axis=1, count=9), first["met_server"])
        assert np.array_equal(point["relay_upload"], first["relay_upload"])
        colour = data["colour"]
        values = colour["low"] + point["values"] / pack.LEVELS * (colour["high"] - colour["low"])
        np.testing.assert_allclose(values, first["accuracy"], atol=1e-5)
        assert np.array_equal(data["labels"][point["labels"]], history[f"{p}/label_counts"][0])
        goals = recovered(point["destination"], low, high) if "destination" in point else None
        assert goals is not None
        assert np.isnan(goals[0]).all()  # a destination holds after the movement of a round
        expected = history[f"{p}/destination"][0]
        np.testing.assert_allclose(goals[1:], expected, atol=1e-3, equal_nan=True)
        assert point["centre"].shape == (2, 2, 41)  # of nine rows, seven are empty
    assert len(data["labels"]) == 1  # the points share their data


def test_few_rounds_are_left_if_a_point_is_too_long(make_workdir: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = add_records(make_workdir(rounds=200, clients=20, grid=18))
    run = read_workdir(folder)
    text = lambda tree: sum(len(part) for part in re.findall(r'"data":"([^"]*)"', pack.dumps(tree)))  # noqa: E731
    whole = text(playback.playback(run)["points"])
    monkeypatch.setattr(playback, "BUDGET", whole // 2)
    data = playback.playback(run)
    assert playback.strides(data) > 1
    evaluations = sum(text([point["values"], point["evaluated"]]) for point in data["points"])
    assert text(data["points"]) - evaluations <= whole // 2
    point = data["points"][2]
    frames = point["frames"]
    assert (frames[0], frames[-1]) == (0, 200)
    assert set(np.diff(frames)[:-1]) == {point["stride"]}
    again = recovered(point["position"], point["world"]["low"], point["world"]["high"])
    assert np.abs(again - run.array(2, "position")[frames]).max() < 1e-3
    assert "one of" in FIGURES["map"].chart(run).data["note"]


def test_of_many_points_each_value_of_the_main_axis_is_shown(make_workdir: Maker) -> None:
    sweep = [
        {"network.mobility": m, "network.radius": float(r)} for m in ("static", "dam", "dcm") for r in range(1, 11)
    ]
    run = read_workdir(make_workdir(sweep, seeds=1, rounds=10))
    shown = playback.shown_points(run, 8)
    assert len(shown) == 8
    assert {run.value(p, "network.mobility") for p in shown} == {"static", "dam", "dcm"}
    best = max(range(30), key=lambda p: run.points[p]["final_accuracy"]["mean"])
    assert {0, best} <= set(shown)  # the baseline is the first one
    assert playback.first_pair(run, shown) == [0, best]
    assert "8 of 30" not in _caption(run)
    assert f"{playback.MOST_POINTS} of 30 sweep points, among them each value of mobility" in _caption(run)


def test_the_pair_without_accuracies_is_the_first_and_the_last(make_workdir: Maker) -> None:
    run = read_workdir(make_workdir(seeds=1))
    for point in run.points:
        point["final_accuracy"]["mean"] = None
    assert playback.first_pair(run, [0, 1, 2, 3]) == [0, 3]
    assert playback.first_pair(run, [2]) == [2]


def test_worlds(make_workdir: Maker) -> None:
    radii = [{"network.radius": r} for r in (2.0, float("inf"), None)]
    worlds = world.worlds_of(read_workdir(make_workdir(radii)))
    assert [found.kind for found in worlds.values()] == ["grid"] * 3
    assert [found.radius for found in worlds.values()] == [2.0, float("inf"), float("inf")]
    assert (worlds[0].low.tolist(), worlds[0].high.tolist(), worlds[0].walls) == ([1, 1], [10, 10], True)


def test_streets_units_and_edges(make_workdir: Maker) -> None:
    """A trace has no walls: its map has all places and streets, and so has that of the vehicles that stand still."""
    moves = [{"network.mobility": rule, "network.world": "trace"} for rule in ("trace", "static")]
    folder = make_workdir(moves, seeds=1)
    with np.load(folder / "history.npz") as file:
        arrays = dict(file)
    arrays |= {f"{p}/position": (arrays[f"{p}/position"] * (10.5 - 5 * p)).astype(np.float32) for p in range(2)}
    streets = np.array([[-20, 5, 130, 5], [40, 0, 40, 90]], np.float32)
    np.savez(folder / "history.npz", **arrays)
    np.savez(folder / "streets.npz", streets=streets)
    first, second = world.worlds_of(read_workdir(folder)).values()
    assert (first.kind, first.walls) == ("plane", False)
    assert np.array_equal(first.streets, streets)
    assert (first.low.tolist(), first.high.tolist()) == (second.low.tolist(), second.high.tolist())
    assert (first.low[0], first.high[0]) == (-20, 130)
    assert first.high[1] == arrays["0/position"][..., 1].max()
    assert world.units_of("2,3; 8,8.5;").tolist() == [[2.0, 3.0], [8.0, 8.5]]
    assert world.units_of(None).shape == (0, 2)


def test_clients_without_places_are_on_a_circle_if_something_is_recorded(make_workdir: Maker) -> None:
    folder = make_workdir([{"server.pattern": "fixed"}], clients=8)
    assert not FIGURES["map"].applies(read_workdir(folder))  # a pattern decides who meets, so places mean nothing
    run = read_workdir(add_records(folder, server=True))
    assert FIGURES["map"].applies(run)
    (point,) = playback.playback(run)["points"]
    assert point["world"]["kind"] == "circle"
    assert not point["mobile"].any()
    places = recovered(point["position"], [-1, -1], [1, 1])
    np.testing.assert_allclose(np.hypot(*places[0].T), 1, atol=1e-4)
    assert len(places) == 41
    assert "stand on a circle" in _caption(run)


def test_computed_links_are_told_to_be_computed(make_workdir: Maker) -> None:
    folder = make_workdir(clients=8)
    assert "computed from the places" in _caption(read_workdir(folder))
    assert "computed" not in _caption(read_workdir(add_records(folder)))


def test_contacts_on_the_way_are_not_computed_from_some_rounds(make_workdir: Maker, monkeypatch) -> None:
    """Between two places far apart in time lies no straight way."""
    folder = make_workdir([{"network.contact": "swept"}, {"network.contact": "round"}], seeds=1)
    assert playback.without_links(playback.playback(read_workdir(folder))) == []
    monkeypatch.setattr(playback, "BUDGET", 2 * 300)
    data = _chart(read_workdir(folder)).data
    assert all(point["stride"] > 1 for point in data["points"])
    assert playback.without_links(data) == [0]
    assert "Links of swept are not drawn" in data["note"]
    assert "not drawn" not in _chart(read_workdir(add_records(folder))).data["note"]


def test_recorded_links_of_the_helper_are_those_of_two_loops() -> None:
    places = np.random.default_rng(3).uniform(0, 5, (6, 2))
    near = [[i != j and np.hypot(*(places[i] - places[j])) <= 2 for j in range(6)] for i in range(6)]
    assert np.array_equal(linked(places, 2), near)
