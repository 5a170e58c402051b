"""The map: its data on the page are what history.npz holds and never too much, and its movies are what one sees."""

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from mdfl_jax.core.errors import UserError
from mdfl_jax.report import setting
from mdfl_jax.report.movie import PER_ROUND, links_at, save_movie
from mdfl_jax.report.panels import map as map_panel
from mdfl_jax.report.read import read_workdir
from mdfl_jax.report.registry import FIGURES, LEVELS, MISSING, dumps
from mdfl_jax.report.setting import GRID, World
from tests.report.conftest import write_workdir
from tests.report.made_report import add_records

Maker = Callable[..., Path]


def recovered(coded: np.ndarray, low, high) -> np.ndarray:
    """Places [T, n, 2] from the differences [n, 2, T]: what map.js does, number by number."""
    found = np.zeros(coded.shape)
    for i, axis in np.ndindex(*coded.shape[:2]):
        whole = 0
        for t, change in enumerate(coded[i, axis]):
            whole = (whole + int(change)) % 65536
            share = float("nan") if whole == MISSING else whole / LEVELS
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
    again = recovered(map_panel.changes(map_panel.quantised(places, low, high)), low, high)
    assert np.array_equal(np.isnan(again), np.isnan(places))
    half = (high - low) / LEVELS / 2
    assert np.nanmax(np.abs(again - places) / half, initial=0) <= 1 + 1e-6


@given(arrays(bool, (4, 11, 11)), st.booleans(), st.booleans())
@settings(deadline=None)
def test_links_are_recovered_exactly(hears, mutual, steady):
    hears = hears & ~np.eye(11, dtype=bool)
    hears = hears | hears.transpose(0, 2, 1) if mutual else hears
    hears = np.repeat(hears[:1], 4, axis=0) if steady else hears
    coded = map_panel.coded_links(np.packbits(hears, axis=-1), 11)
    assert np.array_equal(links_of(coded, 11), hears)
    assert coded["mutual"] or not mutual


def test_the_page_has_what_the_history_has(make_workdir: Maker) -> None:
    folder = add_records(make_workdir(clients=9), server=True, one_way=True)
    data = map_panel.playback(read_workdir(folder))
    history = np.load(folder / "history.npz")
    assert [point["point"] for point in data["points"]] == [0, 1, 2, 3]
    for p, point in enumerate(data["points"]):
        low, high = point["world"]["low"], point["world"]["high"]
        first = {
            name: history[f"{p}/{name}"][0] for name in ("position", "links", "met_server", "relay_upload", "accuracy")
        }
        assert np.abs(recovered(point["position"], low, high) - first["position"]).max() <= 9 / LEVELS / 2 + 1e-9
        assert np.array_equal(links_of(point["links"], 9), np.unpackbits(first["links"], axis=2, count=9).astype(bool))
        assert np.array_equal(np.unpackbits(point["met_server"], axis=1, count=9), first["met_server"])
        assert np.array_equal(point["relay_upload"], first["relay_upload"])
        colour = data["colour"]
        values = colour["low"] + point["values"] / LEVELS * (colour["high"] - colour["low"])
        np.testing.assert_allclose(values, first["accuracy"], atol=1e-5)
        assert np.array_equal(data["labels"][point["labels"]], history[f"{p}/label_counts"][0])
        goals = recovered(point["destination"], low, high) if "destination" in point else None
        assert goals is not None
        assert np.isnan(goals[0]).all()  # a destination holds after the movement of a round
        expected = history[f"{p}/destination"][0]
        np.testing.assert_allclose(goals[1:], expected, atol=1e-3, equal_nan=True)
        assert point["centre"].shape == (2, 2, 41)  # of nine rows, seven are empty
    assert len(data["labels"]) == 1  # the points share their data


