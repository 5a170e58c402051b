"""Sweeps as grids: the order of values, heat maps and response curves, also of many points."""

import itertools
import math

import numpy as np
import pytest
from matplotlib import colormaps
from matplotlib.colors import to_rgb

from mdfl_jax.report.panels import by_setting
from mdfl_jax.report.panels.by_setting import COLOURS, MOST_PARTS, describe_left_out, heat_map, scales, split_by
from mdfl_jax.report.read import read_workdir
from mdfl_jax.report.registry import FIGURES
from mdfl_jax.report.style import ink_on


def sweep(**axes):
    paths = [name.replace("__", ".") for name in axes]
    return [dict(zip(paths, values)) for values in itertools.product(*axes.values())]


TWO = sweep(network__mobility=("dcm", "static"), network__radius=(3.0, 1.0, 10.0))
MOVES = ("dcm", "static")
THREE = sweep(network__mobility=MOVES, network__radius=(1.0, 2.0, 3.0, 4.0), algorithm__lr=(0.01, 0.1, 1.0))


@pytest.fixture
def run_of(make_workdir):
    return lambda points, seeds=2: read_workdir(make_workdir(points, seeds=seeds, rounds=10, positions=False))


def test_numbers_are_in_order_and_names_are_as_listed(run_of):
    mobility, radius = scales(run_of(TWO))
    assert (mobility.texts, mobility.numbers) == (("dcm", "static"), None)
    assert (radius.texts, radius.numbers) == (("1", "3", "10"), (1.0, 3.0, 10.0))
    assert radius.at == (1, 0, 2, 1, 0, 2)
    assert (radius.label(1), mobility.label(0)) == ("radius = 3", "dcm")


@pytest.mark.parametrize(
    ("values", "places", "logarithmic"),
    [
        ((1.0, 2.0, 4.0), (1.0, 2.0, 4.0), False),
        ((0.1, 0.01, 1.0), (0.01, 0.1, 1.0), True),
        ((0.0, 1.0, 100.0), (0.0, 1.0, 100.0), False),
        (("inf", 5.0, 500.0), (0.0, 1.0, 2.0), False),  # infinity has no place on an axis of numbers
    ],
)
def test_places_of_values_on_an_axis(run_of, values, places, logarithmic):
    (radius,) = scales(run_of(sweep(network__radius=values)))
    assert (radius.places, radius.is_logarithmic) == (places, logarithmic)
    assert radius.numbers == tuple(sorted(math.inf if value == "inf" else value for value in values))


def test_many_parts_are_thinned_evenly_and_the_caption_says_so(run_of):
    run = run_of(sweep(network__radius=tuple(map(float, range(1, 31))), network__mobility=("dcm", "static")), seeds=1)
    radius, _ = scales(run)
    shown = split_by(run, [radius])
    assert len(shown) == MOST_PARTS
    assert (next(iter(shown)), list(shown)[-1]) == ("radius = 1", "radius = 30")
    assert shown["radius = 30"] == [58, 59]
    assert describe_left_out(run, [radius]) == " Shown are 12 of 30 combinations of the other settings."
    assert describe_left_out(run, []) == ""


def test_a_heat_map_has_the_mean_accuracy_of_each_pair(run_of):
    run = run_of(sweep(network__mobility=("dcm", "random_movement"), network__radius=(3.0, 1.0, 10.0)))
    (panel,) = FIGURES["heat_map"].chart(run).data["panels"]
    cells, numbers = panel["traces"]
    means = {(p["overrides"]["network.mobility"], p["overrides"]["network.radius"]): p for p in run.points}
    expected = [
        [100 * means[m, r]["final_accuracy"]["mean"] for r in (1.0, 3.0, 10.0)] for m in ("dcm", "random_movement")
    ]
    np.testing.assert_allclose(cells["z"], expected)
    half = 100 * means["random_movement", 1.0]["final_accuracy"]["ci95"]
    assert cells["customdata"][1][0] == f"random movement, radius = 1<br>{expected[1][0]:.2f} ± {half:.2f} %"
    assert (panel["xaxis"]["ticktext"], panel["yaxis"]["ticktext"]) == (["1", "3", "10"], ["dcm", "random movement"])
    np.testing.assert_array_equal(numbers["text"], [f"{value:.1f}" for row in expected for value in row])
    np.testing.assert_array_equal(np.stack([numbers["y"], numbers["x"]], 1), list(np.ndindex(2, 3)))
    assert (panel["xaxis"]["range"], panel["yaxis"]["range"]) == ([-0.5, 2.5], [1.5, -0.5])
    figure = heat_map(run)
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["dcm", "random movement"]
    np.testing.assert_allclose(figure.axes[0].images[0].get_array(), expected)
    written = [text.get_text() for text in figure.axes[0].texts]
    assert written == [f"{value:.1f}" for row in expected for value in row]


