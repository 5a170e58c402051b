"""How many seeds decide what is undecided, and what chance has decided: from the results files, without any run.

A claim about a number is undecided if the 95 % interval over the seeds holds zero. With the measured spread,
`seeds_for` says with how many seeds a true difference of the measured size is found with 80 % power. The measured size
is itself uncertain: where the truth is smaller, more seeds are needed. A study is grown as a whole, so the hours are
those of all studies of the item, for the seeds that are not there yet, on the machine that ran the others.
"""

import functools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.papers import records
from benchmarks.papers.catalogue import PAPERS
from benchmarks.papers.items import AGREES, DIFFERS, ITEMS, SIGN, UNDECIDED, UNKNOWN
from mdfl_jax.core.outcomes import t_quantile
from mdfl_jax.results.statistics import seeds_for

GROWN = records.FOLDER.parent / "plan.json"  # the steps that were run
MOST_SEEDS = 1000
PLATFORMS = ("cpu", "gpu", "tpu")  # an item's steps are planned among those of its platform
LEVELS = ("slots", "iterations")  # the units of the papers' numbers that are levels
RATE = 0.05  # of false discoveries


class Need(NamedTuple):
    """What an undecided claim needs.

    Attributes:
      item: the item, as in madfl:t2.
      text: the claim.
      have: the seeds that were run.
      seeds: the seeds that decide it; `MOST_SEEDS` + 1: more than any study has.
    """

    item: str
    text: str
    have: int
    seeds: int


class Step(NamedTuple):
    """The growth of the studies of an item to a number of seeds.

    Attributes:
      item: the item.
      seeds: the seeds after it.
      claims: the claims that were undecided before it and are to be decided, of all items that share its studies.
      hours: the hours of the runs that are not there before it, on the machine of the results files.
    """

    item: str
    seeds: int
    claims: list[Need]
    hours: float


def seeds_of(statistic: Mapping[str, Any]) -> int:
    """Return the number of seeds of a statistic, which is in the ratio of its interval to its standard deviation.

    >>> seeds_of({"mean": 1.0, "std": 2.0, "ci95": 2.0 * t_quantile(5) / 6**0.5})
    6
    """
    ratio = statistic["ci95"] / statistic["std"]
    return 2 + int(np.argmin(np.abs(_ratios() - ratio)))


@functools.cache
def _ratios() -> np.ndarray:
    """Return the ratio of a 95 % interval's half to the standard deviation, of 2, 3, ... seeds."""
    return np.array([t_quantile(n - 1) / math.sqrt(n) for n in range(2, MOST_SEEDS)])


