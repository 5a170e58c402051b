"""Makes the pages papers.md and papers_tables.md of the site from the results files of the items."""

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from typing import Any

from benchmarks.papers import devices, foretold, plan, records
from benchmarks.papers.catalogue import NOTES, PAPERS
from benchmarks.papers.cells import markdown, short
from benchmarks.papers.components import HELD
from benchmarks.papers.items import AGREES, ITEMS, OWN, UNDECIDED, Item, Table

HEAD = """# The papers, reproduced

Every table and figure with results of five papers is an item; so are claims of two papers on attackers. The last column
has the studies of an item; items may share one. The [tables of all items](papers_tables.md) are on another page.

```
mdfl sweep madfl:t2 --scale=small         # the study alone, with its report
python -m benchmarks.papers --item=madfl:t2 --scale=small [--write]       # our figures beside the paper's claims
python -m benchmarks.papers --plan                # how many seeds would decide what is undecided, and the hours
python -m benchmarks.papers --grow --hours=8      # runs this plan, best claims an hour first
python -m benchmarks.papers --page=papers         # this page, from the results files; --page=papers_tables: the tables
```

**Scales.** `paper` has the paper's own numbers. `small` cuts them for two CPU cores; what it cuts stands below each
table. `smoke` only shows, in seconds to minutes, that everything runs.

**Verdicts.** For a number, ours is the mean with its 95 % interval over seeds (differences are paired by seed). It
*agrees* if the interval lies on the claimed side of zero and holds the paper's number, if there is one. *Same sign,
other size*: it lies on this side, without the paper's number. *Undecided*: it holds zero. *Differs*: it lies on the
other side. A level, as 115 slots, agrees if the interval holds it. An interval that holds the paper's number, and is
wider than half of it to each side, leaves the claim undecided. *Evaluated every 10*: a number of rounds is not known
more finely, also where all seeds have the same one. What a paper does not claim stands below its table, without a
verdict: it is a comparison of our own, as one to a target accuracy that the paper does not name. A statement that is
not a number agrees or differs; what we found stands in its place, and it is undecided if it depends on the seeds that
one takes; of a smallest value that is enough, the values in brackets are those that the seeds do not exclude. *Not
measured*: some runs diverged or did not reach what is compared. *Not run*: the time that `small` takes has not been
spent on it. *GPU* beside the seeds: they ran on a graphics card, all others on CPUs. The figures are in float32 on
both; `madfl:f7b` was run on both, and the final accuracies of its first six seeds, which are means over clients, differ
by at most 0.6 points under movement and by 2.2 for clients that stay. `fedmobile:f9` and `f11` were run on both too,
with twenty seeds: the means over slots and seeds differ by at most 0.06 points.
"""
TABLES_HEAD = """# The papers, reproduced: all tables

Made from `benchmarks/results/papers/`; the claims and our verdicts are
[on another page](papers.md). Values after ± are half-widths of 95 % intervals over seeds.
"""
NEARER = """## Nearer to the papers' settings

Claims that differ, measured once more with some of what `small` cuts taken back, for the sweep points that they need;
the rest is as in `small`. *Ours then* is what that gave, often with fewer seeds (`--item=explained:nearer`).
"""
LEADS = """## The sizes of the leads

Why the leads in table II are not of the paper's sizes: MADFL's table II at alpha 0.05 and the scale `small` of the
figures over M, Rc and Rm, with one thing changed at a time.

```
python -m benchmarks.papers --item=explained:t2 --scale=small
```
"""
RADIUS = """## The radius of figure 4

Steps of the same length in all, few and long ones or many and short ones (`--item=explained:f4`).
"""
RATE = """## The learning rate of DADFL

DCM at the paper's learning rate, 0.3, and at lower ones (`--item=explained:rate`). A model that predicts one class for
good is about 10 % accurate.
"""
PERIODS = """## Periods and the stop rule

How much the objectives of three rounds in a row differ, recorded without the stop rule, and where it would have ended
the runs: PaME's figures 5 and 6 with m = 32 and full gradients (`--item=explained:periods`).
"""
SEEDS = """## How many seeds

MADFL's table II at alpha 0.05 and the scale `small` of the figures over M, Rc and Rm, with only some random streams
following the seed ([`vary`](running.md#how-many-seeds)). *Only*: one stream follows the seed, and all others are held.
*All but*: one stream is held. Both are measured under {held} seeds of what is held, and the variances within these are
averaged. In brackets is the 95 % interval (chi-square, of normal values). The variances need not add up to that of
everything, since the sources interact.

```
python -m benchmarks.papers --item=variance:t2 --scale=small
```
"""


