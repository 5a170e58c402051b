"""What `benchmarks.arena` says of a study, against means in NumPy, and the tables that pages quote of it."""

import numpy as np
import pytest
from scipy import stats

from benchmarks import arena, quoted_arena
from mdfl_jax.errors import UserError
from mdfl_jax.report.rivals import END, Matrix
from mdfl_jax.report.settings import Axis

SETTINGS = ["num mobile = 1, radius = 2", "num mobile = 3, radius = 2"]
RULES = ["waypoint", "dcm", "waiting"]


def values():
    """Accuracies [2 settings, 3 rules, 12 seeds]: waiting leads by 5, waypoint trails only in the second setting."""
    rng = np.random.default_rng(0)
    ease = rng.normal(60, 5, (2, 1, 12))
    lead = np.array([[0, 0, 5], [-4, 0, 5]])[..., None]
    return ease + lead + rng.normal(0, 0.3, (2, 3, 12))


def found():
    axis = Axis("network.mobility", "mobility", (*RULES, *RULES))
    matrix = Matrix(axis, RULES, SETTINGS, np.arange(6).reshape(2, 3))
    at_end = [arena.judged(values(), matrix, 1), arena.judged(values(), matrix, 0)]
    return {"settings": SETTINGS, "measures": {END: at_end, "worst client at the end": at_end[:1]}}


def test_a_rival_is_judged_by_its_differences_seed_by_seed():
    waypoint, dcm, waiting = found()["measures"][END][0]["rows"]
    of_seed = (values()[:, 2] - values()[:, 1]).mean(axis=0)
    low, high = stats.t.interval(0.95, 11, of_seed.mean(), stats.sem(of_seed))
    np.testing.assert_allclose(waiting["difference"]["mean"], of_seed.mean())
    np.testing.assert_allclose(waiting["difference"]["half"], (high - low) / 2, rtol=1e-3)
    assert [waiting[key] for key in ("better", "worse", "of")] == [2, 0, 2]
    assert [waypoint[key] for key in ("better", "worse", "of")] == [0, 1, 2]
    assert "difference" not in dcm
    np.testing.assert_allclose(dcm["level"], values()[:, 1].mean())


def test_the_tables_have_the_best_first_and_sure_differences_in_bold(monkeypatch):
    monkeypatch.setattr(quoted_arena, "results", lambda name: found())
    header, _, first, second, third = quoted_arena.of_arena("arena_x")
    assert header == "| rule | accuracy (%) | over `dcm` | better, worse in | over `waypoint` | worst client |"
    assert first.startswith("| `waiting` | ")
    assert "| +5.0 ± 0.1 | 2, 0 of 2 | +7.1 ± 0.1 |" in first
    assert second.startswith("| `dcm` | ")
    assert third.startswith("| `waypoint` | ")
    _, _, one, three = quoted_arena.of_arena("arena_x, settings")
    assert one.startswith("| M 1, Rc 2 | ")
    assert one.count("**") == 2
    assert three.count("**") == 4
    with pytest.raises(UserError, match="unknown table of arena_x 'setting'"):
        quoted_arena.of_arena("arena_x, setting")
