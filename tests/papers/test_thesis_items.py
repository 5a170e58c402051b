"""The items of the thesis on a made-up study: growth, leads and gains by the share of fast clients."""

import json

import numpy as np
import pytest

from benchmarks.papers import shares, thesis
from benchmarks.papers.items import AGREES, SIGN
from benchmarks.papers.shares import ByShare
from benchmarks.papers.studies import Study
from configs.thesis_digits import PERCENT

COUNTS = dict(zip(PERCENT, (0, 2, 10, 19, 29, 38, 48)))
NOISE = np.array([-0.001, 0.0, 0.001])  # of three seeds, alike at all points: paired differences have no interval


def statistic(values):
    return {"mean": float(np.mean(values)), "ci95": 0.1, "per_seed": list(map(float, values))}


def point(axis, share, other, accuracy, lead):
    return {
        "overrides": {"network.num_mobile": COUNTS[share], **({axis: other} if axis else {})},
        "final_accuracy": statistic(accuracy + NOISE),
        "group_gap": {"mean": statistic(lead + NOISE if share in shares.BOTH else NOISE * np.nan)},
        "diverged": {},
    }


def grid(percents, ratios, axis="network.ratio"):
    """Accuracy 0.5 + p / 1000 - a / 50 (2 points are lost at a = 1); leads fall from 4 points by 0.04 a per cent."""
    return [point(axis, p, a, 0.5 + p / 1000 - (a or 0) / 50, 0.04 - p / 2500) for p in percents for a in ratios]


@pytest.fixture
def studies(tmp_path):
    """A function as `Studies` is: (preset) -> study."""
    made = {"thesis:algorithm_1": grid((0, 20, 100), (None,), "")}

    def of(preset):
        folder = tmp_path / preset.replace(":", "-")
        folder.mkdir(exist_ok=True)
        found = made.get(preset, grid((0, 5, 20, 40, 80, 100), (0.0, 0.2, 1.0)))
        (folder / "summary.json").write_text(json.dumps({"points": found}))
        return Study(folder)

    return of


def test_columns_are_paired_and_belong_to_their_shares(studies):
    found = ByShare(studies("thesis:t1").points)
    assert found.shares == (0, 5, 20, 40, 80, 100)
    assert found.others == (0.0, 0.2, 1.0)
    growth = found.growth(0.0)
    assert {p: round(s["mean"], 6) for p, s in growth.items()} == {5: 0.5, 20: 2.0, 40: 4.0, 80: 8.0, 100: 10.0}
    assert max(s["ci95"] for s in growth.values()) < 1e-9  # paired by seed
    assert {p: round(s["mean"], 6) for p, s in found.lead(0.0).items()} == {5: 3.8, 20: 3.2, 40: 2.4, 80: 0.8}
    assert found.gain(1.0, 0.0)[40]["mean"] == pytest.approx(-2)
    assert found.lead_change(1.0, 0.0)[80]["mean"] == pytest.approx(0)


def test_small_ratios_are_negligible_and_speed_alone_costs(studies):
    outcome = thesis.table_7(studies)
    (negligible,) = outcome.claims  # a = 1 is table 4
    assert negligible.verdict == AGREES
    assert negligible.told == "-0.40 to -0.40 points"
    by_ratio = thesis.table_4(studies)
    assert {claim.verdict for claim in by_ratio.claims[:-1]} == {SIGN}
    assert {claim.verdict for claim in thesis.table_8(studies).claims[1:]} <= {SIGN, AGREES}
    assert by_ratio.claims[-1].text == "the loss is largest at p = 20 %"
