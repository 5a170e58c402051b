"""The panels of sweeps: lines along a number, heat maps, thresholds and step sizes."""

import copy
import dataclasses
import itertools

import numpy as np
import pytest

from mdfl_jax.report.panels import by_setting
from mdfl_jax.report.panels.by_setting import MOST_PARTS, crossings, describe_left_out, split_by, step_sizes_of
from mdfl_jax.report.registry import FIGURES

COLOURS = "viridis"
MOVES, RADII, SIZES = ("dcm", "static"), (1.0, 2.0, 3.0, 4.0), (0.01, 0.1, 1.0)


def sweep(**axes):
    paths = [name.replace("__", ".") for name in axes]
    return [dict(zip(paths, values)) for values in itertools.product(*axes.values())]


TWO = sweep(network__mobility=MOVES, network__radius=(3.0, 1.0, 10.0))
THREE = sweep(network__mobility=MOVES, network__radius=RADII, algorithm__lr=SIZES)


@pytest.fixture
def run_of(study):
    """Returns run_of(points, means, **summary): a study with these sweep points and mean final accuracies."""

    def made(points, means=(), seeds=2, **changes):
        run = study(points, seeds=seeds, rounds=10, positions=False)
        for point, mean in zip(run.points, means):
            point["final_accuracy"] |= {"mean": mean, "ci95": 0.01}
            point["baseline"] = changes.get("baseline")
        return run

    return made


def test_values_are_in_order_and_many_parts_are_thinned_evenly(run_of):
    mobility, radius = run_of(TWO).axes
    assert (mobility.distinct, radius.distinct, radius.at) == (("dcm", "static"), ("1", "3", "10"), (1, 0, 2, 1, 0, 2))
    run = run_of(sweep(network__radius=tuple(map(float, range(1, 31))), network__mobility=MOVES), seeds=1)
    radius, _ = run.axes
    shown = split_by(run, [radius])
    assert len(shown) == MOST_PARTS
    assert (next(iter(shown)), list(shown)[-1], shown["radius = 30"]) == ("radius = 1", "radius = 30", [58, 59])
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
    texts = [f"{value:.1f}" for row in expected for value in row]
    np.testing.assert_array_equal(numbers["text"], texts)
    np.testing.assert_array_equal(np.stack([numbers["y"], numbers["x"]], 1), list(np.ndindex(2, 3)))
    assert (panel["xaxis"]["range"], panel["yaxis"]["range"]) == ([-0.5, 2.5], [1.5, -0.5])
    axes = by_setting.heat_map(run).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["dcm", "random movement"]
    np.testing.assert_allclose(axes.images[0].get_array(), expected)
    assert [text.get_text() for text in axes.texts] == texts


def test_a_missing_pair_is_an_empty_cell(run_of):
    (panel,) = FIGURES["heat_map"].chart(run_of(TWO[:-1])).data["panels"]
    assert np.isnan(panel["traces"][0]["z"]).sum() == 1


@pytest.mark.parametrize(
    ("points", "panels"),
    [
        (TWO, {"heat_map", "response"}),  # the best point alone is no reference that is worth a panel of thresholds
        ([{"network.radius": float(r), "algorithm.lr": float(r)} for r in range(1, 6)], {"response", "step_sizes"}),
        (sweep(network__radius=RADII), {"response"}),
        (sweep(network__radius=RADII[:2]), set()),  # two values are no curve
        (sweep(network__mobility=("dcm", "dam", "static")), set()),  # names have no distance
        (sweep(algorithm__lr=SIZES, network__mobility=MOVES), {"heat_map", "step_sizes"}),
        (sweep(network__mobility=MOVES, network__radius=(*RADII, "inf")), {"heat_map", "response", "threshold"}),
    ],
)
def test_each_sweep_has_the_panels_that_say_something(run_of, points, panels):
    run = run_of(points)
    assert {n for n in ("heat_map", "response", "threshold", "step_sizes") if FIGURES[n].applies(run)} == panels


def test_a_third_setting_makes_small_multiples(run_of):
    run = run_of(THREE)
    panels = FIGURES["heat_map"].chart(run).data["panels"]
    assert [panel["title"] for panel in panels] == ["dcm", "static"]
    assert len({(panel["traces"][0]["zmin"], panel["traces"][0]["zmax"]) for panel in panels}) == 1
    shown = by_setting.parts_of(run)
    assert [part.title for part in shown] == [f"lr = {v}" for v in (0.01, 0.1, 1)]
    assert {part.x.name for part in shown} == {"radius"}  # step sizes have a panel of their own
    for size, part in zip(SIZES, shown):
        points = [[run.points[spot.point]["overrides"] for spot in line.spots] for line in part.lines]
        assert points == [[p for p in THREE if (p["network.mobility"], p["algorithm.lr"]) == (m, size)] for m in MOVES]
        assert [line.label for line in part.lines] == list(MOVES)


