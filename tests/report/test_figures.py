"""The figures as files, and one of them for a paper."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.style
import numpy as np
import pytest
from matplotlib.collections import EllipseCollection, LineCollection
from matplotlib.image import imread
from matplotlib.legend import Legend

from mdfl_jax.core.errors import UserError
from mdfl_jax.report import figures, style
from mdfl_jax.report.panels import curves
from mdfl_jax.report.panels import map as world
from mdfl_jax.report.read import ReportData, read_workdir
from mdfl_jax.report.registry import FIGURES

Maker = Callable[..., Any]
CROSSED = [{"network.num_mobile": n, "network.mobility": m} for n in (2, 4) for m in ("dcm", "static")]


def test_files_are_not_blank_and_have_their_fonts_in_them(reported: Path) -> None:
    for name in ("accuracy", "final_accuracy", "label_counts", "map"):
        pixels = imread(reported / "figures" / f"{name}.png")
        assert min(pixels.shape[:2]) > 250
        assert pixels[..., :3].std() > 0.03
        pdf = (reported / "figures" / f"{name}.pdf").read_bytes()
        assert pdf.startswith(b"%PDF")
        assert b"/FontFile2" in pdf  # TrueType, embedded
        assert b"/Type3" not in pdf


def test_two_reports_have_the_same_bytes_and_leave_no_stale_figure(
    study: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "drawn", lambda: {name: FIGURES[name] for name in ("accuracy", "map")})
    run = study([{}], seeds=2, positions=False)
    (run.workdir / "figures").mkdir()
    (run.workdir / "figures" / "map.png").write_bytes(b"of an earlier run")
    contents = []
    for i in range(2):
        assert set(figures.write_figures(run)) == {"accuracy"}
        figures.save_figure(run, "accuracy", tmp_path / f"{i}.svg", 3.5)
        files = [*(run.workdir / "figures").iterdir(), *tmp_path.glob(f"{i}.*")]
        contents.append({path.name.replace(f"{i}.", "own."): path.read_bytes() for path in files})
    assert contents[0] == contents[1]
    assert "map.png" not in contents[0]


def test_curve_and_band_are_the_mean_and_the_student_t_interval(reported: Path) -> None:
    axes = curves.accuracy(read_workdir(reported)).axes[0]
    with np.load(reported / "history.npz") as history:
        seeds = 100 * history["2/accuracy"].mean(2)  # [S, E]
    line = next(line for line in axes.lines if line.get_color() == style.MOBILITY_COLOURS["dam"])
    np.testing.assert_allclose(line.get_ydata(), seeds.mean(0))
    half = 4.302653 * seeds.std(0, ddof=1) / np.sqrt(3)  # t of 0.975 with 2 degrees of freedom
    edge = axes.collections[2].get_paths()[0].vertices[:, 1]
    np.testing.assert_allclose([edge.min(), edge.max()], [(seeds.mean(0) - half).min(), (seeds.mean(0) + half).max()])


def test_a_rule_has_its_colour_in_every_sweep_and_a_crossed_one_a_panel_for_each_other_value(
    study: Maker, reported: Path
) -> None:
    run, alone = study(CROSSED), style.looks(read_workdir(reported))
    crossed = style.looks(run)
    assert [look.colour for look in crossed] == [alone[3].colour, alone[0].colour] * 2
    assert len({(look.colour, str(look.dashes)) for look in crossed}) == 4
    assert crossed[0].label == "num mobile = 2, dcm"
    assert [axes.get_title() for axes in curves.accuracy(run).axes] == ["num mobile = 2", "num mobile = 4"]


def drawn(run: ReportData, kind: type) -> list[int]:
    """How many elements of a kind of collection each panel of the map has."""
    found = [[c for c in axes.collections if isinstance(c, kind)] for axes in world.world_map(run).axes]
    return [sum(len(c.get_offsets() if kind is EllipseCollection else c.get_paths()) for c in panel) for panel in found]


def test_map_has_discs_for_those_that_stay_and_paths_for_those_that_move(reported: Path, study: Maker) -> None:
    run = read_workdir(reported)
    assert drawn(run, EllipseCollection) == [8, 6, 6, 6]
    rounds = world.path_rounds(run)
    assert drawn(run, LineCollection) == [0, *[2 * rounds] * 3]  # two clients move
    longest = max(np.hypot(*np.diff(run.array(p, "position"), axis=0).T).sum(0)[:rounds].sum() for p in range(4))
    assert 0.7 * world.ALL_PATHS * np.hypot(9, 9) < longest <= world.ALL_PATHS * np.hypot(9, 9)
    radii = [{"network.radius": r, "algorithm.lr": k} for k, r in enumerate((2.0, float("inf"), None, "inf"))]
    assert drawn(study(radii), EllipseCollection) == [6, 0, 0, 0]
    many = study([{"algorithm.lr": 0.1 * i} for i in range(7)], clients=48)
    assert len(drawn(many, LineCollection)) == 6
    assert world.path_rounds(many) == 3  # 12 mobile clients
    assert not FIGURES["map"].applies(study(positions=False))


@pytest.mark.parametrize(("width", "inches"), [("column", 3.5), ("page", 7.2), ("5.25", 5.25)])
def test_a_picture_is_as_wide_as_it_is_asked_for(reported, tmp_path, width, inches):
    path = tmp_path / "figure.png"
    figures.save_figure(read_workdir(reported), "final_accuracy", path, figures.width_in_inches(width))
    assert imread(path).shape[1] == round(300 * inches)


@pytest.mark.parametrize("width", ["", "wide", "0", "nan", "inf", "-3", "41"])
def test_another_width_is_told_in_one_line(width):
    said = rf"^--width={width}: it must be column \(3.5 inches\), page \(7.2\) or a number"
    with pytest.raises(UserError, match=said):
        figures.width_in_inches(width)


@pytest.mark.long
@pytest.mark.parametrize("points", [1, 16, 200])
def test_legends_and_labels_are_within_the_figure(study, points):
    overrides = [{"network.radius": 1.0 + p % 20, "data.alpha": (5 + p // 20) / 100} for p in range(points)]
    run = study(overrides, seeds=2, rounds=20, positions=False)
    for name in figures.applying(run):
        with matplotlib.style.context(["default", style.PAPER]), warnings.catch_warnings():
            warnings.simplefilter("error")  # a layout that does not fit
            figure = figures.draw_for_paper(run, name, 3.5)
            figure.draw_without_rendering()
            for legend in figure.findobj(Legend):
                box = legend.get_window_extent()
                assert box.x0 >= -1, name
                assert box.x1 <= figure.bbox.x1 + 1, name
