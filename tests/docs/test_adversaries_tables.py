"""The tables of the studies of attackers, from made-up results with known differences."""

import numpy as np
import pytest

from benchmarks import quoted_adversaries as quoted
from configs import attacked

SEEDS = 20
NOISE = np.tile((-0.5, 0.5), SEEDS // 2)  # exact in binary
REACH = {"static": -30.0, "dcm": 20.0}  # beside random movement


def values(level):
    """Values that differ between seeds alike at all points, so that paired differences are exact."""
    return list(level + NOISE)


def made_of_rules():
    """Without an attack each rule has 90 but the geometric median 80; attacks leave 20 to the mean, 60 to others."""
    rows = []
    for rule in attacked.RULES:
        for attack in ("", *attacked.ATTACKS, *attacked.MORE_ATTACKS):
            level = (20.0 if rule == "mean" else 60.0) if attack else 80.0 if rule == "geometric_median" else 90.0
            rows.append({"at": {attacked.RULE: rule, attacked.ATTACK: attack}, "accuracy": values(level)})
            rows[-1] |= {"fell_back": 43.0} if rule == "krum" else {}
            if rule == "ubar" and attack == "gaussian":
                rows[-1]["accuracy"][:2] = [None, None]
    return {"rows": rows}


def made_of_movement():
    """Sign flips take 10 points, 5 more under DCM; four mobile attackers 3 more than static ones, under the median."""
    rows = []
    for rule in attacked.FEW_RULES:
        for setting in attacked.settings():
            move, _, attack, count, who = setting
            lost = (10 + 5 * (move == "dcm")) if attack else 0
            lost += 3 * (rule == "median" and count == 4 and who == "mobile")
            row = {"at": {attacked.RULE: rule} | dict(zip(attacked.SETTING, setting)), "neighbours": 1.5}
            row |= {"accuracy": values(90.0 - lost)}
            row |= {"early": values(50 + REACH.get(move, 0.0)), "late": values(90.0)} if attack else {}
            rows.append(row)
    return {"rows": rows}


@pytest.fixture
def tables(monkeypatch):
    made = {"adversaries_rules": made_of_rules(), "adversaries_movement": made_of_movement()}
    monkeypatch.setattr(quoted, "results", made.__getitem__)
    return {name: quoted.TABLES[name]()[2:] for name in quoted.TABLES if name.split("_")[1] not in ("skewed", "mnist")}


def row(table, *begins):
    (found,) = [line for line in table if line.startswith("| " + " | ".join(begins) + " |")]
    return [cell.strip() for cell in found.strip("|").split("|")][len(begins) :]


def test_rules_are_marked_where_they_differ_from_the_mean(tables):
    assert row(tables["adversaries_rules"], "`mean`")[:3] == ["90.0", "", "20.0"]
    assert row(tables["adversaries_rules"], "`krum`")[:3] == ["90.0", "+0.0 ± 0.0", "60.0 +"]
    assert row(tables["adversaries_rules"], "`krum`")[-1].startswith("43, ")
    assert "2 of 20 diverged +" in row(tables["adversaries_rules"], "`ubar`")
    assert row(tables["adversaries_rules"], "`geometric_median`")[:2] == ["80.0 -", "**-10.0 ± 0.0**"]


def test_differences_between_movements_and_attackers_are_those_of_the_seeds(tables):
    assert row(tables["adversaries_differences"], "`dcm`", "3")[:2] == ["**+20.0 ± 0.0**", "**+5.0 ± 0.0**"]
    assert row(tables["adversaries_differences"], "`static`", "3")[:2] == ["**-30.0 ± 0.0**", "+0.0 ± 0.0"]
    assert row(tables["adversaries_movement"], "`dcm`", "3")[:4] == ["1.5", "70", "90", "90.0, 75.0"]
    found = row(tables["adversaries_who"], "`random_movement`", "`sign_flip`", "4")
    assert found[:3] == ["+0.0 ± 0.0", "80.0: +0.0 ± 0.0", "80.0: **-3.0 ± 0.0**"]


def test_too_few_are_counted_as_by_simulation():
    """Clients that are anywhere on the grid, drawn 2,000 times."""
    places = np.random.default_rng(0).integers(0, 18, (2000, 20, 2))
    near = np.square(places[:, :, None] - places[:, None]).sum(-1) <= 9
    others = near.sum(-1) - 1
    for needed in (2, 4):
        assert abs(quoted.too_few(needed) - ((others > 0) & (others < needed)).mean()) < 0.01


def test_the_picture_has_a_panel_a_rule(tables):
    figure = quoted.picture()
    assert [axes.get_title(loc="left") or axes.get_title() for axes in figure.axes][:1] == ["mean"]
    assert len(figure.axes) == len(attacked.FEW_RULES)
