"""The panels of sweeps: where the line of a point crosses the threshold."""

import pytest

from mdfl_jax.contrib.panels.by_setting import crossings
from mdfl_jax.report.registry import FIGURES

RADII = (1.0, 2.0, 3.0, 4.0)


@pytest.fixture
def run_of(study):
    """Returns run_of(points, means, baseline=None): a study with these sweep points and mean final accuracies."""

    def made(points, means=(), seeds=2, baseline=None):
        run = study(points, seeds=seeds, rounds=10, positions=False)
        for point, mean in zip(run.outcomes, means):
            point["final_accuracy"] |= {"mean": mean, "ci95": 0.01}
            point["baseline"] = baseline
        return run

    return made


def by(mobility, values, path="network.radius"):
    return [{"network.mobility": mobility, path: value} for value in values]


TO_INFINITY = by("static", (1.0, 2.0, 3.0, "inf")) + by("dcm", (1.0, 2.0, 3.0, "inf"))
THRESHOLDS = [  # the threshold, where the line from point to point crosses it first, and whether it begins above
    (
        by("static", RADII) + by("dcm", RADII),
        [0.2, 0.3, 0.4, 0.5, 0.4, 0.6, 0.8, 0.6],
        None,
        [(0.72, None, False), (0.72, 2.6, False)],
    ),
    (by("static", (1.0, 10.0, 100.0)), [0.0, 0.4, 0.5], None, [(0.45, 10 * 10**0.5, False)]),  # a logarithmic axis
    (by("static", RADII), [0.2, 0.3, 0.4, 0.5], "static-3.0", [(0.36, 2.6, False)]),  # of the baseline
    (TO_INFINITY, [0.2, 0.4, 0.45, 0.5, 0.8, 0.8, 0.9, 0.6], None, [(0.45, 3.0, False), (0.54, None, True)]),
]


def test_the_threshold_is_nine_tenths_of_the_reference(run_of):
    for points, means, baseline, expected in THRESHOLDS:
        run = run_of(points, means, baseline=baseline)
        for found, (threshold, at, is_above) in zip(crossings(run)[1], expected, strict=True):
            assert (found.threshold, found.is_above) == (pytest.approx(threshold), is_above), points
            assert found.is_above or found.at == (at and pytest.approx(at)), points
    assert "The mean reaches it static: at 3; dcm: from the start." in FIGURES["threshold"].caption(run)