def test_attackers_and_rejected_models_are_on_the_page(make_workdir: Maker) -> None:
    folder = add_records(make_workdir(clients=9), attacked=True)
    run, history = read_workdir(folder), np.load(folder / "history.npz")
    data = map_panel.playback(run)
    for p, point in enumerate(data["points"]):
        rejected = np.unpackbits(history[f"{p}/rejected"][0], axis=2, count=9).astype(bool)
        assert rejected.any()
        assert np.array_equal(links_of(point["rejected"], 9), rejected)
        assert np.flatnonzero(point["attackers"]).tolist() == [1, 6]
    caption = FIGURES["map"].caption(run)
    assert "A diamond is around each attacker. A bar across a link stands before a client that rejected" in caption
    drawn = FIGURES["map"].draw(run)
    diamonds = [of for axes in drawn.axes for of in axes.collections if of.get_zorder() == 6 and len(of.get_offsets())]
    np.testing.assert_allclose(diamonds[0].get_offsets(), history["0/position"][0, 0, [1, 6]])
    assert "attacker" in [text.get_text() for text in drawn.legends[0].get_texts()]
    honest = map_panel.playback(read_workdir(add_records(make_workdir(clients=9))))
    assert not {"attackers", "rejected"} & set(honest["points"][0])


def test_few_rounds_are_left_if_a_point_is_too_long(make_workdir: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = add_records(make_workdir(rounds=200, clients=20, grid=18))
    run = read_workdir(folder)
    text = lambda tree: sum(len(part) for part in re.findall(r'"data":"([^"]*)"', dumps(tree)))  # noqa: E731
    whole = text(map_panel.playback(run)["points"])
    monkeypatch.setattr("mdfl_jax.report.panels.map.BUDGET", whole // 2)
    data = map_panel.playback(run)
    assert map_panel.strides(data) > 1
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
    shown = map_panel.shown_points(run, 8)
    assert len(shown) == 8
    assert {run.value(p, "network.mobility") for p in shown} == {"static", "dam", "dcm"}
    best = max(range(30), key=lambda p: run.points[p]["final_accuracy"]["mean"])
    assert {0, best} <= set(shown)  # the baseline is the first one
    assert map_panel.first_pair(run, shown) == [0, best]
    assert "8 of 30" not in FIGURES["map"].caption(run)
    assert f"{map_panel.MOST_POINTS} of 30 sweep points, among them each value of mobility" in FIGURES["map"].caption(
        run
    )


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
    first, second = setting.worlds_of(read_workdir(folder)).values()
    assert (first.kind, first.walls) == ("plane", False)
    assert np.array_equal(first.streets, streets)
    assert (first.low.tolist(), first.high.tolist()) == (second.low.tolist(), second.high.tolist())
    assert (first.low[0], first.high[0]) == (-20, 130)
    assert first.high[1] == arrays["0/position"][..., 1].max()
    assert setting.units_of("2,3; 8,8.5;").tolist() == [[2.0, 3.0], [8.0, 8.5]]
    assert setting.units_of(None).shape == (0, 2)


def test_clients_without_places_are_on_a_circle_if_something_is_recorded(make_workdir: Maker) -> None:
    folder = make_workdir([{"server.pattern": "fixed"}], clients=8)
    assert not FIGURES["map"].applies(read_workdir(folder))  # a pattern decides who meets, so places mean nothing
    run = read_workdir(add_records(folder, server=True))
    assert FIGURES["map"].applies(run)
    (point,) = map_panel.playback(run)["points"]
    assert point["world"]["kind"] == "circle"
    assert not point["mobile"].any()
    places = recovered(point["position"], [-1, -1], [1, 1])
    np.testing.assert_allclose(np.hypot(*places[0].T), 1, atol=1e-4)
    assert len(places) == 41
    assert "stand on a circle" in FIGURES["map"].caption(run)


def test_contacts_on_the_way_are_not_computed_from_some_rounds(make_workdir: Maker, monkeypatch) -> None:
    """Between two places far apart in time lies no straight way."""
    folder = make_workdir([{"network.contact": "swept"}, {"network.contact": "round"}], seeds=1)
    assert map_panel.without_links(map_panel.playback(read_workdir(folder))) == []
    monkeypatch.setattr("mdfl_jax.report.panels.map.BUDGET", 2 * 300)
    data = FIGURES["map"].chart(read_workdir(folder)).data
    assert all(point["stride"] > 1 for point in data["points"])
    assert map_panel.without_links(data) == [0]
    assert "Links of swept are not drawn" in data["note"]
    assert "not drawn" not in FIGURES["map"].chart(read_workdir(add_records(folder))).data["note"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return read_workdir(add_records(write_workdir(tmp_path_factory.mktemp("movie"), seeds=1, rounds=20)))


def pictures(path: Path) -> list[np.ndarray]:
    with Image.open(path) as image:
        found = []
        for k in range(image.n_frames):
            image.seek(k)
            found.append(np.array(image.convert("RGB")))
        return found


def test_a_gif_has_its_size_and_moves_and_two_have_the_same_bytes(run, tmp_path):
    paths = [save_movie(run, tmp_path / f"{k}.gif", [2], rounds=3, fps=10, width=3.0) for k in range(2)]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    shown = pictures(paths[0])
    assert len(shown) == 3 * PER_ROUND + 1
    assert shown[0].shape[1] == 300
    differ = [(before != after).any(axis=-1) for before, after in pairwise(shown)]
    assert all(0 < changed.mean() < 0.5 for changed in differ)  # clients move, the ground stays
    with Image.open(paths[0]) as image:
        assert (image.info["duration"], image.info["loop"]) == (100, 0)


@given(st.integers(0, 10_000), st.booleans())
@settings(max_examples=25, deadline=None)
def test_computed_links_are_those_of_a_slow_search(seed, swept):
    rng = np.random.default_rng(seed)
    path, radius = rng.integers(0, 8, (4, 5, 2)).astype(float), 2.0
    world = World(GRID, np.zeros(2), np.full(2, 8.0), radius=radius, swept=swept)
    for at in range(4):
        found = np.zeros((5, 5), bool)
        found[tuple(links_at(path, None, world, at).T)] = True
        for i in range(5):
            for j in range(5):
                if at == 3 or (swept and at == 0) or j <= i:
                    assert not found[i, j]
                    continue
                times = np.linspace(0, 1, 401)[:, None] if swept else np.ones((1, 1))
                ways = [path[max(0, at - 1), k] + times * (path[at, k] - path[max(0, at - 1), k]) for k in (i, j)]
                nearest = np.hypot(*(ways[0] - ways[1]).T).min()
                if not swept or abs(nearest - radius) > 1e-3:  # the search is not exact
                    assert found[i, j] == (nearest <= radius)


def test_recorded_links_are_taken_in_either_direction():
    hears = np.zeros((1, 3, 9, 9), bool)
    hears[0, 1, 2, 7] = hears[0, 1, 8, 0] = True
    world = World(GRID, np.zeros(2), np.ones(2))
    found = links_at(np.zeros((4, 9, 2)), np.packbits(hears, axis=-1), world, 1)
    assert sorted(found.tolist()) == [[0, 8], [2, 7]]
    assert not len(links_at(np.zeros((4, 9, 2)), np.packbits(hears, axis=-1), world, 3))


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("map.mp4", {}, "ends in .gif"),
        ("map.gif", {"points": [0, 1, 2]}, "one or two sweep points"),
        ("map.gif", {"points": []}, "one or two sweep points"),
        ("map.gif", {"rounds": 0}, "rounds=0: it must be between 1 and"),
        ("map.gif", {"fps": 99}, "fps=99: it must be between 1 and 50"),
        ("map.gif", {"width": 0.1}, "width=0.1"),
        ("none/map.gif", {"points": [0], "rounds": 1}, "cannot be written"),
    ],
)
def test_mistakes_are_one_line(run, tmp_path, name, options, said):
    with pytest.raises(UserError) as error:
        save_movie(run, tmp_path / name, **options)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())


def test_a_point_without_places_has_no_movie(tmp_path):
    run = read_workdir(write_workdir(tmp_path / "run", seeds=1, rounds=10, positions=False))
    for points in (None, [0]):
        with pytest.raises(UserError, match="neither places nor links were recorded"):
            save_movie(run, tmp_path / "map.gif", points)
