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


@pytest.fixture
def own(monkeypatch):
    """A figure of this file; what a test registers is gone after it."""
    monkeypatch.setattr(FIGURES, "_members", dict(FIGURES._members))

    @figure("ranking", caption=lambda run: f"The {len(run.points)} points, ranked.", place=15)
    def ranking(run):
        drawn = Figure(figsize=(4, 3))
        drawn.subplots().barh([p["id"] for p in run.points], [p["final_accuracy"]["mean"] for p in run.points])
        return drawn

    return ranking


def test_figures_and_panels_of_ones_own_are_in_the_files_and_on_the_page_at_their_place(make_workdir, own):
    @figure("never", caption=lambda run: "", applies=lambda run: False)
    def never(run):
        raise AssertionError

    @figure("best", of=lambda run: run.points[:1], caption=lambda run, shown: f"The first of {len(shown)}.")
    def best(run, shown):
        return Figure()

    @panel("sent", caption=lambda run: "Bits.", title="Bits < sent")
    def sent(run):
        """Bits."""
        bars = {"type": "bar", "x": [point["id"] for point in run.points], "y": np.array([1.0, 2.0, np.nan, 4.0])}
        return Chart("plotly", {"traces": [bars], "layout": {}})

    folder = make_workdir(rounds=10, positions=False)
    text = write_report(folder).read_text()
    files = {path.name for path in (folder / "figures").iterdir()}
    assert {"ranking.png", "ranking.pdf", "best.png"} <= files
    assert not {"never.png", "sent.png"} & files
    assert '<p class="caption" id="ranking-caption">The 4 points, ranked.</p>' in text
    assert "The first of 1." in text
    order = ("accuracy", "ranking", "final_accuracy", "label_counts", "best", "sent")
    at = [text.index(f'<section class="panel" id="{name}"') for name in order]
    assert at == sorted(at)
    assert 'id="never"' not in text
    assert '<h2 id="sent-title">Bits &lt; sent</h2>' in text
    assert own.__name__ == "ranking"  # still a function that can be called
    with pytest.raises(UserError, match="figure 'sent': it is on the page only; there are accuracy, ranking, "):
        figures.draw_figure(read_workdir(folder), "sent")


CALLED = "^the {} of a figure is called with one argument, the study: "


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "map"}, "figure 'map' is there already"),
        ({"caption": lambda: ""}, CALLED.format("caption") + "too many positional arguments$"),
        ({"caption": "Bits."}, r"^the caption of a figure is 'Bits\.'; it must be a function of a study$"),
        ({"applies": lambda: True}, CALLED.format("applies")),
        ({"draw": lambda run, more: Figure()}, CALLED.format("draw") + r"missing a required argument: 'more'$"),
    ],
)
def test_what_cannot_be_a_figure_is_told_when_it_is_declared_and_not_after_the_study(own, changes, said):
    given = {"name": "mine", "caption": str.title, "applies": bool} | changes  # callables of C and of Python
    draw, name = given.pop("draw", own), given.pop("name")
    with pytest.raises(UserError, match=said):
        figure(name, **given)(draw)
    assert "mine" not in FIGURES
    with pytest.raises(TypeError, match="caption"):
        figure("uncaptioned")


def test_no_part_of_the_report_loads_jax():
    code = "import sys, mdfl_jax.report.page; from mdfl_jax.report.registry import FIGURES\n"
    code += "FIGURES.discover(); print('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
