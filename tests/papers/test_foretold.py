"""What theory foretells of a claim: only what follows from B whatever form the dependence on it has."""

import numpy as np
import pytest

from benchmarks.papers import catalogue, foretold
from benchmarks.papers.foretold import Networks, foretell

catalogue.load()
RNG = np.random.default_rng(0)


def spread(middle):
    return middle * RNG.uniform(0.9, 1.1, 50)


@pytest.fixture
def table_2(monkeypatch):
    """Networks of MADFL's table II with given values of B: DCM connects soonest, and alpha changes only DAM's."""

    def effective(config, seeds):
        of_rule = {"static": np.full(50, np.inf), "random_movement": spread(30.0), "dam": spread(20), "dcm": spread(9)}
        mild = of_rule | {"dam": of_rule["random_movement"] * RNG.uniform(0.5, 1.6, 50)}
        return [
            ({"id": f"{rule} {alpha}", "overrides": {"network.mobility": rule, "data.alpha": alpha}}, b)
            for alpha, rules in ((0.05, of_rule), (0.1, mild))
            for rule, b in rules.items()
        ]

    monkeypatch.setattr(foretold, "effective", effective)
    return foretell("madfl:t2", Networks("small", 50))


def test_claims_have_the_signs_that_follow_from_b(table_2):
    signs = {text: claim["sign"] for text, claim in table_2.items()}
    assert signs["DCM over random movement, alpha 0.05"] == signs["DAM over random movement, alpha 0.05"] == 1
    assert signs["random movement over static clients, alpha 0.1"] == 1
    assert signs["DAM over random movement, alpha 0.1"] == 0  # within its interval
    assert signs["alpha 0.05 instead of 0.1 costs static clients"] == 0  # infinite under both
    ours = table_2["random movement over static clients, alpha 0.05"]
    assert 1 / 33 < ours["mean"] < 1 / 27


def test_a_sign_that_the_form_of_the_dependence_decides_is_left_open():
    def lead(power):  # from B = 2 to 4, less one and a half times that from 10 to 40
        return {"mean": 2.0**-power - 4.0**-power - 1.5 * (10.0**-power - 40.0**-power), "ci95": 1e-3}

    assert {np.sign(lead(power)["mean"]) for power in foretold.EXPONENTS} == {-1, 1}
    assert foretold.sign_of([lead(power) for power in foretold.EXPONENTS]) == 0
