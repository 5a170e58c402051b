"""How points are named and told apart: labels, colours and dashes, titles."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.sweep_text import labels_of
from mdfl_jax.report import tables
from mdfl_jax.report.figures import draw_figure
from mdfl_jax.report.page import render
from mdfl_jax.report.panels.curves import MANY, facets_on_page
from mdfl_jax.report.style import looks
from mdfl_jax.report.verdict import verdict
from mdfl_jax.results.axes import sweep_axes
from mdfl_jax.results.results import Results
from tests.report.conftest import write_workdir
from tests.report.made_report import edit

LABELS = "dcm=DCM: distribution-aware cluster-centre movement; static=No movement; network.radius=radio range (m)"
RULES, RADII = ("static", "dam", "dcm"), (1.0, 2.0, "inf")
TWO = [{"network.mobility": rule, "network.radius": radius} for rule, radius in itertools.product(RULES, RADII)]


def labelled(folder, labels=LABELS):
    return Results.read(edit(folder, "config", config=lambda config: config | {"labels": labels})).shown()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_workdir(tmp_path_factory.mktemp("names") / "run", TWO, seeds=3, rounds=10, positions=False)


def test_labels_name_values_and_settings_and_long_names_are_told_once(folder):
    run = labelled(folder)
    assert [axis.name for axis in run.axes] == ["mobility", "radio range (m)"]
    assert run.labels[6] == "DCM, radio range (m) = 1"
    assert looks(run)[6].full == "DCM: distribution-aware cluster-centre movement, radio range (m) = 1"
    page = render(run)
    table = page[page.index("<tbody>") : page.index("</tbody>")]
    assert table.count("DCM: distribution-aware cluster-centre movement") == 1
    assert table.count("</svg>DCM") == 3
    assert "cluster-centre" not in re.sub(r"(?s)<tbody>.*?</tbody>|<script.*?</script>|<pre.*?</pre>", "", page)
    assert "dcm" not in " ".join(verdict(run))
    _, raw = tables.raw_table(run)
    assert [row[1] for row in raw][-1] == "dcm"  # the CSV file has the values of the configuration
    (legend,) = draw_figure(run, "accuracy").legends
    texts = [text.get_text() for text in legend.get_texts()]
    assert texts == ["No movement", "dam", "DCM: distribution-aware cluster-centre movement", "target 70 %"]


def test_bad_labels_are_refused():
    for text in ("dcm=", "=DCM", "dcm=A; dcm=B", "dcm=A; dam=A: another"):
        with pytest.raises(UserError, match="labels: "):
            labels_of(text)
    with pytest.raises(UserError, match=r"labels: 'dcm' would stand for static and for dcm of network\.mobility"):
        sweep_axes([{"overrides": overrides} for overrides in TWO], {"labels": "static=dcm"})


@given(st.lists(st.integers(1, 7), min_size=1, max_size=3), st.booleans())
def test_any_two_points_differ_in_colour_dashes_or_panel(sizes, numbers):
    """Of sweeps whose panels are not too many; those of 18 points and less are among them."""
    paths = ("network.mobility", "data.alpha", "algorithm.name")
    values = [[float(v) if numbers and k else f"v{v}" for v in range(size)] for k, size in enumerate(sizes)]
    points = [dict(zip(paths, of)) for of in itertools.product(*values)]
    run = Fake(points)
    found = looks(run)
    panel = {p: title for title, members in facets_on_page(run).items() for p in members}
    told = {(look.colour, look.dash, panel[p]) for p, look in enumerate(found)}
    others = int(np.prod(sizes[1:]))
    if len(points) <= 18 or others <= 12:
        assert len(told) == len(points)
    assert max(map(len, facets_on_page(run).values())) <= MANY or others > 12 or sizes[0] > MANY


class Fake:
    """As much of a study as looks need."""

    def __init__(self, overrides):
        self.outcomes = [{"id": str(p), "overrides": of} for p, of in enumerate(overrides)]
        self.axes = sweep_axes(self.outcomes)
        self.points = self.labels = self.full_labels = [outcome["id"] for outcome in self.outcomes]

    def value(self, point, path):
        return self.outcomes[point]["overrides"].get(path)
