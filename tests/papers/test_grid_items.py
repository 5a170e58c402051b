"""MADFL's and DADFL's items find every sweep point that their claims compare, on made-up studies of the presets."""

import importlib

import pytest

from benchmarks.papers import catalogue
from benchmarks.papers.items import AGREES, ITEMS, SIGN, UNKNOWN
from benchmarks.papers.studies import Study
from mdfl_jax.config.points import points
from mdfl_jax.config.resolve import resolve
from mdfl_jax.core.outcomes import with_seeds

catalogue.load()
NAMES = [name for name in ITEMS if name.partition(":")[0] in ("madfl", "dadfl")]
MOVING = {"static": 0.0, "random_movement": 1.0, "dam": 1.2, "dcm": 1.3}
MOST = 0.94


def accuracy(experiment):
    """What the papers say: each rule is above the one before it, and M, Rc, Rm and alpha help, Rm less and less."""
    network = experiment.network
    reach = min(network.radius, 6) / 6
    steps = min(network.max_step, 12) / (4 + min(network.max_step, 12))
    moved = MOVING[network.mobility] * min(network.num_mobile, 10) ** 0.5 * steps * (1 - reach) ** 2
    severity = 1 if experiment.data.alpha >= 0.1 else 1.5 - 0.2 * MOVING[network.mobility]
    return MOST - 0.5 * (1 - reach) * severity + 0.2 * min(moved, 2)


class MadeUp(Study):
    """A study in which an accuracy follows from the setting alone, a little different for each seed."""

    def __init__(self, preset):
        stem, _, name = preset.partition(":")
        config = importlib.import_module(f"configs.{stem}").get_config(f"{name},scale=small")
        self.points = []
        for point in points(resolve(config)):
            value = with_seeds([accuracy(point.experiment) + 0.001 * seed for seed in range(3)])
            numbers = {"final_accuracy": value, "best_accuracy": value, "diverged": {}}
            self.points.append({"id": point.id, "overrides": point.overrides, **numbers})


class Made:
    """In the place of `Studies`."""

    def __init__(self):
        self.used = set()

    def __call__(self, preset):
        self.used.add(preset)
        return MadeUp(preset)


@pytest.mark.parametrize("name", NAMES)
def test_an_item_measures_all_claims_of_its_own_presets(name):
    made = Made()
    tables, claims = ITEMS[name].make(made)
    assert made.used == set(ITEMS[name].presets)
    assert {c.told for c in claims if c.verdict == UNKNOWN} <= {"DCM never, random movement never"}
    assert len({claim.text for claim in claims}) == len(claims)
    assert tables
    for title, header, rows in tables:
        assert rows
        assert all(len(row) == len(header) for row in rows), title


@pytest.mark.parametrize("name", ["madfl:t2", "madfl:f2", "madfl:f3", "madfl:f6", "dadfl:f2", "dadfl:f3", "dadfl:f5"])
def test_a_world_as_the_papers_say_has_no_claim_of_another_sign(name):
    claims = ITEMS[name].make(Made()).claims
    assert {claim.text: claim.verdict for claim in claims if claim.verdict not in (AGREES, SIGN)} == {}


def test_what_more_heterogeneous_data_costs_is_the_papers_difference():
    """MADFL V-B3 names 19.34 and 14.00 points; DAM and DCM lose 8.66 and 8.82, from table II."""
    sizes = {claim.text: claim.paper for claim in ITEMS["madfl:t2"].make(Made()).claims if "instead of" in claim.text}
    assert list(sizes.values()) == [19.34, 14.0, round(14 - 8.66, 2), round(14 - 8.82, 2)]
