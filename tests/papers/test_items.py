"""The verdict on a claim, and what the page says of a claim."""

from benchmarks.papers import catalogue, items, page, records
from benchmarks.papers.items import AGREES, DIFFERS, OWN, SIGN, UNDECIDED, UNKNOWN, Claim

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


def test_a_comparison_of_our_own_stands_apart_and_is_not_counted():
    claims, own = page.pages()["papers.md"].split("Comparisons of our own, which the paper does not claim:")
    assert "than dmgt_svrg" in own
    assert "than dmgt_svrg" not in claims.split("## PaME")[1]
    assert f" {items.OWN}" not in claims


def test_an_item_that_differs_says_why():
    for item in items.ITEMS.values():
        differs = any(claim["verdict"] == DIFFERS for claim in (records.kept(item.name) or {"claims": []})["claims"])
        assert item.why or not differs, item.name
