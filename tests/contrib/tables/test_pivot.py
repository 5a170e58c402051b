"""The table of one quantity by two settings."""

import csv
import re

import numpy as np
import pytest

from mdfl_jax.contrib.tables import pivot
from mdfl_jax.core.errors import UserError
from mdfl_jax.report import sheet
from tests.report.conftest import write_workdir
from tests.report.test_names import TWO, labelled


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_workdir(tmp_path_factory.mktemp("pivot") / "run", TWO, seeds=3, rounds=10, positions=False)


def test_a_table_by_two_settings_has_the_means_and_bold_best_ones(folder):
    run = labelled(folder)
    found = pivot.pivot(run)
    assert found.sheet.header == ["mobility", "1", "2", "inf"]
    assert [row[0] for row in found.sheet.rows] == ["No movement", "dam", "DCM"]
    means = np.array([point["final_accuracy"]["mean"] for point in run.outcomes]).reshape(3, 3)
    halves = np.array([point["final_accuracy"]["ci95"] for point in run.outcomes]).reshape(3, 3)
    expected = [[f"{100 * m:.2f} ± {100 * h:.2f}" for m, h in zip(*of)] for of in zip(means, halves)]
    assert [row[1:] for row in found.sheet.rows] == expected
    assert found.sheet.bold == {(int(row), 1 + k) for k, row in enumerate(means.argmax(0))}
    np.testing.assert_allclose(np.array(found.numbers[1:])[:, 1::2].astype(float), means)
    other = pivot.pivot(run, "network.radius", "mobility").sheet
    assert [row[1:] for row in other.rows] == np.array(expected).T.tolist()


def test_the_latex_of_a_table_is_whole_and_escapes_every_text(folder):
    run = labelled(folder, "dam=A & B_1 {50 %}; dcm=$x^2$ #~\\\\")
    text = sheet.latex(pivot.pivot(run).sheet)
    lines = [line for line in text.splitlines() if not line.startswith("%")]
    body = [line for line in lines if re.search(r"(?<!\\)&", line)][1:]
    assert {len(re.findall(r"(?<!\\)&", line)) for line in body} == {3}
    assert r"A \& B\_1 \{50 \%\}" in text
    assert (text.count(r"\mathbf{"), text.count(r"\pm")) == (3, 9)
    bare = re.sub(r"\\[{}$]", "", "\n".join(lines))
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") == 2 * 9  # each cell is a formula of its own
    for name in ("a.csv", "a.md"):
        pivot.save_table(run, folder / name, "", "", "final_accuracy")
    with open(folder / "a.csv", encoding="utf-8", newline="") as file:
        assert len(list(csv.reader(file))) == 4
    assert "| **" in (folder / "a.md").read_text()
    with pytest.raises(UserError, match="--rows=alpha: unknown varying setting 'alpha'"):
        pivot.save_table(run, folder / "b.tex", "alpha", "", "final_accuracy")