def number(value: float, unit: str) -> str:
    """Format a number of a paper, as in '+8 points' or '35.4 %'."""
    return f"{value:+g} {unit}" if unit == "points" else f"{value:g} {unit}".rstrip()


def papers(claim: Mapping[str, Any]) -> str:
    """Format what the paper gives."""
    return "" if claim["paper"] is None else number(claim["paper"], claim["unit"])


def ours(claim: Mapping[str, Any]) -> str:
    """Format what we measured."""
    measured = claim["ours"]
    if not isinstance(measured, Mapping):
        return claim["told"] or {True: "holds", False: "does not hold", None: "-"}[measured]
    if measured["mean"] is None or measured["mean"] != measured["mean"]:
        return "-"
    sign = "+" if claim["unit"] == "points" else ""
    half = "" if measured["ci95"] is None else f" ± {short(float(measured['ci95']), 2)}"
    value = f"{short(float(measured['mean']), 3, sign)}{half} {claim['unit']}".rstrip()
    value += f", evaluated every {claim['every']}" if claim.get("every") else ""
    return f"{value}; {claim['told']}" if claim["told"] else value


def command(item: Item, scale: str) -> str:
    """Return the command of an item's first study, with the scale, and the presets of the others."""
    stem = item.presets[0].partition(":")[0]
    first, *others = (preset.partition(":")[2] for preset in item.presets)
    config = f"mdfl sweep {stem}:{first}" + ("" if scale == "paper" else f" --scale={scale}")
    return ", ".join(f"`{words}`" for words in (config, *others))


def _rows(item: Item, found: Mapping[str, Any], by_chance: Set[tuple[str, str]]) -> list[str]:
    studies = found["studies"].values()
    told = f"{found['scale']}, {'/'.join(dict.fromkeys(str(s['seeds']) for s in studies))} seeds"
    platform, _ = records.device_of(found)
    told += f", {platform.upper()}" if platform != "cpu" else ""
    lines, theory = [], foretold.kept().get(item.name, {})
    for i, claim in enumerate(claim for claim in found["claims"] if claim["verdict"] != OWN):
        verdict = claim["verdict"] if claim["verdict"] == AGREES else f"**{claim['verdict']}**"
        if (item.name, claim["text"]) in by_chance and claim["verdict"] != UNDECIDED:
            verdict += " †"
        first = [item.title, told, command(item, found["scale"])] if i == 0 else [""] * 3
        cells = [first[0], claim["text"], papers(claim), ours(claim), verdict]
        if foretold.tells(item.name.partition(":")[0]):
            cells.append({1: "+", -1: "-", 0: ""}[theory.get(claim["text"], {"sign": 0})["sign"]])
        lines.append("| " + " | ".join([*cells, *first[1:]]) + " |")
    return lines


def _cuts(found: Mapping[str, Any]) -> str:
    """Return what the studies of an item cut, as in 'rounds 300 (1000)': the value, and the paper's.

    Studies that cut a field differently are all told, and a field that only some studies cut says how many do.
    """
    studies = found["studies"].values()
    cut: dict[str, list[str]] = {}
    for study in studies:
        for path, now, paper in study["cuts"]:
            cut.setdefault(path, []).append(f"{now} ({paper})")
    told = []
    for path, values in cut.items():
        where = f" in {len(values)} of {len(studies)} studies" if len(values) < len(studies) else ""
        told.append(f"`{path}` {' or '.join(dict.fromkeys(values))}{where}")
    return ", ".join(told)


