"""The items of the thesis: tables 1 to 8, and figures 7 and 8 (configs/thesis.py)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.papers.items import Claim, Outcome, Table, item
from benchmarks.papers.shares import (
    TABLE_1,
    TABLE_2,
    TABLE_3,
    TABLE_5,
    TABLE_6,
    TABLE_7,
    TABLE_8,
    ByShare,
    Column,
    Numbers,
    at,
    table,
)
from benchmarks.papers.studies import Studies
from mdfl_jax.core.outcomes import interval

WHY_SHARE = (
    "The signs are the thesis's, and more fast clients are better; `small` has a fifth of the rounds and a narrower "
    "model, and the sizes are smaller. Returns do diminish: each per cent of p adds 0.12 points up to 20 %, 0.06 from "
    "there to 80 % and 0.04 beyond. But the last 80 % together add more than the first 20 %; in the thesis, and on "
    "digits ([two speeds of clients](thesis.md)), they add less. This is not explained: more rounds were not run."
)
WHY_LEAD = (
    "With twenty seeds the fast clients lead at every p. Whether the lead shrinks stays open: at p = 5 % two of 48 "
    "clients are fast, and which ones varies with the seed; the thesis has three seeds and gives no intervals. With "
    "twelve seeds on digits ([two speeds of clients](thesis.md)) the lead falls with p."
)
WHY_LOSS = (
    "a = 1 costs accuracy at every p below 100 %, and most at 20 %, as in the thesis. Below 80 % it costs 0.6 to 0.8 "
    "of what it costs there, after a fifth of the rounds and with narrower models."
)
WHY_RATIO = (
    "With a = 0.2 the lead changes by less than 0.4 points at every p, up or down: the intervals of twenty seeds "
    "exclude the thesis's changes, which are of three seeds without intervals. With a = 1 the signs are the thesis's."
)
WHY_LOSS_IID = (
    "With IID data a = 1 costs 0.3 to 0.6 of what it costs in the thesis below p = 100 %, after a fifth of its rounds "
    "and with narrower models."
)
NEGLIGIBLE = 1.55  # points: the largest change that the thesis calls negligible (6.4) is 1.53


def claims(text: str, ours: Column, thesis: Numbers) -> list[Claim]:
    """Return a claim for each share that we measured; ``text`` has a place for the share in per cent."""
    return [Claim(text.format(p), statistic, at(thesis)[p]) for p, statistic in ours.items()]


def beside(title: str, ours: Column, thesis: Numbers) -> Table:
    """Return a table of plain averaging beside the thesis's row."""
    return table(title, {"plain averaging, thesis": thesis, "ours": ours})


def _by_ratio(found: ByShare, thesis: Mapping[float, Numbers], of: Callable[[float], Column]) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    for ratio in found.others:
        if ratio:
            rows |= {f"a = {ratio:g}, thesis": thesis[ratio], f"a = {ratio:g}, ours": of(ratio)}
    return rows


def _growth(studies: Studies, name: str, thesis: Numbers) -> Outcome:
    found = ByShare(studies(name).points)
    grown = found.growth(0.0)
    shown = [beside("final accuracy over p = 0 (points)", grown, thesis)]
    return Outcome(shown, claims("accuracy at p = {} % over p = 0", grown, thesis))


def _leads(studies: Studies, name: str, thesis: Numbers) -> Outcome:
    found = ByShare(studies(name).points)
    lead = found.lead(0.0)
    low, high = min(lead), max(lead)
    narrower = interval(found.lead_at(low, 0.0) - found.lead_at(high, 0.0))
    text = f"the lead shrinks from p = {low} % to {high} %, by"
    made = claims("lead of the fast clients, p = {} %", lead, thesis)
    made.append(Claim(text, narrower, round(at(thesis)[low] - at(thesis)[high], 2)))
    return Outcome([beside("lead of the fast clients (points)", lead, thesis)], made)


def _gains(studies: Studies, name: str, thesis: Mapping[float, Numbers], alone: bool) -> Outcome:
    """Compare the ratios a with plain averaging: the small ones, which the thesis finds negligible, and a = 1.

    Args:
      studies, name, thesis: the studies, the item, and its numbers by a.
      alone: whether a = 1 has a table of its own, whose claims are not made twice.
    """
    found = ByShare(studies(name).points)
    rows = _by_ratio(found, thesis, lambda ratio: found.gain(ratio, 0.0))
    made = []
    for ratio in (ratio for ratio in found.others if 0 < ratio < 1):
        changes = [float(statistic["mean"]) for statistic in found.gain(ratio, 0.0).values()]
        told = f"{min(changes):+.2f} to {max(changes):+.2f} points"
        text = f"a = {ratio:g} changes the accuracy by less than {NEGLIGIBLE:g} points at every p"
        made.append(Claim(text, max(map(abs, changes)) < NEGLIGIBLE, told=told))
    text = "accuracy with a = 1 less plain averaging, p = {} %"
    lost = [] if alone else claims(text, found.gain(1.0, 0.0), thesis[1.0])
    return Outcome([table("final accuracy less that of plain averaging (points)", rows)], made + lost)


