"""The verdict on a claim, the choice of items, and what the page says of a claim."""

from importlib import import_module

import pytest

from benchmarks.papers import catalogue, devices, items, page, records
from benchmarks.papers.items import AGREES, DIFFERS, OWN, SIGN, UNDECIDED, UNKNOWN, Claim, chosen
from mdfl_jax.core.errors import UserError

catalogue.load()


def of(mean, ci95):
    return {"mean": mean, "ci95": ci95}


def test_the_verdict():
    for ours, paper, sign, verdict in (
        (of(7, 2), 8, 0, AGREES),
        (of(3, 2), 8, 0, SIGN),
        (of(12, 2), 8, 0, SIGN),
        (of(1, 2), 8, 0, UNDECIDED),
        (of(7, 5), 8, 0, UNDECIDED),  # on the side of the paper's number, and too wide to tell its size
        (of(-3, 2), 8, 0, DIFFERS),
        (of(-7, 2), -8, 0, AGREES),
        (of(7, 2), None, 1, AGREES),
        (of(7, 2), None, -1, DIFFERS),
        (of(0, 0), None, 1, UNDECIDED),
        (of(5, None), 5, 0, AGREES),  # one seed: no interval
        (of(None, None), 5, 0, UNKNOWN),
        (True, None, 0, AGREES),
        (False, None, 0, DIFFERS),
        (None, None, 0, UNKNOWN),
    ):
        assert Claim("a claim", ours, paper, sign=sign).verdict == verdict, (ours, paper, sign)
    for mean, half, verdict in ((153, 20, DIFFERS), (120, 20, AGREES), (153, 136, UNDECIDED), (90, 20, DIFFERS)):
        assert Claim("slots to 70 %", of(mean, half), 115, level=True).verdict == verdict, (mean, half)
    assert Claim("rounds to our target", of(7, 2), sign=-1, own=True).verdict == OWN


def test_a_number_of_rounds_says_how_finely_it_is_known():
    kept = Claim("fewer rounds", of(-80, 0), sign=1, unit="rounds", own=True, every=10).as_json()
    assert page.ours(kept) == "-80 ± 0 rounds, evaluated every 10"


def test_a_comparison_of_our_own_stands_apart_and_is_not_counted():
    claims, own = page.pages()["papers.md"].split("Comparisons of our own, which the paper does not claim:")
    assert "than dmgt_svrg" in own
    assert "than dmgt_svrg" not in claims.split("## PaME")[1]
    assert f" {items.OWN}" not in claims


def test_what_diverged_is_unknown_and_none_in_json():
    kept = Claim("a claim", {"mean": float("inf"), "std": float("nan"), "ci95": float("nan")}, 5).as_json()
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
