"""How points are named and told apart: labels, colours and dashes, titles; and the table by two settings."""

import csv
import itertools
import re
import shutil
import subprocess

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mdfl_jax.core import papers
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.sweep_text import labels_of
from mdfl_jax.report import pivot, sheet, tables
from mdfl_jax.report.figures import draw_figure
from mdfl_jax.report.page import render
from mdfl_jax.report.panels.curves import MANY, facets_on_page
from mdfl_jax.report.read import read_workdir, sweep_axes
from mdfl_jax.report.setting import describe_setting
from mdfl_jax.report.style import looks
from mdfl_jax.report.verdict import verdict
from tests.report.made_report import declare, edit

LABELS = "dcm=DCM: distribution-aware cluster-centre movement; static=No movement; network.radius=radio range (m)"
RULES, RADII = ("static", "dam", "dcm"), (1.0, 2.0, "inf")
TWO = [{"network.mobility": rule, "network.radius": radius} for rule, radius in itertools.product(RULES, RADII)]


def labelled(folder, labels=LABELS):
    return read_workdir(edit(folder, "config", config=lambda config: config | {"labels": labels}))


def test_labels_name_values_and_settings_and_long_names_are_told_once(make_workdir):
    run = labelled(make_workdir(TWO, seeds=2, rounds=10, positions=False))
    assert [axis.name for axis in run.axes] == ["mobility", "radio range (m)"]
    assert run.labels[6] == "DCM, radio range (m) = 1"
    assert looks(run)[6].full == "DCM: distribution-aware cluster-centre movement, radio range (m) = 1"
    page = render(run)
    assert describe_setting(labelled(run.workdir, "dpsgd=D-PSGD: decentralised SGD")).count("with D-PSGD.") == 1
    run = labelled(run.workdir)
    table = page[page.index("<tbody>") : page.index("</tbody>")]
    assert table.count("DCM: distribution-aware cluster-centre movement") == 1
    assert table.count("</svg>DCM") == 3
    assert "distribution-aware" not in re.sub(r"(?s)<tbody>.*?</tbody>|<script.*?</script>|<pre.*?</pre>", "", page)
    assert "dcm" not in " ".join(verdict(run.summary, run.config))
    names, raw = tables.raw_table(run.summary, run.config)
    assert [row[1] for row in raw][-1] == "dcm"  # the CSV file has the values of the configuration
    assert names[:3] == ["point", "mobility", "radius"]


def test_a_value_on_two_axes_has_two_names(make_workdir):
    two = [{"network.radius": a, "data.alpha": b} for a, b in itertools.product((1.0, 3.0), repeat=2)]
    labels = "network.radius=3=far; data.alpha=3=even; 1=one; data.alpha=skew"
    run = labelled(make_workdir(two, seeds=2, rounds=10, positions=False), labels)
    assert [axis.texts for axis in run.axes] == [("one", "one", "far", "far"), ("one", "even", "one", "even")]
    assert [axis.name for axis in run.axes] == ["radius", "skew"]
    assert run.labelled("data.alpha=3=even").labels[1] == "radius = 1, alpha = even"
    with pytest.raises(UserError, match=r"unknown value or setting 'data\.alpha=4' \(did you mean 'data\.alpha=3'\?\)"):
        run.labelled("data.alpha=4=odd")


@pytest.mark.parametrize("text", ["dcm", "dcm=", "=DCM", "dcm=A; dcm=B", "dcm=A; dam=A: another"])
def test_labels_of_another_form_are_refused(text):
    with pytest.raises(UserError, match="labels: "):
        labels_of(text)


def test_labels_that_make_two_values_one_are_refused():
    points = [{"overrides": overrides} for overrides in TWO]
    with pytest.raises(UserError, match=r"labels: 'dcm' would stand for static and for dcm of network\.mobility"):
        sweep_axes(points, {"labels": "static=dcm"})


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
        self.points = [{"id": str(p), "overrides": of} for p, of in enumerate(overrides)]
        self.axes = sweep_axes(self.points)
        self.labels = self.full_labels = [point["id"] for point in self.points]

    def value(self, point, path):
        return self.points[point]["overrides"].get(path)


def test_a_table_by_two_settings_has_the_means_and_bold_best_ones(make_workdir):
    run = labelled(make_workdir(TWO, seeds=3, rounds=10, positions=False))
    found = pivot.pivot(run)
    assert found.sheet.header == ["mobility", "1", "2", "inf"]
    assert [row[0] for row in found.sheet.rows] == ["No movement", "dam", "DCM"]
    means = np.array([point["final_accuracy"]["mean"] for point in run.points]).reshape(3, 3)
    halves = np.array([point["final_accuracy"]["ci95"] for point in run.points]).reshape(3, 3)
    expected = [[f"{100 * m:.2f} ± {100 * h:.2f}" for m, h in zip(*of)] for of in zip(means, halves)]
    assert [row[1:] for row in found.sheet.rows] == expected
    assert found.sheet.bold == {(int(row), 1 + k) for k, row in enumerate(means.argmax(0))}
    np.testing.assert_allclose(np.array(found.numbers[1:])[:, 1::2].astype(float), means)
    assert found.numbers[0][:3] == ["mobility", "radio range (m)=1", "radio range (m)=1 ci95"]
    other = pivot.pivot(run, "network.radius", "mobility").sheet
    assert [row[1:] for row in other.rows] == np.array(expected).T.tolist()