def test_numbers_are_legible_on_every_colour_of_a_heat_map():
    def luminance(colour):
        split_by = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
        return 0.2126 * split_by[0] + 0.7152 * split_by[1] + 0.0722 * split_by[2]

    inks = set()
    for share in np.linspace(0, 1, 101):
        ink = ink_on(share, COLOURS)
        low, high = sorted((luminance(ink), luminance(colormaps["viridis"](share)[:3])))
        assert (high + 0.05) / (low + 0.05) >= 4.5  # the contrast of WCAG 2
        inks.add(ink)
    assert inks == {"#000000", "#ffffff"}


def test_a_missing_pair_is_an_empty_cell_and_a_list_of_points_is_no_grid(run_of):
    (panel,) = FIGURES["heat_map"].chart(run_of(TWO[:-1])).data["panels"]
    assert np.isnan(panel["traces"][0]["z"]).sum() == 1
    listed = [{"network.radius": float(r), "algorithm.lr": float(r)} for r in range(1, 6)]
    assert not FIGURES["heat_map"].applies(run_of(listed))
    assert not FIGURES["heat_map"].applies(run_of(sweep(network__radius=(1.0, 2.0, 3.0))))


def test_a_third_setting_makes_small_multiples(run_of):
    run = run_of(THREE)
    panels = FIGURES["heat_map"].chart(run).data["panels"]
    assert [panel["title"] for panel in panels] == ["dcm", "static"]
    assert len({(panel["traces"][0]["zmin"], panel["traces"][0]["zmax"]) for panel in panels}) == 1
    shown = by_setting.panels_of(run)
    assert [part.title for part in shown] == [f"lr = {v}" for v in (0.01, 0.1, 1)]
    assert {part.x.name for part in shown} == {"radius"}  # step sizes have a panel of their own
    assert "against radius:" in FIGURES["response"].caption(run)
    for size, part in zip((0.01, 0.1, 1.0), shown):
        points = [[run.points[spot.point]["overrides"] for spot in line.spots] for line in part.lines]
        assert points == [[p for p in THREE if (p["network.mobility"], p["algorithm.lr"]) == (m, size)] for m in MOVES]
        assert [line.label for line in part.lines] == list(MOVES)


def test_response_needs_another_number_than_the_step_size(run_of):
    run = run_of(sweep(algorithm__lr=(0.01, 0.1, 1.0), network__mobility=("dcm", "static")))
    assert not FIGURES["response"].applies(run)
    assert FIGURES["step_sizes"].applies(run)


def test_response_has_means_and_intervals_within_0_and_100(run_of):
    run = run_of(TWO)
    for point in run.points:
        point["final_accuracy"]["ci95"] = 0.5
    (panel,) = FIGURES["response"].chart(run).data["panels"]
    dcm, static = panel["traces"]
    order = [1, 0, 2]  # radius 1, 3, 10
    means = np.array([100 * run.points[p]["final_accuracy"]["mean"] for p in order])
    np.testing.assert_allclose(dcm["y"], means)
    np.testing.assert_allclose(dcm["error_y"]["array"], np.minimum(50, 100 - means))
    np.testing.assert_allclose(dcm["error_y"]["arrayminus"], np.minimum(50, means))
    assert dcm["text"] == [f"dcm<br>radius = {r}: {mean:.2f} ± 50.00 %" for r, mean in zip((1, 3, 10), means)]
    np.testing.assert_allclose(dcm["x"], np.array([1, 3, 10]) - 0.045)  # half a hundredth of the axis aside
    np.testing.assert_allclose(static["x"], np.array([1, 3, 10]) + 0.045)
    assert "a line for each mobility" in FIGURES["response"].caption(run)
    bars = by_setting.response(run).axes[0].containers
    assert len(bars) == 2


def test_response_needs_three_numbers(run_of):
    assert not FIGURES["response"].applies(run_of(sweep(network__radius=(1.0, 2.0))))
    assert not FIGURES["response"].applies(run_of(sweep(network__mobility=("dcm", "dam", "static"))))


def test_two_hundred_points_of_three_settings_are_drawn(run_of):
    points = sweep(
        network__radius=tuple(map(float, range(1, 11))),
        network__mobility=("static", "dam", "dcm", "random_movement"),
        data__alpha=(0.001, 0.01, 0.03, 0.1, 0.3),
    )
    run = run_of(points, seeds=1)
    panels = FIGURES["response"].chart(run).data["panels"]
    assert len(panels) == 5 + 10
    assert sum(len(trace["y"]) for panel in panels for trace in panel["traces"]) == 2 * 200
    shown = [trace["name"] for panel in panels for trace in panel["traces"] if trace["showlegend"]]
    assert shown == ["static", "dam", "dcm", "random movement"]  # each name once
    assert panels[-1]["xaxis"]["type"] == "log"
    cells = [panel["traces"][0]["z"].size for panel in FIGURES["heat_map"].chart(run).data["panels"]]
    assert cells == [50] * 4
