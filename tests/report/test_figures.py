"""The figures as files, and one of them for a paper."""

import dataclasses
import re
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import matplotlib.image
import numpy as np
import pytest
from matplotlib.collections import EllipseCollection, LineCollection
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.legend import Legend
from matplotlib.text import Text

from mdfl_jax.core.errors import UserError
from mdfl_jax.report import figures, style
from mdfl_jax.report.figures import applying
from mdfl_jax.report.panels import curves
from mdfl_jax.report.panels import map as world
from mdfl_jax.report.read import ReportData, read_workdir
from mdfl_jax.report.registry import FIGURES
from tests.report.conftest import write_workdir

Maker = Callable[..., Path]
NAMES = ("accuracy", "final_accuracy", "label_counts", "map")


@pytest.mark.parametrize("name", NAMES)
def test_files_exist_and_are_not_blank(reported: Path, name: str) -> None:
    pixels = imread(reported / "figures" / f"{name}.png")
    assert min(pixels.shape[:2]) > 250
    assert pixels[..., :3].std() > 0.03
    pdf = (reported / "figures" / f"{name}.pdf").read_bytes()
    assert pdf.startswith(b"%PDF")
    assert b"/FontFile2" in pdf  # TrueType, embedded
    assert b"/Type3" not in pdf


def test_two_reports_have_the_same_bytes_and_leave_no_stale_figure(make_workdir: Maker) -> None:
    folder = make_workdir([{}], seeds=2, positions=False)
    (folder / "figures").mkdir()
    (folder / "figures" / "map.png").write_bytes(b"of an earlier run")
    run = read_workdir(folder)
    contents = []
    for _ in range(2):
        assert set(figures.write_figures(run)) == {"accuracy", "final_accuracy", "label_counts"}
        contents.append({path.name: path.read_bytes() for path in (folder / "figures").iterdir()})
    assert contents[0] == contents[1]
    assert "map.png" not in contents[0]


def test_curve_and_band_are_the_mean_and_the_student_t_interval(reported: Path) -> None:
    run = read_workdir(reported)
    axes = curves.accuracy(run).axes[0]
    with np.load(reported / "history.npz") as history:
        seeds = 100 * history["2/accuracy"].mean(2)  # [S, E]
    line = next(line for line in axes.lines if line.get_color() == style.MOBILITY_COLOURS["dam"])
    np.testing.assert_allclose(line.get_ydata(), seeds.mean(0))
    half = 4.302653 * seeds.std(0, ddof=1) / np.sqrt(3)  # t of 0.975 with 2 degrees of freedom
    edge = axes.collections[2].get_paths()[0].vertices[:, 1]
    np.testing.assert_allclose([edge.min(), edge.max()], [(seeds.mean(0) - half).min(), (seeds.mean(0) + half).max()])


def test_a_mobility_pattern_has_its_colour_in_every_sweep(make_workdir: Maker, reported: Path) -> None:
    sweep = [{"network.num_mobile": n, "network.mobility": m} for n in (2, 4) for m in ("dcm", "static")]
    crossed = style.looks(read_workdir(make_workdir(sweep)))
    alone = style.looks(read_workdir(reported))
    assert [look.colour for look in crossed] == [alone[3].colour, alone[0].colour] * 2
    assert len({(look.colour, str(look.dashes)) for look in crossed}) == 4
    assert crossed[0].label == "num mobile = 2, dcm"


def test_a_crossed_sweep_has_a_panel_for_each_other_value(make_workdir: Maker) -> None:
    sweep = [{"network.num_mobile": n, "network.mobility": m} for n in (2, 4) for m in ("dcm", "static")]
    axes = curves.accuracy(read_workdir(make_workdir(sweep))).axes
    assert [a.get_title() for a in axes] == ["num mobile = 2", "num mobile = 4"]


def test_captions_tell_the_seeds_of_the_points_not_those_of_the_study(make_workdir: Maker) -> None:
    run = read_workdir(make_workdir(seeds=3))
    assert (style.describe_first_seed(run), style.has_intervals(run)) == ("seed 0", True)
    own = run.curves["dcm"]
    run.curves["dcm"] = dataclasses.replace(own, accuracy=own.accuracy[1:], seeds=own.seeds[1:])
    assert style.describe_first_seed(run) == "each point's first seed (0, 1)"
    for name, curve in run.curves.items():
        run.curves[name] = dataclasses.replace(curve, accuracy=curve.accuracy[:1], seeds=(2,))
    assert (style.describe_first_seed(run), style.has_intervals(run)) == ("seed 2", False)
    assert "interval over" not in FIGURES["accuracy"].caption(run)


def drawn(run: ReportData, kind: type) -> list[int]:
    """How many elements of a kind of collection each panel of the map has."""
    figure = world.world_map(run)
    found = [[c for c in axes.collections if isinstance(c, kind)] for axes in figure.axes]
    return [sum(len(c.get_offsets() if kind is EllipseCollection else c.get_paths()) for c in panel) for panel in found]


def test_map_has_discs_for_those_that_stay_and_paths_for_those_that_move(reported: Path) -> None:
    run = read_workdir(reported)
    assert drawn(run, EllipseCollection) == [8, 6, 6, 6]
    rounds = world.path_rounds(run)
    assert drawn(run, LineCollection) == [0, *[2 * rounds] * 3]  # two clients move
    longest = max(np.hypot(*np.diff(run.array(p, "position"), axis=0).T).sum(0)[:rounds].sum() for p in range(4))
    assert 0.7 * world.ALL_PATHS * np.hypot(9, 9) < longest <= world.ALL_PATHS * np.hypot(9, 9)


