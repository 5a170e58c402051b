"""Thresholds and gains of MADFL's and DADFL's items, on a made-up study."""

import json

import pytest

from benchmarks.papers import mobility
from benchmarks.papers.items import AGREES, DIFFERS, UNDECIDED
from benchmarks.papers.studies import Study

BEST = {"dcm": (0.5, 0.8, 0.9, 0.91), "random_movement": (0.4, 0.6, 0.7, 0.85)}  # at Rc = 1, 2, 3, infinity: 0.95
RADII = (1, 2, 3, 4)


def made_up(tmp_path, apart):
    """A study of two seeds; those of the fully connected network are alike if ``apart`` is not."""
    points = []
    for rule, values in BEST.items():
        for radius, value in [*zip(RADII, values), ("inf", 0.95)]:
            seeds = [value - 0.01, value + 0.01] if not apart or radius != "inf" else [value, value]
            overrides = {"network.num_mobile": 3, "network.radius": radius, "network.max_step": 5.0}
            points.append(
                {
                    "id": f"{radius} {rule}",
                    "overrides": overrides | {"network.mobility": rule},
                    "best_accuracy": {"mean": value, "ci95": 0.1, "per_seed": seeds},
                    "final_accuracy": {"mean": value, "ci95": 0.1, "per_seed": seeds},
                    "diverged": {},
                }
            )
    (tmp_path / "summary.json").write_text(json.dumps({"points": points}))
    return Study(tmp_path)


@pytest.fixture
def study(tmp_path):
    return made_up(tmp_path, apart=False)


@pytest.fixture
def noisy(tmp_path):
    return made_up(tmp_path, apart=True)


SETTINGS = [mobility.world(3, radius, 5) for radius in RADII]
FULL = mobility.world(3, "inf", 5)


def test_the_threshold_is_90_percent_of_the_fully_connected_network(study):
    """0.9 x 0.95 = 0.855: DCM reaches it at Rc = 3, random movement (0.85 at 4) never."""
    claims = mobility.thresholds(study, "M = 3", "radius", SETTINGS, FULL, (3, 3))
    assert [claim.verdict for claim in claims] == [AGREES, AGREES, DIFFERS]
    assert [claim.told for claim in claims] == ["DCM 3, random movement never (4 to never)", "3", "never (4 to never)"]
    assert claims[2].text == "Rc needed, M = 3: random movement 3"


def test_a_threshold_that_depends_on_the_seeds_is_undecided(noisy):
    """The interval of two seeds that are 0.02 apart is +- 0.127: DCM at Rc = 2 or never, random at 4 or never."""
    claims = mobility.thresholds(noisy, "M = 3", "radius", SETTINGS, FULL, (2, 3))
    assert [claim.told for claim in claims][1:] == ["3 (2 to never)", "never (4 to never)"]
    assert [claim.verdict for claim in claims] == [UNDECIDED, UNDECIDED, DIFFERS]