def results(platform: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the kept results of each item of the papers.

    Args:
      platform: cpu, gpu or tpu, for the items alone that it ran; empty: all items. Items that share a study may have
        run it on different platforms, with different seeds.
    """
    for name in ITEMS:
        found = records.kept(name) if name.partition(":")[0] in PAPERS else None
        if found and platform in ("", records.device_of(found)[0]):
            yield name, found


def is_number(claim: Mapping[str, Any]) -> bool:
    """Tell whether a claim is about a number whose spread over the seeds is known."""
    ours = claim["ours"]
    return isinstance(ours, Mapping) and None not in (ours["mean"], ours.get("std"), ours["ci95"]) and ours["std"] > 0


def is_level(claim: Mapping[str, Any]) -> bool:
    """Tell whether a claim is about a level, so that zero says nothing about it (`Claim.level`)."""
    return claim["unit"] in LEVELS and claim["paper"] is not None


def needs(platform: str = "") -> list[Need]:
    """Return what each undecided claim about a number needs, of the items of a platform as for `results`."""
    return [
        Need(name, claim["text"], seeds_of(claim["ours"]), max(seeds_of(claim["ours"]), _seeds_for(claim)))
        for name, kept in results(platform)
        for claim in kept["claims"]
        if claim["verdict"] == UNDECIDED and is_number(claim)
    ]


def _seeds_for(claim: Mapping[str, Any]) -> int:
    """Return the seeds that decide a claim: a difference of the measured size, or the paper's number to half of it."""
    mean, std = abs(claim["ours"]["mean"]), claim["ours"]["std"]
    if is_level(claim) or (claim["paper"] is not None and mean > claim["ours"]["ci95"]):
        half = abs(claim["paper"]) / 2
        found = (n for n in range(2, MOST_SEEDS + 1) if t_quantile(n - 1) * std / math.sqrt(n) <= half)
        return next(found, MOST_SEEDS + 1)
    if (2.8 * std) ** 2 > MOST_SEEDS * mean**2:  # with many seeds, ((1.96 + 0.84) std / mean)^2 are needed
        return MOST_SEEDS + 1
    return seeds_for(std, mean)


def steps(wanted: Sequence[Need], platform: str = "") -> list[Step]:
    """Return the growth of studies that decides most claims an hour, then the next best one, and so on.

    Items share studies: what is grown for one of them is there for the others, and may decide their claims too.

    Args:
      wanted: the needs of the items of ``platform``.
      platform: as for `results`.
    """
    studies = {name: kept["studies"] for name, kept in results(platform)}
    have = {name: of["seeds"] for each in studies.values() for name, of in each.items()}
    seconds = {name: of["run_seconds"] / of["seeds"] for each in studies.values() for name, of in each.items()}
    left, found = [need for need in wanted if need.seeds <= MOST_SEEDS], list[Step]()

    def grown(need: Need) -> tuple[dict[str, int], list[Need], float]:
        """Return the seeds of all studies, the claims that they decide, and the hours for them."""
        seeds = have | {name: max(need.seeds, have[name]) for name in studies[need.item]}
        decided = [other for other in left if min(seeds[name] for name in studies[other.item]) >= other.seeds]
        return seeds, decided, sum((seeds[name] - have[name]) * seconds[name] for name in have) / 3600

    while left:
        best = max(left, key=lambda need: len(grown(need)[1]) / max(grown(need)[2], 1e-3))
        have, decided, hours = grown(best)
        found.append(Step(best.item, best.seeds, decided, hours))
        left = [need for need in left if need not in decided]
    return found


def sharing(step: Step, platform: str = "") -> list[str]:
    """Return the items of a platform that have a study in common with a step, which has grown it for them too."""
    studies = {name: set(kept["studies"]) for name, kept in results(platform)}
    return [name for name, own in studies.items() if own & studies[step.item]]


def decided_claims() -> set[tuple[str, str]]:
    """Return the claims that are decided, as (item, text). A claim of which a run diverged is not measured."""
    verdicts = {(name, claim["text"]): claim["verdict"] for name, kept in results() for claim in kept["claims"]}
    return {claim for claim, verdict in verdicts.items() if verdict not in (UNDECIDED, UNKNOWN)}


def undecided() -> set[tuple[str, str]]:
    """Return the claims that are undecided, as (item, text)."""
    return {(name, c["text"]) for name, kept in results() for c in kept["claims"] if c["verdict"] == UNDECIDED}


def keep_outcome(step: Step, before: set[tuple[str, str]]) -> None:
    """Append to `GROWN` which claims a step was to decide and which it has decided, of those undecided before it."""
    foretold = {(need.item, need.text) for need in step.claims}
    row = {"item": step.item, "seeds": step.seeds, "hours": round(step.hours, 2)}
    row |= {"foretold": sorted(foretold), "decided": sorted(before & decided_claims())}
    rows = [*(json.loads(GROWN.read_text()) if GROWN.exists() else []), row]
    GROWN.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")


def outcomes() -> str:
    """Return how many claims the steps that were run have decided, beside those that they were to decide."""
    rows = json.loads(GROWN.read_text()) if GROWN.exists() else []
    foretold, decided = ([{tuple(claim) for claim in row[which]} for row in rows] for which in ("foretold", "decided"))
    count, found = sum(map(len, foretold)), sum(len(a & b) for a, b in zip(foretold, decided))
    return (
        f"**The plan's forecast.** {len(rows)} steps of the plan were run so far. They were to decide {count} claims"
        f" with 80 % power, so about {0.8 * count:.0f}; they have decided {found} of these, and"
        f" {sum(map(len, decided)) - found} more of the items that share their studies. A claim that stays undecided"
        " is smaller or varies more than it seemed, or a seed diverged; it waits for a later step. Who looks again"
        " after each step finds differences that do not exist more often than in 5 % of the cases; the correction above"
        " does not know of it."
    )


def seeds_with(step: Step, platform: str = "") -> dict[str, int]:
    """Return the seeds of a platform's studies: those that were run, and after a step those that it adds."""
    found = dict(results(platform))
    have = {name: of["seeds"] for kept in found.values() for name, of in kept["studies"].items()}
    return have | {name: max(step.seeds, have[name]) for name in found[step.item]["studies"]}


def lines() -> list[str]:
    """Return the plan in lines: which items to grow to how many seeds, and which claims no study decides."""
    wanted = needs()
    told = ["| item | seeds | claims decided | in all | hours | in all |", "| :-- | --: | --: | --: | --: | --: |"]
    total, decided = 0.0, 0
    for step in (step for platform in PLATFORMS for step in steps(needs(platform), platform)):
        total, decided = total + step.hours, decided + len(step.claims)
        told.append(f"| {step.item} | {step.seeds} | {len(step.claims)} | {decided} | {step.hours:.1f} | {total:.1f} |")
    cards = [name for name, kept in results() if records.device_of(kept)[0] != "cpu"]
    if cards:
        hours = f"The hours of {', '.join(cards)} are an accelerator's."
        told += ["", f"{hours} Their steps stand last, and --grow on CPUs leaves them out."]
    never = [need for need in wanted if need.seeds > MOST_SEEDS]
    told += [
        "",
        f"{len(undecided())} claims are undecided, and {len(wanted)} of them are numbers with a known spread. Each step"
        " decides its claims with 80 % power if the true differences are those measured.",
    ]
    if never:
        told += ["", f"These need more than {MOST_SEEDS:,} seeds:", ""]
    return [*told, *(f"- {need.item}: {need.text}" for need in never)]


def numbers() -> list[tuple[str, dict[str, Any], float]]:
    """Return the claims about differences as (item, claim, p-value), where p is that of Student's t over the seeds.

    Its hypothesis is that there is no difference. *Same sign, other size* also denies the paper's size, so that its
    p-value is the larger one of both.
    """
    from scipy.special import stdtr

    found = []
    for name, kept in results():
        for claim in kept["claims"]:
            if is_number(claim) and claim["verdict"] in (AGREES, SIGN, UNDECIDED, DIFFERS) and not is_level(claim):
                ours, n = claim["ours"], seeds_of(claim["ours"])
                far = abs(ours["mean"])
                if claim["verdict"] == SIGN:
                    far = min(far, abs(ours["mean"] - claim["paper"]))
                found.append((name, claim, 2 * float(stdtr(n - 1, -far * math.sqrt(n) / ours["std"]))))
    return found


def corrected() -> tuple[int, set[tuple[str, str]], set[tuple[str, str]]]:
    """Return how many claims are differences, which are decided, and which stay so if their number is corrected for.

    Benjamini and Hochberg's rule keeps the share of false ones among the decided claims at most `RATE`. A claim is told
    by (item, text).
    """
    from scipy.stats import false_discovery_control

    found = numbers()
    names = [(name, claim["text"]) for name, claim, _ in found]
    p_values = np.array([p for _, _, p in found])
    kept = false_discovery_control(p_values) < RATE if len(found) else p_values
    decided = {name for name, p in zip(names, p_values) if p < RATE}
    return len(found), decided, decided & {name for name, stays in zip(names, kept) if stays}


def chance() -> str:
    """Return how many of the decided claims chance explains, and how many stay decided if it is corrected for."""
    count, decided, kept = corrected()
    return (
        f"**Chance.** {count} claims are differences with an interval. If none of these existed, about"
        f" {RATE * count:.0f} intervals would still leave out zero; {len(decided)} do. With Benjamini and Hochberg's"
        f" correction for their number (at most 5 % of the decided ones are false), {len(kept)} stay decided. Another"
        " size than the paper's is corrected for in the same way. A cross (†) marks the others: their verdict may be"
        " chance."
    )