def test_the_latex_of_a_table_is_whole_and_escapes_every_text(make_workdir):
    run = labelled(make_workdir(TWO, seeds=3, rounds=10, positions=False), "dam=A & B_1 {50 %}; dcm=$x^2$")
    text = sheet.latex(pivot.pivot(run).sheet)
    lines = [line for line in text.splitlines() if not line.startswith("%")]
    assert lines[0] == r"\begin{tabular}{lrrr}"
    assert lines[2:4] == [r"& \multicolumn{3}{c}{radius} \\", r"\cmidrule(lr){2-4}"]
    body = [line for line in lines if re.search(r"(?<!\\)&", line)][1:]
    assert {len(re.findall(r"(?<!\\)&", line)) for line in body} == {3}
    assert r"A \& B\_1 \{50 \%\}" in text
    assert r"\$x\textasciicircum{}2\$" in text
    assert text.count(r"\mathbf{") == 3
    assert text.count(r"\pm") == 9
    bare = re.sub(r"\\[{}$]", "", "\n".join(lines))
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") == 2 * 9  # each cell is a formula of its own
    folder = run.workdir
    tables.write(run), pivot.write(run)
    with open(folder / "tables" / "pivot.csv", encoding="utf-8", newline="") as file:
        assert len(list(csv.reader(file))) == 4
    assert "| **" in (folder / "tables" / "pivot.md").read_text()
    assert r"\mathbf{" in (folder / "tables" / "summary.tex").read_text()


@pytest.mark.skipif(not (shutil.which("pdflatex") and shutil.which("bibtex")), reason="needs LaTeX")
def test_tables_and_references_are_compiled_by_latex(make_workdir, tmp_path):
    """A paper with both tables, one with names that need escapes, that cites every entry of papers.bib."""
    run = labelled(make_workdir(TWO, seeds=3, rounds=10, positions=False), "dam=A & B_1 {50 %}; dcm=$x^2$ #~\\\\")
    tables.write(run), pivot.write(run)
    keys, bib = ",".join(papers.papers()), "\n".join(paper.entry for paper in papers.papers().values())
    (tmp_path / "papers.bib").write_text(bib, encoding="utf-8")
    parts = [rf"\input{{{run.workdir / 'tables' / name}}}" for name in ("summary.tex", "pivot.tex")]
    head = r"\documentclass{article}\usepackage{booktabs}\usepackage[utf8]{inputenc}\begin{document}"
    end = rf"\nocite{{{keys}}}\bibliographystyle{{plain}}\bibliography{{papers}}\end{{document}}"
    (tmp_path / "paper.tex").write_text("\n\n".join([head, *parts, end]), encoding="utf-8")
    latex = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    for command in (latex, ["bibtex", "paper"], latex):
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace")
        assert ended.returncode == 0, ended.stdout[-2000:]
        assert "empty" not in ended.stdout, ended.stdout  # BibTeX warns of a field that an entry lacks
    assert (tmp_path / "paper.pdf").read_bytes().startswith(b"%PDF")


def test_own_metrics_have_their_unit_and_interval_in_the_terminal_and_wide_tables_are_folded(make_workdir):
    own = {"energy": {"mean": 12.345, "std": 0.4, "ci95": 0.4567, "per_seed": [12.0, 12.6]}}
    folder = edit(make_workdir(seeds=2, positions=False), points=lambda points: [point | own for point in points])
    declare(folder, "energy", "J", where=("table",))
    run = read_workdir(edit(folder, metrics=lambda found: [of | {"title": "energy of a client"} for of in found]))
    lines = tables.text(run.summary, run.config, width=60).splitlines()
    assert "12.35 +- 0.46" in "\n".join(lines)
    assert max(map(len, lines[: lines.index("")])) <= 60
    assert sum(line.startswith("static ") for line in lines) > 1  # the names again in each part
    wide = tables.text(run.summary, run.config, width=300)
    assert sum(line.startswith("static ") for line in wide.splitlines()) == 1
    assert "energy of a client (J)" in tables.table(run.summary, run.config)[0]


def test_a_baseline_that_no_point_has_leaves_no_column(make_workdir):
    radii = [{"network.radius": radius} for radius in RADII]
    nothing = {"baseline": None, "difference_to_baseline": None}
    folder = edit(
        make_workdir(radii, seeds=2, positions=False),
        baseline="network.mobility=random_movement",
        points=lambda points: [point | nothing for point in points],
    )
    run = read_workdir(folder)
    assert not any("baseline" in title for title in tables.table(run.summary, run.config)[0])
    assert "rounds to target" in tables.table(run.summary, run.config)[0]  # that none reaches it says something


def test_points_that_are_equal_in_all_seeds_are_told(make_workdir):
    same = {key: {"mean": 0.5, "ci95": 0.1, "per_seed": [0.4, 0.5, 0.6]} for key in tables.MEASURED}
    folder = edit(make_workdir(positions=False), points=lambda found: [found[0] | same, found[1] | same, *found[2:]])
    run = read_workdir(folder)
    assert tables.equal_points(run.points) == [["static", "random_movement"]]
    said = "static and random movement are equal in all seeds: what differs in them has no effect here."
    assert said in verdict(run.summary, run.config)
    assert "static and random_movement are equal in all seeds" in tables.note(run.summary)
    run.points[1]["worst_client_accuracy"]["per_seed"][2] = 0.61
    assert not tables.equal_points(run.points)


def test_the_legend_of_a_figure_has_each_name_once_with_its_long_form(make_workdir):
    run = labelled(make_workdir(TWO, seeds=2, rounds=10, positions=False))
    (legend,) = draw_figure(run, "accuracy").legends
    texts = [text.get_text() for text in legend.get_texts()]
    assert texts == ["No movement", "dam", "DCM: distribution-aware cluster-centre movement", "target 70 %"]
