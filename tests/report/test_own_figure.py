"""A figure of one's own: one decorated function, found on the page."""

import subprocess
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure

from mdfl_jax.core.errors import UserError
from mdfl_jax.report import figures
from mdfl_jax.report.page import render
from mdfl_jax.report.registry import FIGURES, Chart, figure, panel
from mdfl_jax.results.results import Results


def ranking(run):
    drawn = Figure(figsize=(4, 3))
    drawn.subplots().barh([p["id"] for p in run.outcomes], [p["final_accuracy"]["mean"] for p in run.outcomes])
    return drawn


def test_figures_and_panels_of_ones_own_are_on_the_page_at_their_place(make_workdir, monkeypatch):
    """What they draw, and their files, are seen by tests/docs/test_extending.py."""
    monkeypatch.setattr(FIGURES, "_members", dict(FIGURES._members))
    figure("ranking", caption=lambda run: f"The {len(run.points)} points, ranked.", place=15)(ranking)
    figure("never", caption=lambda run: "", applies=lambda run: False)(ranking)

    @panel("sent", caption=lambda run: "Bits.", title="Bits < sent")
    def sent(run):
        """Bits."""
        return Chart("plotly", {"traces": [{"type": "bar", "y": np.array([1.0, np.nan])}], "layout": {}})

    run = Results.read(make_workdir(rounds=10, positions=False)).shown()
    text = render(run)
    assert '<p class="caption" id="ranking-caption">The 4 points, ranked.</p>' in text
    order = ("accuracy", "ranking", "final_accuracy", "label_counts", "sent")
    at = [text.index(f'<section class="panel" id="{name}"') for name in order]
    assert at == sorted(at)
    assert 'id="never"' not in text
    assert '<h2 id="sent-title">Bits &lt; sent</h2>' in text
    with pytest.raises(UserError, match="figure 'sent': it is on the page only; there are accuracy, ranking, "):
        figures.draw_figure(run, "sent")


@pytest.mark.long
def test_no_part_of_the_report_loads_jax():
    code = "import sys, mdfl_jax.report.page; from mdfl_jax.report.registry import FIGURES\n"
    code += "FIGURES.discover(); print('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
