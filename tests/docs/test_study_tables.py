"""The tables of studies, from made-up results with known differences."""

import numpy as np
from scipy.stats import binom

from benchmarks import quoted_adversaries, quoted_clocks, quoted_private
from configs.private import EPSILONS, MOVEMENTS, TARGET

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


def test_the_tables_of_privacy_have_the_mean_of_the_seeds_for_each_epsilon_and_kind_of_clients(monkeypatch):
    """An accuracy of 10 for the algorithm, 1 for the movement, 0.1 for the epsilon; the seeds' deviations cancel."""
    rows = [
        {"study": "gradients", "algorithm": name, "movement": movement, "target": target}
        | {"accuracy": list(10 * (n + 1) + m + 0.1 * e + NOISE)}
        | {key: {"mobile": list(m + NOISE), "static": [7.0] * 20} for key in ("epsilon", "epsilon_pairs")}
        for n, name in enumerate(("dpsgd", "pame"))
        for m, movement in enumerate(MOVEMENTS)
        for e, target in enumerate(EPSILONS)
    ]
    of_messages = {"epsilon": {"mobile": [2.0, 3.0], "static": [1.0, 1.0]}}
    rows += [row | {"study": "messages"} | of_messages for row in rows if row["target"] == TARGET]
    monkeypatch.setattr(quoted_private, "results", lambda name: {"rows": rows})
    assert quoted_private.accuracies()[3] == (
        "| `random_movement` | 11.0, 11.1, 11.2, 11.3, 11.4 | 21.0, 21.1, 21.2, 21.3, 21.4 |"
    )
    assert quoted_private.spending()[4] == "| `dcm` | 2.00, 7.00 | 2.00, 7.00 | 2.50, 1.00 |"
