"""A figure of one's own: one decorated function, found in the files and on the page."""

import subprocess
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.own_files import import_file
from mdfl_jax.report import figures
from mdfl_jax.report.page import render, write_report
from mdfl_jax.report.read import read_workdir
from mdfl_jax.report.registry import FIGURES, Chart, figure, in_order, panel


@pytest.fixture
def own(monkeypatch):
    """Two figures of this file, one of which does not apply; they are gone after the test."""
    monkeypatch.setattr(FIGURES, "_members", dict(FIGURES._members))

    @figure("ranking", caption=lambda run: f"The {len(run.points)} points, ranked.", place=15)
    def ranking(run):
        drawn = Figure(figsize=(4, 3))
        drawn.subplots().barh([p["id"] for p in run.points], [p["final_accuracy"]["mean"] for p in run.points])
        return drawn

    @figure("never", caption=lambda run: "", applies=lambda run: False)
    def never(run):
        raise AssertionError

    return ranking


def test_an_own_figure_is_in_the_files_and_on_the_page_at_its_place(make_workdir, own):
    folder = make_workdir(rounds=10)
    text = write_report(folder).read_text()
    assert (folder / "figures" / "ranking.png").stat().st_size > 1000
    assert (folder / "figures" / "ranking.pdf").is_file()
    assert not (folder / "figures" / "never.png").exists()
    assert '<p class="caption" id="ranking-caption">The 4 points, ranked.</p>' in text
    at = [
        text.index(f'<section class="panel" id="{name}"') for name in ("accuracy", "ranking", "final_accuracy", "map")
    ]
    assert at == sorted(at)
    assert 'id="never"' not in text
    assert own.__name__ == "ranking"  # still a function that can be called


def test_an_own_panel_is_on_the_page_and_has_no_file(make_workdir, own):
    @panel("sent", caption=lambda run: "Bits.", title="Bits < sent")
    def sent(run):
        """Bits."""
        bars = {"type": "bar", "x": [point["id"] for point in run.points], "y": np.array([1.0, 2.0, np.nan, 4.0])}
        return Chart("plotly", {"traces": [bars], "layout": {}})

    folder = make_workdir(rounds=10)
    run = read_workdir(folder)
    text = render(run)
    assert '<section class="panel" id="sent" data-kind="plotly"' in text
    assert '<h2 id="sent-title">Bits &lt; sent</h2>' in text
    with pytest.raises(UserError, match="figure 'sent': it is on the page only; there are accuracy, ranking, "):
        figures.draw_figure(run, "sent")


def test_the_page_has_its_panels_in_this_order():
    built_in = [name for name, of in in_order().items() if of.__module__.startswith("mdfl_jax.report.")]
    some = ["accuracy", "final_accuracy", "map", "groups", "label_counts"]
    assert [name for name in built_in if name in some] == some


def test_a_name_that_is_taken_and_a_missing_caption_are_told_at_once():
    with pytest.raises(UserError, match="figure 'map' is there already"):
        figure("map", caption=lambda run: "")(lambda run: Figure())
    with pytest.raises(TypeError, match="caption"):
        figure("uncaptioned")


def test_functions_that_cannot_be_called_with_a_run_are_told_at_once(own):
    """And not after the study, when the report is made."""
    here = "^the {} of a figure is called with one argument, the study: "
    with pytest.raises(UserError, match=here.format("draw") + r"missing a required argument: 'more'$"):
        figure("two", caption=lambda run: "")(lambda run, more: Figure())
    with pytest.raises(UserError, match=here.format("caption") + "too many positional arguments$"):
        figure("none", caption=lambda: "")(own)
    with pytest.raises(UserError, match=r"^the caption of a figure is 'Bits\.'; it must be a function of a study$"):
        figure("text", caption="Bits.")(own)
    with pytest.raises(UserError, match=here.format("applies")):
        figure("never_2", caption=lambda run: "", applies=lambda: True)(own)
    assert {"two", "none", "text", "never_2"}.isdisjoint(FIGURES)
    figure("method", caption=str.title, applies=bool)(own)  # callables of C and of Python


def test_no_part_of_the_report_loads_jax():
    code = "import sys, mdfl_jax.report.page; from mdfl_jax.report.registry import FIGURES\n"
    code += "FIGURES.discover(); print('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_used_file_with_such_a_figure_is_told_with_its_line(tmp_path, monkeypatch, own):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "from mdfl_jax.report.registry import figure\n\n"
        "@figure('mine', caption=lambda run: '')\ndef mine(run, points):\n    return None\n"
    )
    with pytest.raises(
        UserError, match=r"^mine\.py:3: the draw of a figure is called with one argument, .*: 'points'$"
    ):
        import_file("mine.py")
