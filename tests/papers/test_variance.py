"""The components of the variance over seeds: their estimates against simulation, the studies, the tables."""

import numpy as np
import pytest

from benchmarks.papers import components, variance
from benchmarks.papers.components import BUT, ONLY, component, deviation
from mdfl_jax.config.points import points
from mdfl_jax.config.resolve import resolve


def test_an_interval_holds_the_true_deviation_in_19_of_20_studies():
    rng, inside, studies = np.random.default_rng(0), 0, 4000
    means = np.array([[10.0], [-3.0], [0.0]])
    for _ in range(studies):
        low, high = deviation(list(rng.normal(means, 2.5, (3, 4)))).interval
        inside += low < 2.5 < high
    assert inside / studies == pytest.approx(0.95, abs=0.011)  # 3.2 standard errors


def of_rules(random, dam, dcm):
    values = {"random_movement": random, "dam": dam, "dcm": dcm}
    return lambda rule: np.array(values[rule])


def test_differences_are_paired_within_each_group():
    groups = [of_rules([1.0, 2.0, 4.0], [2.0, 3.0, 5.0], [1.0, 4.0, 4.0]), of_rules([9.0, 7.0], [9.5, 7.5], [9.0, 8.0])]
    entry = component("full gradient", ONLY, "init", groups)
    found = entry["deviations"]
    assert found["DAM - random"]["std"] == pytest.approx(
        0
    )  # 1 under each seed of a group, 0.5 under those of the other
    assert found["DCM - random"]["std"] == pytest.approx(deviation([np.array([0, 2, 0]), np.array([0, 1])]).std)
    assert {of["degrees"] for of in found.values()} == {3}
    assert found["DCM"]["low"] < found["DCM"]["std"] < found["DCM"]["high"]


@pytest.mark.parametrize("setting", [variance.FULL, variance.MINIBATCH])
def test_no_run_has_a_seed_of_what_is_held_and_each_component_has_as_many_runs(setting):
    whole = variance.base("small", setting)
    part = variance.held(whole, ["init", "mobility"])
    assert whole.first_seed == part.first_seed == variance.HELD
    assert part.seeds * variance.HELD == whole.seeds
    found = points(resolve(part))
    cases = {point.experiment.vary for point in found}
    assert cases == {"init", "mobility", f"{BUT} init", f"{BUT} mobility"}
    assert {point.experiment.held_seed for point in found} == set(range(variance.HELD))
    assert len(found) == len(cases) * variance.HELD * len(components.RULES)
    assert len(points(resolve(whole))) == len(components.RULES)
    assert (whole.algorithm.batch_size > 0) == (setting == variance.MINIBATCH)
    assert whole.rounds * whole.algorithm.lr == pytest.approx(1000 * 0.03)  # the length of all steps is the paper's
