"""A figure of one's own: one decorated function, found in the files and on the page."""

import subprocess
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure

from mdfl_jax.core.errors import UserError
from mdfl_jax.report import figures
from mdfl_jax.report.page import write_report
from mdfl_jax.report.read import read_workdir
from mdfl_jax.report.registry import FIGURES, Chart, figure, panel


def ranking(run):
    drawn = Figure(figsize=(4, 3))
    drawn.subplots().barh([p["id"] for p in run.points], [p["final_accuracy"]["mean"] for p in run.points])
    return drawn


def test_figures_and_panels_of_ones_own_are_in_the_files_and_on_the_page_at_their_place(make_workdir, monkeypatch):
    monkeypatch.setattr(FIGURES, "_members", dict(FIGURES._members))
    figure("ranking", caption=lambda run: f"The {len(run.points)} points, ranked.", place=15)(ranking)

    @figure("never", caption=lambda run: "", applies=lambda run: False)
    def never(run):
        raise AssertionError

    @panel("sent", caption=lambda run: "Bits.", title="Bits < sent")
    def sent(run):
        """Bits."""
        bars = {"type": "bar", "x": [point["id"] for point in run.points], "y": np.array([1.0, 2.0, np.nan, 4.0])}
        return Chart("plotly", {"traces": [bars], "layout": {}})

    folder = make_workdir(rounds=10, positions=False)
    text = write_report(folder).read_text()
    files = {path.name for path in (folder / "figures").iterdir()}
    assert {"ranking.png", "ranking.pdf"} <= files
    assert not {"never.png", "sent.png"} & files
    assert '<p class="caption" id="ranking-caption">The 4 points, ranked.</p>' in text
    order = ("accuracy", "ranking", "final_accuracy", "label_counts", "sent")
    at = [text.index(f'<section class="panel" id="{name}"') for name in order]
    assert at == sorted(at)
    assert 'id="never"' not in text
    assert '<h2 id="sent-title">Bits &lt; sent</h2>' in text
    with pytest.raises(UserError, match="figure 'sent': it is on the page only; there are accuracy, ranking, "):
        figures.draw_figure(read_workdir(folder), "sent")
    with pytest.raises(UserError, match=r"^the caption of a figure is called with one argument, the study: too many"):
        figure("mine", caption=lambda: "")(ranking)  # when it is declared, not after the study


def test_no_part_of_the_report_loads_jax():
    code = "import sys, mdfl_jax.report.page; from mdfl_jax.report.registry import FIGURES\n"
    code += "FIGURES.discover(); print('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
