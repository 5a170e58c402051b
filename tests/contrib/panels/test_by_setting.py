"""The panel of sweeps of numbers: which lines it has, where they are, and which points of a chosen step size."""

import itertools

import numpy as np

from mdfl_jax.report.registry import FIGURES
from mdfl_jax.results.results import Results
from tests.report.conftest import write_workdir
from tests.report.made_report import edit

RADII, RATES = (1.0, 10.0, 100.0), (0.1, 0.2, 0.4)


def by(path, values, rules=("static", "dcm")):
    return [{"network.mobility": rule, path: value} for rule, value in itertools.product(rules, values)]


def test_a_line_for_each_rule_has_the_means_and_stands_beside_its_values(study):
    run = study(by("network.radius", RADII), seeds=3, rounds=10, positions=False)
    drawn = FIGURES["response"].draw(run)
    assert drawn.axes[0].get_xscale() == "log"
    rows = FIGURES["response"].numbers(run)[1:]
    means = [point["final_accuracy"]["mean"] for point in run.outcomes]
    assert [row[1] for row in rows] == ["static"] * 3 + ["dcm"] * 3
    np.testing.assert_allclose([row[5] for row in rows], 100 * np.array(means))
    np.testing.assert_allclose([row[3] for row in rows], [*RADII, *RADII], rtol=0.03)
    assert rows[0][3] < RADII[0] < rows[3][3]  # the intervals do not cover each other
    endless = study(by("network.radius", (1.0, 2.0, "inf")), seeds=3, rounds=10, positions=False)
    assert FIGURES["response"].draw(endless).axes[0].get_xticklabels()[2].get_text() == "inf"


def test_step_sizes_that_select_has_chosen_are_all_shown(tmp_path):
    folder = write_workdir(tmp_path / "run", by("algorithm.lr", RATES), seeds=3, rounds=10, positions=False)
    edit(folder, selected=[{"id": "static-0.2", "at_edge": False}, {"id": "dcm-0.1", "at_edge": True}])
    run = Results.read(edit(folder, "config", config=lambda of: of | {"select": "algorithm.lr"})).shown()
    assert run.points == ["static-0.2", "dcm-0.1"]
    (panel,) = FIGURES["response"].chart(run).data["panels"]
    assert [len(line["x"]) for line in panel["traces"]] == [3, 3]
    assert "against lr" in FIGURES["response"].caption(run)
    assert not FIGURES["response"].applies(
        Results.read(edit(folder, "config", config=lambda of: of | {"select": ""})).only([0])
    )
