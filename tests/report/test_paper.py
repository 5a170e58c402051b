"""One figure for papers: its size, its fonts and its legend, for few and for many points."""

import re
import warnings
import zlib

import matplotlib.image
import numpy as np
import pytest
from matplotlib.legend import Legend
from matplotlib.text import Text

from mdfl_jax.core.errors import UserError
from mdfl_jax.report import figures
from mdfl_jax.report.figures import applying
from mdfl_jax.report.read import read_workdir
from tests.report.conftest import write_workdir


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