@pytest.mark.parametrize("linked", [False, True])
def test_clients_on_the_circle_are_drawn_without_links_too(linked: bool) -> None:
    """As with server.pairs=0, where no client ever meets another."""
    links = np.zeros((1, 5, 6, 1), np.uint8)  # one seed, five rounds, six clients; a byte has eight
    links[0, 0, 0] = 128 >> 3 if linked else 0  # client 0 hears client 3 in the first round
    run = SimpleNamespace(
        array=lambda p, name: None, value=lambda p, path: 6, history=lambda p, name: links if name == "links" else None
    )
    axes = Figure().add_subplot()
    world._draw_circle(axes, run, 0, None, "red", 5)
    drawn_links = [c for c in axes.collections if isinstance(c, LineCollection)]
    assert [len(c.get_paths()) for c in drawn_links] == ([1] if linked else [])
    assert len(axes.texts) == 6


def test_infinite_radius_has_no_discs(make_workdir: Maker) -> None:
    run = read_workdir(make_workdir([{"network.radius": r} for r in (2.0, float("inf"), None, "inf")]))
    assert drawn(run, EllipseCollection) == [6, 0, 0, 0]


def test_map_has_at_most_six_panels_and_fewer_rounds_for_many_clients(make_workdir: Maker) -> None:
    run = read_workdir(make_workdir([{"algorithm.lr": 0.1 * i} for i in range(7)], clients=48))
    assert len(drawn(run, LineCollection)) == 6
    assert world.path_rounds(run) == 3  # 12 mobile clients


def test_no_position_recorded_is_no_map(make_workdir: Maker) -> None:
    run = read_workdir(make_workdir(positions=False))
    assert not FIGURES["map"].applies(run)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return read_workdir(write_workdir(tmp_path_factory.mktemp("paper") / "run"))


@pytest.mark.parametrize(("width", "inches"), [("column", 3.5), ("page", 7.2), ("5.25", 5.25)])
def test_a_picture_is_as_wide_as_it_is_asked_for(run, tmp_path, width, inches):
    path = tmp_path / "figure.png"
    figures.save_figure(run, "accuracy", path, figures.width_in_inches(width))
    assert matplotlib.image.imread(path).shape[1] == round(300 * inches)


@pytest.mark.parametrize("width", ["", "wide", "0", "nan", "inf", "-3", "41"])
def test_another_width_is_told_in_one_line(width):
    with pytest.raises(
        UserError, match=rf"^--width={width}: it must be column \(3.5 inches\), page \(7.2\) or a number"
    ):
        figures.width_in_inches(width)


def test_fonts_are_in_the_file_and_texts_are_small(run, tmp_path):
    figures.save_figure(run, "final_accuracy", tmp_path / "figure.pdf", 3.5)
    content = (tmp_path / "figure.pdf").read_bytes()
    assert b"/FontFile2" in content
    streams = [
        zlib.decompress(part) for part in re.findall(rb"FlateDecode[^>]*>>\s*stream\n(.*?)\nendstream", content, re.S)
    ]
    assert streams
    with paper_style():
        sizes = [
            text.get_fontsize()
            for text in figures.draw_for_paper(run, "accuracy", 3.5).findobj(Text)
            if text.get_text()
        ]
    assert max(sizes) <= 8


def paper_style():
    import matplotlib.style

    from mdfl_jax.report.style import PAPER

    return matplotlib.style.context(["default", PAPER])


@pytest.mark.long
@pytest.mark.parametrize("points", [1, 16, 200])
def test_legends_and_labels_are_within_the_figure(tmp_path, points):
    overrides = [{"network.radius": 1.0 + p % 20, "data.alpha": (5 + p // 20) / 100} for p in range(points)]
    run = read_workdir(write_workdir(tmp_path / "run", overrides, seeds=2, rounds=20, positions=False))
    for name in applying(run):
        with paper_style(), warnings.catch_warnings():
            warnings.simplefilter("error")  # a layout that does not fit
            figure = figures.draw_for_paper(run, name, 3.5)
            figure.draw_without_rendering()
            assert figure.get_figwidth() == 3.5
            whole = figure.bbox
            for legend in figure.findobj(Legend):
                box = legend.get_window_extent()
                assert box.x0 >= -1, name
                assert box.x1 <= whole.x1 + 1, name


def test_two_files_of_the_same_figure_are_the_same(run, tmp_path):
    for ending in ("png", "pdf", "svg"):
        paths = [tmp_path / f"{i}.{ending}" for i in range(2)]
        for path in paths:
            figures.save_figure(run, "final_accuracy", path, 3.5)
        assert paths[0].read_bytes() == paths[1].read_bytes()


def test_some_points_of_a_run(run):
    some = run.only([3, 1])
    assert [point["id"] for point in some.points] == ["dcm", "random_movement"]
    assert list(some.curves) == ["dcm", "random_movement"]
    assert np.array_equal(some.array(0, "position"), run.array(3, "position"))
    assert np.array_equal(some.history(1, "accuracy"), run.history(1, "accuracy"))
