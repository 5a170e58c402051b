"""How soon FedMobile's algorithms learn: means over the slots, slots to a level, claims, tables; made-up curves."""

import json

import numpy as np
import pytest

from benchmarks.papers.curves import Curves, saved, slots_to, sooner
from benchmarks.papers.fedmobile import BASE, FULL
from benchmarks.papers.items import AGREES, DIFFERS, UNKNOWN
from benchmarks.papers.studies import Study

SLOTS = np.array([0, 10, 20, 30])
RISING = np.array([[0, 20, 40, 60], [0, 20, 40, 50]], float)  # two seeds
FASTER = np.array([[0, 40, 60, 70], [0, 30, 60, 60]], float)
AGAIN = {"server.pattern": "fixed"}


@pytest.fixture
def curves(tmp_path):
    """ASYNC, FedMobile-U with two numbers of relays, and FedMobile, under fixed intervals; ASYNC again under random."""
    settings = [
        {**AGAIN, "algorithm.name": "async_fl", "algorithm.max_upload": 0},
        {**AGAIN, "algorithm.name": "fedmobile_u", "algorithm.max_upload": 1},
        {**AGAIN, "algorithm.name": "fedmobile_u", "algorithm.max_upload": 2},
        {**AGAIN, "algorithm.name": "fedmobile", "algorithm.max_upload": 1},
        {"server.pattern": "random", "algorithm.name": "async_fl", "algorithm.max_upload": 0},
    ]
    final = {"mean": 0.6, "ci95": 0.1, "per_seed": [0.6, 0.5]}
    points = [{"overrides": s, "final_accuracy": final, "bits_sent_per_client": 2e6} for s in settings]
    (tmp_path / "summary.json").write_text(json.dumps({"points": points}))
    accuracy = np.stack([RISING, RISING + 1, RISING + 2, FASTER, FASTER])
    return Curves(Study(tmp_path), SLOTS, accuracy)


ASYNC = {**BASE, "pattern": "fixed"}


def test_the_mean_is_over_the_slots_and_not_over_the_first_model(curves):
    np.testing.assert_allclose(curves.mean(**ASYNC), [40, 110 / 3])
    np.testing.assert_allclose(curves.mean(10, 30, **ASYNC), [50, 45])
    np.testing.assert_allclose(curves.mean(0, 10, **ASYNC), [20, 20])


def test_claims_are_paired_by_seed(curves):
    claim = sooner(curves, FULL, ASYNC, "FedMobile over ASYNC")
    assert claim.ours["mean"] == pytest.approx(np.mean([50 / 3, 40 / 3]))
    one = {"name": "fedmobile_u", "max_upload": 1}  # one point more than ASYNC, for every seed
    verdicts = [sooner(curves, one, ASYNC, "FedMobile-U", sign).verdict for sign in (1, -1)]
    assert verdicts == [AGREES, DIFFERS]


def test_slots_to_a_level_leave_out_seeds_that_never_have_it(curves):
    np.testing.assert_array_equal(curves.reached(60, **ASYNC), [30, np.nan])
    np.testing.assert_array_equal(curves.reached(0, **ASYNC), [0, 0])
    claim = slots_to(curves, 60, ASYNC, "ASYNC's slots to 60 %", 178)
    assert (claim.ours["mean"], claim.told) == (30, "1 of 2 seeds")
    assert slots_to(curves, 90, ASYNC, "to 90 %").verdict == UNKNOWN
    share = saved(curves, 40, FULL, ASYNC, "fewer slots", 35.4)
    assert share.ours["mean"] == pytest.approx(100 * np.mean([1 - 10 / 20, 1 - 20 / 20]))
    assert saved(curves, 60, FULL, ASYNC, "fewer slots").told == "1 of 2 seeds"
