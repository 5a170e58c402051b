"""The figures as files, and one of them for a paper."""

import warnings

import matplotlib.style
import numpy as np
import pytest
from matplotlib.image import imread
from matplotlib.legend import Legend

from mdfl_jax.core.errors import UserError
from mdfl_jax.report import figures, style
from mdfl_jax.report.panels import curves
from mdfl_jax.report.registry import FIGURES
from mdfl_jax.results.results import Results


def test_files_are_not_blank_and_have_their_fonts_in_them(reported):
    for name in ("accuracy", "final_accuracy", "label_counts", "map"):
        pixels = imread(reported / "figures" / f"{name}.png")
        assert min(pixels.shape[:2]) > 250
        assert pixels[..., :3].std() > 0.03
        pdf = (reported / "figures" / f"{name}.pdf").read_bytes()
        assert pdf.startswith(b"%PDF")
        assert b"/FontFile2" in pdf  # TrueType, embedded
        assert b"/Type3" not in pdf


def test_two_reports_have_the_same_bytes_and_leave_no_stale_figure(study, tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "drawn_panels", lambda: {name: FIGURES[name] for name in ("accuracy", "map")})
    run = study([{}], seeds=2, positions=False)
    (run.workdir / "figures").mkdir()
    (run.workdir / "figures" / "map.png").write_bytes(b"of an earlier run")
    contents = []
    for i in range(2):
        assert {path.stem for path in figures.write_figures(run, run.workdir / "figures")} == {"accuracy"}
        figures.save_figure(run, "accuracy", tmp_path / f"{i}.svg", 3.5)
        files = [*(run.workdir / "figures").iterdir(), *tmp_path.glob(f"{i}.*")]
        contents.append({path.name.replace(f"{i}.", "own."): path.read_bytes() for path in files})
    assert contents[0] == contents[1]
    assert "map.png" not in contents[0]


def test_curves_have_means_intervals_and_the_colour_of_their_rule_in_every_sweep(reported, study):
    axes = curves.accuracy(Results.read(reported).shown()).axes[0]
    with np.load(reported / "history.npz") as history:
        seeds = 100 * history["2/accuracy"].mean(2)  # [S, E]
    line = next(line for line in axes.lines if line.get_color() == style.MOBILITY_COLOURS["dam"])
    np.testing.assert_allclose(line.get_ydata(), seeds.mean(0))
    half = 4.302653 * seeds.std(0, ddof=1) / np.sqrt(3)  # t of 0.975 with 2 degrees of freedom
    edge = axes.collections[2].get_paths()[0].vertices[:, 1]
    np.testing.assert_allclose([edge.min(), edge.max()], [(seeds.mean(0) - half).min(), (seeds.mean(0) + half).max()])
    alone = style.looks(Results.read(reported).shown())
    crossed = study([{"network.num_mobile": n, "network.mobility": m} for n in (2, 4) for m in ("dcm", "static")])
    assert [look.colour for look in style.looks(crossed)] == [alone[3].colour, alone[0].colour] * 2


def test_a_picture_is_as_wide_as_it_is_asked_for(reported, tmp_path):
    for width, inches in (("column", 3.5), ("page", 7.2), ("5.25", 5.25)):
        path = tmp_path / "figure.png"
        figures.save_figure(Results.read(reported).shown(), "final_accuracy", path, figures.width_in_inches(width))
        assert imread(path).shape[1] == round(300 * inches)
    for width in ("", "wide", "0", "nan", "inf", "-3", "41"):
        with pytest.raises(UserError, match=rf"^--width={width}: it must be column \(3.5 inches\), page"):
            figures.width_in_inches(width)


@pytest.mark.long
def test_legends_and_labels_are_within_the_figure(study):
    overrides = [{"network.radius": 1.0 + p % 20, "data.alpha": (5 + p // 20) / 100} for p in range(200)]
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
