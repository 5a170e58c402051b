"""What `benchmarks.arena` says of a study, against means in NumPy."""

import numpy as np
from scipy import stats

from benchmarks import arena
from mdfl_jax.contrib.panels.rivals import Matrix
from mdfl_jax.results.axes import Axis

SETTINGS = ["num mobile = 1, radius = 2", "num mobile = 3, radius = 2"]
RULES = ["waypoint", "dcm", "waiting"]


def values():
    """Accuracies [2 settings, 3 rules, 12 seeds]: waiting leads by 5, waypoint trails only in the second setting."""
    rng = np.random.default_rng(0)
    ease = rng.normal(60, 5, (2, 1, 12))
    lead = np.array([[0, 0, 5], [-4, 0, 5]])[..., None]
    return ease + lead + rng.normal(0, 0.3, (2, 3, 12))


MATRIX = Matrix(Axis("network.mobility", "mobility", (*RULES, *RULES)), RULES, SETTINGS, np.arange(6).reshape(2, 3))


def test_a_rival_is_judged_by_its_differences_seed_by_seed():
    waypoint, dcm, waiting = arena.judged(values(), MATRIX, 1)["rows"]
    of_seed = (values()[:, 2] - values()[:, 1]).mean(axis=0)
    low, high = stats.t.interval(0.95, 11, of_seed.mean(), stats.sem(of_seed))
    np.testing.assert_allclose(waiting["difference"]["mean"], of_seed.mean())
    np.testing.assert_allclose(waiting["difference"]["half"], (high - low) / 2, rtol=1e-3)
    assert [waiting[key] for key in ("better", "worse", "of")] == [2, 0, 2]
    assert [waypoint[key] for key in ("better", "worse", "of")] == [0, 1, 2]
    assert "difference" not in dcm
    np.testing.assert_allclose(dcm["level"], values()[:, 1].mean())