def test_response_has_means_and_intervals_within_0_and_100(run_of):
    run = run_of(TWO)
    for point in run.points:
        point["final_accuracy"]["ci95"] = 0.5
    run.points[2]["final_accuracy"]["ci95"] = None
    (panel,) = FIGURES["response"].chart(run).data["panels"]
    dcm, static = panel["traces"]
    means = np.array([100 * run.points[p]["final_accuracy"]["mean"] for p in (1, 0, 2)])  # radius 1, 3, 10
    np.testing.assert_allclose(dcm["y"], means)
    np.testing.assert_allclose(dcm["error_y"]["array"], np.minimum([50, 50, 0], 100 - means))
    np.testing.assert_allclose(dcm["error_y"]["arrayminus"], np.minimum([50, 50, 0], means))
    said = [f"{mean:.2f}{half} %" for mean, half in zip(means, (" ± 50.00", " ± 50.00", ""))]
    assert dcm["text"] == [f"dcm<br>radius = {r}: {text}" for r, text in zip((1, 3, 10), said)]
    np.testing.assert_allclose(dcm["x"], np.array([1, 3, 10]) - 0.045)  # half a hundredth of the axis aside
    np.testing.assert_allclose(static["x"], np.array([1, 3, 10]) + 0.045)
    assert "a line for each mobility" in FIGURES["response"].caption(run)
    assert len(by_setting.response(run).axes[0].containers) == 2


def by(mobility, values, path="network.radius"):
    return [{"network.mobility": mobility, path: value} for value in values]


RISES = by("static", RADII) + by("dcm", RADII)
TO_INFINITY = by("static", (1.0, 2.0, 3.0, "inf")) + by("dcm", (1.0, 2.0, 3.0, "inf"))


@pytest.mark.parametrize(
    ("points", "means", "baseline", "expected"),
    [  # the threshold, where the line from point to point crosses it for the first time, and whether it begins above
        (RISES, [0.2, 0.3, 0.4, 0.5, 0.4, 0.6, 0.8, 0.6], None, [(0.72, None, False), (0.72, 2.6, False)]),
        (by("static", (1.0, 10.0, 100.0)), [0.0, 0.4, 0.5], None, [(0.45, 10 * 10**0.5, False)]),  # a logarithmic axis
        (by("static", RADII), [0.2, 0.3, 0.4, 0.5], "static-3.0", [(0.36, 2.6, False)]),  # of the baseline
        (TO_INFINITY, [0.2, 0.4, 0.45, 0.5, 0.8, 0.8, 0.9, 0.6], None, [(0.45, 3.0, False), (0.54, None, True)]),
    ],
)
def test_the_threshold_is_nine_tenths_of_the_reference(run_of, points, means, baseline, expected):
    run = run_of(points, means, baseline=baseline)
    for found, (threshold, at, is_above) in zip(crossings(run)[1], expected, strict=True):
        assert (found.threshold, found.is_above) == (pytest.approx(threshold), is_above)
        assert found.is_above or found.at == (at and pytest.approx(at))
    if points is TO_INFINITY:
        assert "The mean reaches it static: at 3; dcm: from the start." in FIGURES["threshold"].caption(run)
    if baseline:  # a single line, without a name
        assert "The mean reaches it at 2.6. Between" in FIGURES["threshold"].caption(run)


def test_step_sizes_have_their_own_panel(run_of):
    points = by("static", SIZES, "algorithm.lr") + by("dcm", SIZES, "algorithm.lr")
    run = run_of(points, [0.2, 0.5, None, 0.3, 0.4, 0.6])
    shown = step_sizes_of(run)
    assert shown.x.path == "algorithm.lr"
    assert [(line.label, [(spot.x, spot.mean) for spot in line.finite]) for line in shown.lines] == [
        ("static", [(0.01, 0.2), (0.1, 0.5)]),
        ("dcm", [(0.01, 0.3), (0.1, 0.4), (1.0, 0.6)]),
    ]
    caption = FIGURES["step_sizes"].caption(run)
    assert "Highest at static: 0.1; dcm: 1." in caption
    assert "others may be better: dcm." in caption
    assert "1 of the points has no finite accuracy and is left out." in caption
    assert FIGURES["step_sizes"].chart(run).data["panels"][0]["traces"][1]["y"] == pytest.approx([30, 40, 60])


def test_select_leaves_out_points_elsewhere_but_not_in_the_panel_of_step_sizes(run_of):
    every = run_of(by("static", SIZES, "algorithm.lr"), [0.25, 0.5, 0.4])
    chosen = {"points": copy.deepcopy(every.points[1:2]), "selected": [{"id": "static-0.1"}]}
    run = dataclasses.replace(every, summary=every.summary | chosen, all_points=every.points)
    (line,) = step_sizes_of(run).lines
    assert [spot.mean for spot in line.spots] == [0.25, 0.5, 0.4]
