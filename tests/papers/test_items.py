"""The verdict on a claim, the choice of items, and what the page says of a claim."""

from importlib import import_module

import pytest

from benchmarks.papers import catalogue, devices, items, page, records
from benchmarks.papers.items import AGREES, DIFFERS, SIGN, UNDECIDED, UNKNOWN, Claim, chosen
from mdfl_jax.core.errors import UserError

catalogue.load()


def of(mean, ci95):
    return {"mean": mean, "ci95": ci95}


@pytest.mark.parametrize(
    ("ours", "paper", "sign", "verdict"),
    [
        (of(7, 2), 8, 0, AGREES),
        (of(3, 2), 8, 0, SIGN),
        (of(12, 2), 8, 0, SIGN),
        (of(1, 2), 8, 0, UNDECIDED),
        (of(-3, 2), 8, 0, DIFFERS),
        (of(-7, 2), -8, 0, AGREES),
        (of(7, 2), -8, 0, DIFFERS),
        (of(7, 2), None, 1, AGREES),
        (of(7, 2), None, -1, DIFFERS),
        (of(0, 0), None, 1, UNDECIDED),
        (of(5, None), 5, 0, AGREES),  # one seed: no interval
        (of(None, None), 5, 0, UNKNOWN),
        (of(float("nan"), 1.0), 5, 0, UNKNOWN),
        (True, None, 0, AGREES),
        (False, None, 0, DIFFERS),
        (None, None, 0, UNKNOWN),
    ],
)
def test_the_verdict(ours, paper, sign, verdict):
    assert Claim("a claim", ours, paper, sign=sign).verdict == verdict


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        (of(153, 20), DIFFERS),
        (of(120, 20), AGREES),
        (of(153, 136), UNDECIDED),
        (of(96, 20), AGREES),
        (of(90, 20), DIFFERS),
    ],
)
def test_a_level_can_differ_from_the_papers(ours, verdict):
    assert Claim("slots to 70 %", ours, 115, level=True).verdict == verdict


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_diverged_is_unknown_and_none_in_json(bad):
    kept = Claim("a claim", {"mean": bad, "std": float("nan"), "ci95": float("nan")}, 5).as_json()
    assert (kept["verdict"], kept["ours"]) == (UNKNOWN, {"mean": None, "std": None, "ci95": None})
    assert page.ours(kept) == "-"


def test_items_are_chosen_by_name_by_paper_or_all():
    assert [it.name for it in chosen("madfl:t2,dadfl")][:2] == ["madfl:t2", "dadfl:f2"]
    assert len(chosen("all")) == len(items.ITEMS) > len(chosen("madfl")) > 5
    with pytest.raises(UserError, match=r"--item=madfl:t3: unknown item 'madfl:t3' \(did you mean 'madfl:t2'\?\)"):
        chosen("madfl:t3")
    with pytest.raises(UserError, match=r"unknown item 'madlf' \(did you mean 'madfl'\?\)"):
        chosen("madlf")


def test_an_item_that_differs_says_why():
    for item in items.ITEMS.values():
        differs = any(claim["verdict"] == DIFFERS for claim in (records.kept(item.name) or {"claims": []})["claims"])
        assert item.why or not differs, item.name


def test_every_study_on_accelerators_is_a_preset():
    for stem, item in (name.split(":") for name in devices.STUDIES):
        assert item in import_module(f"configs.{stem}").PRESETS
