"""The tables of studies, from made-up results with known differences."""

import numpy as np
from scipy.stats import binom

from benchmarks import quoted_adversaries, quoted_clocks

NOISE = np.tile((-0.5, 0.5), 10)  # exact in binary


def test_a_row_is_marked_where_it_differs_from_its_reference_of_the_same_seeds(monkeypatch):
    def row(level, noise=NOISE, seconds=300.0):
        return {"accuracy": list(level + noise), "seconds": [seconds] * 11 + [None] * 9}

    lost = row(70.0) | {"seconds": [None] * 20}
    lost["accuracy"][:2] = [None, None]
    found = {
        ("dpsgd", "drop"): (row(90.0), row(50.0)),
        ("dpsgd", "largest"): (row(90.25), row(90.0)),  # the noise is that of the reference: the difference is exact
        ("pame", "drop"): (row(89.0, 20 * NOISE), lost),
        ("local_only", "drop"): (row(80.0), row(50.0, -NOISE)),
    }
    rows = [
        {"algorithm": name, "short_contact": short, "transmission": 1, "model": model} | of
        for (name, short), both in found.items()
        for model, of in zip(("linear", "cnn"), both)
    ]
    monkeypatch.setattr(quoted_clocks, "results", lambda name: {"rows": rows})
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in quoted_clocks.radio_table()[2:]]
    assert [line[1:] for line in cells] == [
        ["90.0, 300 s", "50.0, 300 s"],
        ["90.2 +, 300 s", "90.0 +, 300 s"],
        ["89.0, 300 s", "2 of 20 diverged, later"],
        ["80.0 -, 300 s", "50.0, 300 s"],
    ]


def test_the_worst_attack_of_a_rule_is_that_of_its_means_and_a_seed_counts_once(monkeypatch):
    level = {("krum", ""): 99.0, ("krum", "zero"): 80.0, ("krum", "replay"): 70.0, ("median", "zero"): 90.0}
    rows = [
        {"at": {"algorithm.aggregation": rule, "attack.name": attack}, "accuracy": list(mean + 40 * NOISE)}
        for (rule, attack), mean in level.items()
    ]
    rows.append({"at": {"algorithm.aggregation": "median", "attack.name": "replay"}, "accuracy": [None] * 20})
    monkeypatch.setattr(quoted_adversaries, "results", lambda name: {"rows": rows})
    monkeypatch.setattr(quoted_adversaries, "RULES", ("median", "krum"))
    monkeypatch.setattr(quoted_adversaries, "ATTACKS", ("zero",))
    monkeypatch.setattr(quoted_adversaries, "MORE_ATTACKS", ("replay",))
    low, high = 50 + 2 * binom.ppf((0.025, 0.975), 20, 0.5)  # of ten seeds at 50 and ten at 90
    assert quoted_adversaries.worst()[2:] == [
        f"| `krum` | 70.0 ({low:.1f} to {high:.1f}) | `replay` | 50.0 | 10 of 20 |"
    ]
