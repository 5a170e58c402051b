"""The panels of thresholds and of step sizes: lines, references and crossings, against values written by hand."""

import json

import pytest

from mdfl_jax.report import figures
from mdfl_jax.report.panels.by_setting import crossings, main_lines, step_lines, traces_of
from mdfl_jax.report.read import read_workdir
from mdfl_jax.report.registry import FIGURES, in_order
from tests.report.conftest import write_workdir

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
    assert "Left out for want of a finite accuracy: 1 of the points." in caption
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


def test_both_are_drawn_for_papers(tmp_path):
    in_order()
    overrides = by("static", RADII) + by("dcm", RADII)
    accuracies = [0.2, 0.3, 0.4, 0.5, 0.4, 0.6, 0.8, 0.6]
    run = study(tmp_path / "run", overrides, accuracies, baseline="static-3.0")
    axes = figures.draw_figure(run, "threshold").axes[0]
    assert axes.get_xlabel() == "radius"
    drawn = [line.get_ydata() for line in axes.lines if len(line.get_xdata()) == 4]
    assert drawn[0] == pytest.approx([20, 30, 40, 50])
