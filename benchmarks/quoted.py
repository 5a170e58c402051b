"""The tables that pages quote from results files; `benchmarks/quote.py` writes them into the pages."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.mobility.registry import ORACLE, RENAMED

RESULTS = Path(__file__).parent / "results"
ROUNDS = {  # by suite: what a round is, and the largest ratio that is asked for
    "mnist_round": ("N = 20, batch 64, CNN 5x5x16, 5x5x32, 64", 0.6),
    "mnist_round_100": ("N = 100, batch 32, the same", 0.6),
    "digits_round": ("N = 20, batch 64, CNN 3x3x16, 3x3x32, 64", 0.35),
    "gn_lenet_round": ("N = 48, batch 8, 3 steps, 32 x 32 x 3", 0.7),
    "cifar_round": ("N = 8, batch 32, ResNet-20, 32 x 32 x 3", 0.8),
}
FULL = "full gradients"
FEW_FAULTS = 50  # of a kind, below which the kind has no row of its own


def digits(value: float | str, significant: int = 3, decimals: int = 99) -> str:
    """Format a number with so many significant digits, but at most so many decimals. Halves are rounded up."""
    number = Decimal(str(value))
    for _ in range(2):  # rounding up may have added a digit
        places = min(significant - 1 - number.adjusted(), decimals)
        number = number.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
    return f"{number:f}"


def markdown(header: Sequence[str], lines: Iterable[Sequence[str]], align: str = "") -> list[str]:
    """Return the lines of a table. `align` has l or r for each column; if it is empty, only the first is left."""
    rules = [":--" if side == "l" else "--:" for side in align or "l".ljust(len(header), "r")]
    return [f"| {' | '.join(cells)} |".replace("|  |", "| |") for cells in (header, rules, *lines)]


def results(name: str) -> dict[str, Any]:
    """Return the content of a results file."""
    path = RESULTS / f"{name}.json"
    if not path.is_file():
        raise UserError(f"{path}: there is no such results file")
    return json.loads(path.read_text())


def rows(name: str, key: str, value: str | int) -> list[dict[str, Any]]:
    """Return the rows of a results file in which a field has this value; there is at least one."""
    found = [row for row in results(name)["rows"] if row.get(key) == value]
    if not found:
        raise UserError(f"{RESULTS / name}.json has no row with {key} = {value}")
    return found


def rounds() -> list[str]:
    """Return the table of the round suites: milliseconds, and ratios to the PyTorch loop."""
    lines = []
    for suite, (label, asked) in ROUNDS.items():
        (ours,) = rows(f"{suite}-cpu", "variant", "ours")
        ratios = {row["variant"]: digits(row["ratio"], decimals=2) for row in results(f"{suite}-cpu")["rows"]}
        rivals = [ratios.get(rival, "-") for rival in ("torch.func vmap", "torch, 2 processes of one thread")]
        milliseconds = digits(ours["seconds_per_round"]["median"] * 1e3)
        lines.append([f"`{suite}`: {label}", milliseconds, f"**{ratios['ours']}**", f"{asked:g}", *rivals])
    header = ["round", "ms", "ratio to the PyTorch loop", "asked (at most)", "torch.func", "two PyTorch processes"]
    return markdown(header, lines)


def of_attacks(report: dict[str, Any]) -> list[str]:
    """Return the table of attacks: the faults of each kind, and how many held. Kinds of few faults are one row."""
    kinds = dict[str, list[int]]()
    for row in report["rows"]:
        kind = re.split(":| of (?:a|one|two) ", row["kind"])[0]
        tried, held = kinds.get(kind, (0, 0))
        kinds[kind] = [tried + row["tried"], held + row["tried"] - row["failed"]]
    rare = [counts for counts in kinds.values() if counts[0] < FEW_FAULTS]
    many = {kind: counts for kind, counts in kinds.items() if counts[0] >= FEW_FAULTS}
    many[f"{len(rare)} other kinds"] = list(map(sum, zip(*rare)))
    many["all"] = list(map(sum, zip(*kinds.values())))
    return markdown(["kind", "tried", "held"], [[kind, *map("{:,}".format, counts)] for kind, counts in many.items()])


def rule_named(text: str) -> str:
    """Return today's name of a mobility rule that a results file names with its knowledge or world; else the text.

    >>> [rule_named(name) for name in ("dcm_met", "waiting_plane", "exploring", "static_trace", "dcm", "arena_plane")]
    ['dcm, met', 'waiting', 'waiting, explored', 'static', 'dcm', 'arena_plane']
    """
    if text not in RENAMED:
        return text
    rule, knowledge, _ = RENAMED[text]
    return rule if knowledge == ORACLE else f"{rule}, {knowledge}"


def of_item(name: str) -> list[str]:
    """Return a table of an item of the papers, which is named as in 'pame:f3, iterations to the stop'."""
    item, _, title = name.partition(", ")
    found = {each["title"]: each for each in paper(item)["tables"]}
    if title not in found:
        raise UserError(unknown_name(f"table of {item}", title, found))
    return markdown(found[title]["header"], [[rule_named(cell) for cell in row] for row in found[title]["rows"]])


def paper(item: str) -> dict[str, Any]:
    """Return the results file of an item of the papers, at the largest scale at which it was run."""
    at_paper, at_small = (f"papers/{item.replace(':', '-')}-{scale}" for scale in ("paper", "small"))
    return results(at_paper if (RESULTS / f"{at_paper}.json").is_file() else at_small)


TABLES: dict[str, Callable[[], list[str]]] = {
    "rounds": rounds,
    "attacks": lambda: of_attacks(results("faults")),
}