def _section(paper: str, title: str, by_chance: Set[tuple[str, str]]) -> list[str]:
    items = [item for item in ITEMS.values() if item.name.partition(":")[0] == paper]
    theory = (" theory |", " :-: |") if foretold.tells(paper) else ("", "")
    lines = [f"## {title}", "", f"| item | the paper's claim | its size | ours | verdict |{theory[0]} scale | study |"]
    lines += [f"| :-- | :-- | --: | --: | :-- |{theory[1]} :-- | :-- |"]
    cuts, why, own = dict[str, list[str]](), list[str](), list[str]()
    seconds = dict[str, dict[str, float]]()
    for item in items:
        found = records.kept(item.name)
        if found is None:
            none = " |" if theory[0] else ""
            lines.append(f"| {item.title} | | | | not run |{none} | {command(item, 'paper')} |")
            continue
        lines += _rows(item, found, by_chance)
        ours_alone = [f"{claim['text']} | {ours(claim)} |" for claim in found["claims"] if claim["verdict"] == OWN]
        own += [f"| {item.title if i == 0 else ''} | {row}" for i, row in enumerate(ours_alone)]
        platform, kind = records.device_of(found)
        by_study = seconds.setdefault("CPUs" if platform == "cpu" else kind, {})
        by_study |= {name: study["run_seconds"] for name, study in found["studies"].items()}  # items share studies
        if found["scale"] != "paper" and (cut := _cuts(found)):
            cuts.setdefault(cut, []).append(item.name.partition(":")[2])
        if item.why and any(claim["verdict"] not in (AGREES, OWN) for claim in found["claims"]):
            why += [f"**{item.title}.** {item.why}", ""]
    lines += ["", NOTES[paper], "", *why]
    if own:
        lines += ["Comparisons of our own, which the paper does not claim:", ""]
        lines += ["| item | comparison | ours |", "| :-- | :-- | --: |", *own, ""]
    if cuts:
        lines += ["What `small` cuts (in brackets the paper's value; of images, 0 is all):", ""]
        lines += [f"- {', '.join(names)}: {cut}" for cut, names in cuts.items()] + [""]
    if seconds:
        told = [f"{sum(of.values()) / 60:.0f} minutes on {machine}" for machine, of in seconds.items()]
        lines += [f"The runs took {' and '.join(told)}.", ""]
    return lines + devices.section(paper)


def _counts(found: Iterable[Mapping[str, Any]]) -> str:
    """Return how many claims of some results have each verdict, as in '5 agrees, 2 undecided'."""
    verdicts = Counter(claim["verdict"] for result in found for claim in result["claims"] if claim["verdict"] != OWN)
    return ", ".join(f"{count} {name}" for name, count in verdicts.most_common()) or "none"


def summary() -> list[str]:
    """Return how many items were run at which scale, and how many claims have each verdict."""
    of_papers = [item for item in ITEMS.values() if item.name.partition(":")[0] in PAPERS]
    found = [result for item in of_papers if (result := records.kept(item.name))]
    at_size, cut = ([result for result in found if (result["scale"] == "paper") == whole] for whole in (True, False))
    own = sum(claim["verdict"] == OWN for result in found for claim in result["claims"])
    return [
        f"**So far**: {len(found)} of {len(of_papers)} items were run, {len(at_size)} of them at the paper's size and"
        f" {len(cut)} at the scale `small`. Claims at the paper's size: {_counts(at_size)}. Claims at `small`:"
        f" {_counts(cut)}. Comparisons of our own: {own}.",
        "",
        plan.chance(),
        "",
        plan.outcomes(),
        "",
        foretold.summary(),
        "",
    ]


def further() -> list[str]:
    """Return the sections on items that are in no paper; nothing of one that was not run."""
    lines = []
    sections = {
        "explained:nearer": NEARER,
        "explained:t2": LEADS,
        "explained:f4": RADIUS,
        "explained:rate": RATE,
        "explained:periods": PERIODS,
        "variance:t2": SEEDS.format(held=HELD),
    }
    for name, words in sections.items():
        if found := records.kept(name):
            lines += [words, *(line for table in _tables(found) for line in markdown(table))]
    return lines


def _tables(found: Mapping[str, Any]) -> list[Table]:
    return [(table["title"], table["header"], table["rows"]) for table in found["tables"]]


def pages() -> dict[str, str]:
    """Return the text of the pages by their names."""
    claims, tables = [HEAD, devices.WORDS, *summary()], [TABLES_HEAD]
    _, decided, stay = plan.corrected()
    for paper, title in PAPERS.items():
        claims += _section(paper, title, decided - stay)
        tables += [f"## {title}", ""]
        for item in ITEMS.values():
            if item.name.partition(":")[0] == paper and (found := records.kept(item.name)):
                tables += [f"### {item.title}", ""]
                tables += [line for table in _tables(found) for line in markdown(table)]
    claims += further()
    made = {"papers.md": claims, "papers_tables.md": tables}
    return {name: "\n".join(lines).rstrip("\n") + "\n" for name, lines in made.items()}
