"""The matrix of settings by rivals: what is compared with what, where, and what the panel says of it."""

import itertools

import numpy as np
import pytest

from mdfl_jax.contrib.panels.rivals import END, matrix_of, measures, paired_differences, reference_of, tally
from mdfl_jax.report.registry import FIGURES
from mdfl_jax.results.statistics import simultaneous

RULES, RADII = ("static", "dam", "dcm"), (1.0, 3.0)
POINTS = [{"network.radius": radius, "network.mobility": rule} for radius, rule in itertools.product(RADII, RULES)]


@pytest.fixture
def run(study):
    return study(POINTS, seeds=4, rounds=20, positions=False)


def test_rows_are_settings_and_columns_the_values_that_the_study_compares(run, study):
    found = matrix_of(run)
    assert (found.rivals, found.settings) == (list(RULES), ["radius = 1", "radius = 3"])
    np.testing.assert_array_equal(found.point, [[0, 1, 2], [3, 4, 5]])
    for points in (
        [{"network.mobility": rule} for rule in RULES],  # one setting
        [{"network.radius": r, "network.mobility": rule} for r in RADII for rule in RULES[:2]],  # two rivals
        [{"network.radius": r, "network.num_mobile": m} for r in RADII for m in (1, 2, 3)],  # numbers alone
    ):
        assert not FIGURES["rivals"].applies(study(points, seeds=2, rounds=20, positions=False)), points
    for point in run.outcomes:
        point["baseline"] = run.outcomes[found.point[POINTS.index(point["overrides"]) // 3, 2]]["id"]
    assert found.rivals[reference_of(run, found)] == "dcm"


def test_differences_at_the_end_are_paired_by_seed_and_one_family(run, study):
    values = measures(run, matrix_of(run))[END]
    for p, point in enumerate(run.outcomes):
        np.testing.assert_allclose(values[p // 3, p % 3], 100 * np.array(point["final_accuracy"]["per_seed"]))
    found = paired_differences(values, 1)
    expected = simultaneous(np.stack([values[r, c] - values[r, 1] for r in range(2) for c in (0, 2)], axis=1))
    np.testing.assert_allclose(found.mean[:, [0, 2]].ravel(), expected.mean)
    np.testing.assert_allclose(found.half[:, [0, 2]].ravel(), expected.half)
    assert np.isnan(found.mean[:, 1]).all()
    lacking = study(POINTS[:-1], seeds=4, rounds=20, positions=False)
    found = paired_differences(measures(lacking, matrix_of(lacking))[END], 0)
    assert np.isnan(found.mean[1, 2])  # a rival that a setting lacks is not compared
    assert tally(found)[2].tolist() == [0, 2, 1]
