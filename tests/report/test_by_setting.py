"""The panels of sweeps: lines along a number, heat maps, thresholds and step sizes."""

import itertools
import json

import numpy as np
import pytest
from matplotlib import colormaps
from matplotlib.colors import to_rgb

from mdfl_jax.report.panels import by_setting
from mdfl_jax.report.panels.by_setting import (
    COLOURS,
    MOST_PARTS,
    crossings,
    describe_left_out,
    heat_map,
    main_lines,
    scales,
    split_by,
    step_lines,
    traces_of,
)
from mdfl_jax.report.read import read_workdir
from mdfl_jax.report.registry import FIGURES
from mdfl_jax.report.style import ink_on
from tests.report.conftest import write_workdir


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


RADII = (1.0, 2.0, 3.0, 4.0)


def study(folder, overrides, means, **changes):
    """A study with these mean final accuracies; changes are of summary.json."""
    write_workdir(folder, overrides, seeds=2, rounds=20, positions=False)
    summary = json.loads((folder / "summary.json").read_text()) | changes
    for point, mean in zip(summary["points"], means):
        point["final_accuracy"] |= {"mean": mean, "ci95": 0.01}
        point["baseline"] = changes.get("baseline")
    (folder / "summary.json").write_text(json.dumps(summary))
    return read_workdir(folder)


def by(mobility, values, path="network.radius"):
    return [{"network.mobility": mobility, path: value} for value in values]


def test_the_threshold_is_crossed_where_the_line_between_two_points_is(tmp_path):
    overrides = by("static", RADII) + by("dcm", RADII)
    run = study(tmp_path / "run", overrides, [0.2, 0.3, 0.4, 0.5, 0.4, 0.6, 0.8, 0.6])
    static, dcm = crossings(run)
    assert {each.reference for each in (static, dcm)} == {"the best point"}
    assert static.threshold == dcm.threshold == pytest.approx(0.9 * 0.8)
    assert (static.at, static.is_above) == (None, False)
    assert dcm.at == pytest.approx(2 + (0.72 - 0.6) / (0.8 - 0.6))  # the first time, from below
    assert "static: never; dcm: at 2.6" in FIGURES["threshold"].caption(run)
    assert not FIGURES["threshold"].applies(run)  # the best point alone is no reference that is worth a panel


def test_an_infinite_value_is_the_reference_of_its_line(tmp_path):
    values = [*RADII[:3], "inf"]
    run = study(tmp_path / "run", by("static", values) + by("dcm", values), [0.2, 0.4, 0.45, 0.5, 0.8, 0.8, 0.9, 0.6])
    static, dcm = crossings(run)
    assert static.threshold == pytest.approx(0.45)
    assert static.at == pytest.approx(3.0)
    assert [spot.x for spot in static.line.finite] == [1.0, 2.0, 3.0]
    assert dcm.threshold == pytest.approx(0.54)
    assert dcm.is_above


def test_the_baseline_is_the_reference_if_there_is_one(tmp_path):
    run = study(tmp_path / "run", by("static", RADII), [0.2, 0.3, 0.4, 0.5], baseline="static-3.0")
    (found,) = crossings(run)
    assert found.reference == "the baseline"
    assert found.at == pytest.approx(2.6)  # 0.36


def test_on_a_wide_range_it_is_interpolated_on_a_logarithmic_axis(tmp_path):
    run = study(tmp_path / "run", by("static", (1.0, 10.0, 100.0)), [0.0, 0.4, 0.5])
    assert crossings(run)[0].at == pytest.approx(10 * 10**0.5)


@pytest.mark.parametrize(
    "overrides", [by("static", RADII[:2]), [{"network.mobility": name} for name in ("dam", "dcm")]]
)
def test_without_three_numbers_there_is_no_threshold(tmp_path, overrides):
    run = study(tmp_path / "run", overrides, [0.2, 0.3])
    assert not FIGURES["threshold"].applies(run)
    assert not FIGURES["step_sizes"].applies(run)


def test_step_sizes_have_their_own_panel(tmp_path):
    sizes = (0.01, 0.1, 1.0)
    run = study(
        tmp_path / "run",
        by("static", sizes, "algorithm.lr") + by("dcm", sizes, "algorithm.lr"),
        [0.2, 0.5, None, 0.3, 0.4, 0.6],
    )
    axis, lines = step_lines(run)
    assert axis.path == "algorithm.lr"
    assert [(line.label, [(spot.x, spot.mean) for spot in line.finite]) for line in lines] == [
        ("static", [(0.01, 0.2), (0.1, 0.5)]),
        ("dcm", [(0.01, 0.3), (0.1, 0.4), (1.0, 0.6)]),
    ]
    caption = FIGURES["step_sizes"].caption(run)
    assert "Highest at static: 0.1; dcm: 1." in caption
    assert "others may be better: dcm." in caption
    assert "1 of the points has no finite accuracy and is left out." in caption
    assert not FIGURES["threshold"].applies(run)
    chart = FIGURES["step_sizes"].chart(run)
    assert chart.data["traces"][1]["y"] == pytest.approx([30, 40, 60])


def test_a_label_is_no_template(tmp_path):
    """In a template of plotly, %{x} would be replaced by a number."""
    overrides = [{"data.name": name, "network.radius": r} for name in ('%{x}<b>"', "y") for r in RADII]
    run = study(tmp_path / "run", overrides, [0.1] * 8)
    axis, lines = main_lines(run)
    trace = traces_of(lines, axis)[0]
    assert trace["hovertemplate"] == "%{text}<extra></extra>"
    assert trace["name"] == '%{x}&lt;b&gt;"'  # plotly knows no sign for quotation marks
    assert trace["text"] == [f'%{{x}}&lt;b&gt;"<br>radius = {r:g}: 10.00 ± 1.00 %' for r in RADII]


def test_intervals_end_at_0_and_100_and_one_seed_has_none(tmp_path):
    run = study(tmp_path / "run", by("static", RADII), [0.004, 0.3, 0.995, 0.4])
    run.points[1]["final_accuracy"]["ci95"] = None
    axis, lines = main_lines(run)
    (trace,) = traces_of(lines, axis)
    assert trace["error_y"]["arrayminus"] == pytest.approx([0.4, 0, 1, 1])
    assert trace["error_y"]["array"] == pytest.approx([1, 0, 0.5, 1])
    assert trace["text"][1] == "radius = 2: 30.00 %"


def test_select_leaves_out_points_elsewhere_but_not_here(tmp_path):
    sizes = (0.01, 0.1, 1.0)
    folder = tmp_path / "run"
    write_workdir(folder, by("static", sizes, "algorithm.lr"), seeds=2, rounds=20, positions=False)
    every = step_lines(read_workdir(folder))[1][0].spots
    summary = json.loads((folder / "summary.json").read_text())
    best = 0.25  # not what the lines say: the panel has the numbers of summary.json
    summary["points"][0]["final_accuracy"]["mean"] = best
    summary["selected"] = [{"of": {}, "id": "static-0.1", "value": 0.1, "validation_loss": 1.0, "at_edge": False}]
    (folder / "summary.json").write_text(json.dumps(summary))
    run = read_workdir(folder)
    assert len(run.points) == 1
    (line,) = step_lines(run)[1]
    assert [spot.mean for spot in line.spots] == [best, every[1].mean, every[2].mean]
