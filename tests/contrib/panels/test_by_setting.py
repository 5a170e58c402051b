"""The panels of sweeps: lines along a number, heat maps, thresholds and step sizes."""

import itertools

import numpy as np
import pytest

from mdfl_jax.contrib.panels import by_setting
from mdfl_jax.contrib.panels.by_setting import crossings
from mdfl_jax.report.registry import FIGURES

MOVES, RADII, SIZES = ("dcm", "static"), (1.0, 2.0, 3.0, 4.0), (0.01, 0.1, 1.0)


def sweep(**axes):
    paths = [name.replace("__", ".") for name in axes]
    return [dict(zip(paths, values)) for values in itertools.product(*axes.values())]


TWO = sweep(network__mobility=MOVES, network__radius=(3.0, 1.0, 10.0))
THREE = sweep(network__mobility=MOVES, network__radius=RADII, algorithm__lr=SIZES)


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


def test_a_heat_map_has_the_mean_accuracy_of_each_pair(run_of):
    run = run_of(sweep(network__mobility=("dcm", "random_movement"), network__radius=(3.0, 1.0, 10.0)))
    (panel,) = FIGURES["heat_map"].chart(run).data["panels"]
    cells, numbers = panel["traces"]
    means = {(p["overrides"]["network.mobility"], p["overrides"]["network.radius"]): p for p in run.outcomes}
    expected = [
        [100 * means[m, r]["final_accuracy"]["mean"] for r in (1.0, 3.0, 10.0)] for m in ("dcm", "random_movement")
    ]
    np.testing.assert_allclose(cells["z"], expected)
    assert (panel["xaxis"]["ticktext"], panel["yaxis"]["ticktext"]) == (["1", "3", "10"], ["dcm", "random movement"])
    texts = [f"{value:.1f}" for row in expected for value in row]
    np.testing.assert_array_equal(numbers["text"], texts)
    np.testing.assert_array_equal(np.stack([numbers["y"], numbers["x"]], 1), list(np.ndindex(2, 3)))
    axes = by_setting.heat_map(run).axes[0]
    np.testing.assert_allclose(axes.images[0].get_array(), expected)
    assert [text.get_text() for text in axes.texts] == texts
    (panel,) = FIGURES["heat_map"].chart(run_of(TWO[:-1])).data["panels"]
    assert np.isnan(panel["traces"][0]["z"]).sum() == 1  # a missing pair is an empty cell


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