@item(
    "thesis:t1",
    "Table 1: accuracy by the share p of fast clients, label shards",
    "thesis:t1",
    "thesis:algorithm_1",
    why=WHY_SHARE,
)
def table_1(studies: Studies) -> Outcome:
    """Compare the shares under plain averaging, also with the local step of algorithm 1 as the thesis prints it."""
    outcome = _growth(studies, "thesis:t1", TABLE_1)
    found, thesis = ByShare(studies("thesis:t1").points), at(TABLE_1)
    first, others = (found.final(p, 0.0) - found.final(q, 0.0) for p, q in ((20, 0), (100, 20)))
    text = "returns diminish: p from 0 to 20 % adds more than from 20 to 100 %, by"
    outcome.claims.append(Claim(text, interval(first - others), round(2 * thesis[20] - thesis[100], 2)))
    printed = ByShare(studies("thesis:algorithm_1").points).growth(None)
    outcome.tables.append(beside("the same, algorithm 1 as printed: one step, summed gradient", printed, TABLE_1))
    return outcome._replace(
        claims=outcome.claims + claims("the same, algorithm 1 as printed, p = {} %", printed, TABLE_1)
    )


@item("thesis:t2", "Table 2: lead of the fast clients, label shards", why=WHY_LEAD)
def table_2(studies: Studies) -> Outcome:
    """Compare the two groups under plain averaging."""
    return _leads(studies, "thesis:t2", TABLE_2)


@item("thesis:t3", "Table 3: lead of the fast clients by the ratio a, label shards", why=WHY_RATIO)
def table_3(studies: Studies) -> Outcome:
    """Compare the lead under speed-aware averaging with that under plain averaging."""
    found, made, plain = ByShare(studies("thesis:t3").points), list[Claim](), at(TABLE_2)
    for ratio in (ratio for ratio in found.others if ratio):
        changes = [round(value - plain[p], 2) for p, value in at(TABLE_3[ratio]).items()]
        text = f"lead with a = {ratio:g} less that of plain averaging, p = {{}} %"
        made += claims(text, found.lead_change(ratio, 0.0), changes)
    rows: dict[str, Any] = {"plain averaging, thesis": TABLE_2, "plain averaging, ours": found.lead(0.0)}
    return Outcome([table("lead of the fast clients (points)", rows | _by_ratio(found, TABLE_3, found.lead))], made)


@item("thesis:t4", "Table 4: weights by speed alone (a = 1), label shards", why=WHY_LOSS)
def table_4(studies: Studies) -> Outcome:
    """Compare the naive weights with plain averaging."""
    found = ByShare(studies("thesis:t4").points)
    lost, thesis = found.gain(1.0, 0.0), TABLE_7[1.0]
    worst = min(lost, key=lambda p: float(lost[p]["mean"]))
    made = claims("accuracy with a = 1 less plain averaging, p = {} %", lost, thesis)
    made.append(Claim("the loss is largest at p = 20 %", worst == 20, told=f"at {worst} %"))
    rows: dict[str, Any] = {"a = 1, thesis": thesis, "a = 1, ours": lost}
    return Outcome([table("final accuracy less that of plain averaging (points)", rows)], made)


@item("thesis:t5", "Table 5: accuracy by the share p, IID data")
def table_5(studies: Studies) -> Outcome:
    """Compare the shares as in table 1."""
    return _growth(studies, "thesis:t5", TABLE_5)


@item("thesis:t6", "Table 6: lead of the fast clients, IID data", why=WHY_LEAD)
def table_6(studies: Studies) -> Outcome:
    """Compare the two groups as in table 2."""
    return _leads(studies, "thesis:t6", TABLE_6)


@item("thesis:t7", "Table 7: accuracy by the ratio a, label shards")
def table_7(studies: Studies) -> Outcome:
    """Compare speed-aware with plain averaging."""
    return _gains(studies, "thesis:t7", TABLE_7, alone=True)


@item("thesis:t8", "Table 8: accuracy by the ratio a, IID data", why=WHY_LOSS_IID)
def table_8(studies: Studies) -> Outcome:
    """Compare speed-aware with plain averaging as in table 7."""
    return _gains(studies, "thesis:t8", TABLE_8, alone=False)


def _contacts(found: ByShare, shares: Sequence[int]) -> Table:
    rows = [
        [f"p = {p} %", *(f"{found.contacts(p, 0.0, group).mean():,.0f}" for group in ("mobile", "other"))]
        for p in shares
    ]
    return "contacts of a client over the run, without itself", ["", "fast clients", "slow clients"], rows


def _gap(found: ByShare, share: int) -> np.ndarray:
    return found.contacts(share, 0.0, "mobile") - found.contacts(share, 0.0, "other")


@item("thesis:f7", "Figure 7: neighbours of both groups, p = 5 %")
def figure_7(studies: Studies) -> Outcome:
    """Compare the contacts of the two groups where few clients are fast."""
    found = ByShare(studies("thesis:f7").points)
    made = [Claim("a fast client has more contacts, by", interval(_gap(found, 5)), sign=1, unit="contacts")]
    return Outcome([_contacts(found, (5,))], made)


@item("thesis:f8", "Figure 8: neighbours of both groups, p = 80 %")
def figure_8(studies: Studies) -> Outcome:
    """Compare the contacts of the two groups where most clients are fast."""
    found = ByShare(studies("thesis:f8").points)
    few, many = _gap(found, 5), _gap(found, 80)
    made = [
        Claim("a fast client has more contacts, by", interval(many), sign=1, unit="contacts"),
        Claim("the gap is smaller than at p = 5 %, by", interval(few - many), sign=1, unit="contacts"),
    ]
    return Outcome([_contacts(found, (5, 80))], made)
