"""What `benchmarks.arena` says of a study, against means in NumPy."""

import numpy as np
from scipy import stats

from benchmarks import arena, beside
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


def test_rivals_beside_another_study_are_paired_by_setting_and_seed(monkeypatch):
    """The other study has the settings in another order, and a setting of its own, which is given."""
    ours, theirs = np.random.default_rng(1).normal(60, 5, (6, 12)), np.random.default_rng(2).normal(50, 5, (4, 12))
    of = lambda rule, radius, **own: {"network.mobility": rule, "network.radius": radius} | own  # noqa: E731
    here = [of(rule, radius) for radius in (1.0, 2.0) for rule in RULES]
    there = [of("dcm", radius, **{"network.movers": who}) for who in ("first", "least") for radius in (2.0, 1.0)]

    class Study:
        def __init__(self, points):
            self.outcomes = [{"overrides": point} for point in points]
            self.manifest, self.config = {"seeds": list(range(12))}, {"name": "other"}

        def shown(self):
            return self

    accuracies = {"ours": ours, "theirs": theirs}
    monkeypatch.setattr(beside, "accuracy_with_data", lambda made, run: accuracies[made])
    monkeypatch.setattr(beside.Results, "read", lambda made: Study(there))
    fixed = beside.parsed("network.mobility=dcm,network.movers=least")
    found = beside.beside("ours", Study(here), MATRIX, "theirs", fixed)
    by_hand = (ours[2] - theirs[3] + ours[5] - theirs[2]) / 2  # waiting, radius 1 and 2
    np.testing.assert_allclose(found["rows"][2]["difference"]["mean"], by_hand.mean())
    low, high = stats.t.interval(0.95, 11, by_hand.mean(), stats.sem(by_hand))
    np.testing.assert_allclose(found["rows"][2]["difference"]["half"], (high - low) / 2, rtol=1e-3)
