"""The tables and figures of the papers as items: what each one claims, what we measured, and a verdict by one rule."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple

from benchmarks.papers.studies import Statistic, Studies
from mdfl_jax.core.errors import UserError, unknown_name

Rows = list[list[str]]
Table = tuple[str, list[str], Rows]  # title, header, rows

AGREES, SIGN, UNDECIDED, DIFFERS, UNKNOWN = "agrees", "same sign, other size", "undecided", "differs", "not measured"
OWN = "no claim"
ROUNDING = 1e-6  # of a mean over seeds that are all alike


@dataclass(frozen=True)
class Claim:
    """One statement of a paper, or a comparison of our own, and what we measured.

    Attributes:
      text: the statement.
      ours: our statistic over seeds in the claim's unit; or whether the statement holds, where it is not a number; None
        where nothing could be measured.
      paper: the number that the paper gives, with its sign; None if it gives none.
      sign: 1 or -1 for a statement that a number is positive or negative. By default it is that of ``paper``.
      unit: the unit of both numbers.
      told: what we found in words, for a statement that is not a number.
      level: whether the paper's number is a level, as 115 slots, and no difference, which could also be zero.
      unsure: whether the seeds leave open if a statement that is not a number holds.
      own: whether the paper does not make this comparison, as one to a target accuracy that it does not name.
      every: the rounds between two evaluations, where these limit how finely a number of rounds is known.
    """

    text: str
    ours: Statistic | bool | None
    paper: float | None = None
    sign: int = 0
    unit: str = "points"
    told: str = ""
    level: bool = False
    unsure: bool = False
    own: bool = False
    every: int = 0

    @property
    def verdict(self) -> str:
        """What our measurement says of the claim.

        Of a number: it agrees if the 95 % interval is on the claimed side of zero and holds the paper's value (or no
        value is claimed). The size is another one if the interval is on this side without that value. It is undecided
        if the interval holds zero, and it differs if the interval is on the other side. A level agrees if the interval
        holds it. An interval that holds the paper's value, and is wider than half of it to each side, decides nothing.
        A statement agrees or differs, or is undecided if it depends on which of our seeds one takes. A comparison of
        our own has no verdict.
        """
        if self.own:
            return OWN
        if self.ours is None or (isinstance(self.ours, Mapping) and self.ours["mean"] is None):
            return UNKNOWN
        if not isinstance(self.ours, Mapping):
            return UNDECIDED if self.unsure else AGREES if self.ours else DIFFERS
        sign = self.sign or (1 if (self.paper or 0) >= 0 else -1)
        mean, half = float(self.ours["mean"]), float(self.ours["ci95"] or 0)
        if mean != mean or half != half:  # runs that diverged
            return UNKNOWN
        apart = self.paper is not None and abs(mean - self.paper) > half + ROUNDING
        wide = self.paper is not None and half > abs(self.paper) / 2
        if self.level and self.paper is not None:
            return DIFFERS if apart else UNDECIDED if wide else AGREES
        if sign * mean - half > 0:
            return SIGN if apart else UNDECIDED if wide else AGREES
        return DIFFERS if sign * mean + half < 0 else UNDECIDED

    def as_json(self) -> dict[str, Any]:
        """Return the claim for a results file; what is not finite, as of runs that diverged, is None there."""
        ours = self.ours
        if isinstance(ours, Mapping):
            ours = {name: value if value is None or isfinite(value) else None for name, value in ours.items()}
        return {
            **{"text": self.text, "paper": self.paper, "unit": self.unit, "ours": ours, "told": self.told},
            "verdict": self.verdict,
            **({"every": self.every} if self.every else {}),
        }


class Outcome(NamedTuple):
    """What an item shows: tables, and the claims with what we measured."""

    tables: list[Table]
    claims: list[Claim]


@dataclass(frozen=True)
class Item:
    """A table or a figure of a paper.

    Attributes:
      name: PAPER:ITEM, as in madfl:t2.
      title: what the paper shows there.
      make: runs its studies, or reads them, and returns the outcome.
      presets: the presets that it uses, of which the first one gives the command of its row.
      why: a paragraph about the claims that ours does not agree with: what explains it, and which run shows that.
    """

    name: str
    title: str
    make: Callable[[Studies], Outcome]
    presets: tuple[str, ...] = field(default=())
    why: str = ""


ITEMS: dict[str, Item] = {}
"""All items by their names, in the order of the papers."""


def item(
    name: str, title: str, *presets: str, why: str = ""
) -> Callable[[Callable[[Studies], Outcome]], Callable[[Studies], Outcome]]:
    """Register a function as the item NAME. Its presets are those given, or the one with the item's own name."""

    def add(make: Callable[[Studies], Outcome]) -> Callable[[Studies], Outcome]:
        ITEMS[name] = Item(name, title, make, presets or (name,), why)
        return make

    return add


def chosen(words: str) -> list[Item]:
    """Return the items that a text names: PAPER:ITEM, PAPER for all of a paper, or all; several with commas.

    Raises:
      UserError: for an unknown one.
    """
    found: dict[str, Item] = {}
    for word in words.split(","):
        these = {name: it for name, it in ITEMS.items() if word in ("all", name, name.partition(":")[0])}
        if not these:
            papers = dict.fromkeys(name.partition(":")[0] for name in ITEMS)
            of_paper = [name for name in ITEMS if name.partition(":")[0] == word.partition(":")[0]]
            raise UserError(f"--item={words}: " + unknown_name("item", word, of_paper or ["all", *papers]))
        found |= these
    return list(found.values())
