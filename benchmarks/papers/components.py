"""Where the variance over seeds comes from: the components of `benchmarks.papers.variance`, and their tables."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.papers.items import Rows, Table
from mdfl_jax.results.statistics import CLAIMED, seeds_for, smallest_difference

SOURCES = {
    "partition": "partition",
    "placement": "placement",  # the first places, and which clients are mobile
    "init": "initial model",
    "mobility": "movement",
    "batch": "minibatches",
}
RULES = {"random_movement": "random movement", "dam": "DAM", "dcm": "DCM"}
DIFFERENCES = {"dam": "DAM - random", "dcm": "DCM - random"}  # each minus random movement, paired by seed
EVERYTHING, ONLY, BUT = "everything", "only", "all but"
USUAL = 6  # seeds of the papers' studies
HELD = 3  # seeds of the streams that are held: 0, 1, 2

PerSeed = Callable[[str], np.ndarray]  # the accuracies in points of a mobility rule under each seed, [S]


class Deviation(NamedTuple):
    """A standard deviation over seeds, in points, with the degrees of freedom of its estimate."""

    std: float
    degrees: int

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval, from the chi-square distribution of the variance of normal values."""
        from scipy.special import chdtri

        low, high = (math.sqrt(self.degrees / float(chdtri(self.degrees, tail))) for tail in (0.025, 0.975))
        return self.std * low, self.std * high


def deviation(groups: Sequence[np.ndarray]) -> Deviation:
    """Estimate a standard deviation within groups of values; the groups may have different means.

    Args:
      groups: [n] values of each group, at least two. A group has one value of the streams that are held.

    Returns:
      The square root of the pooled variance, with the sum of n - 1 over the groups as its degrees of freedom.
    """
    squares = sum(float(np.sum((values - values.mean()) ** 2)) for values in groups)
    degrees = sum(len(values) - 1 for values in groups)
    return Deviation(math.sqrt(squares / degrees), degrees)


def quantities(per_seed: PerSeed) -> dict[str, np.ndarray]:
    """Return what is compared under each seed, [S]: the accuracy of each rule, and the paired differences."""
    found = {name: per_seed(rule) for rule, name in RULES.items()}
    return found | {name: per_seed(rule) - per_seed("random_movement") for rule, name in DIFFERENCES.items()}


def component(setting: str, case: str, source: str, groups: Sequence[PerSeed]) -> dict[str, Any]:
    """Return the deviations of all quantities if some streams follow the seed.

    Args:
      setting: how the gradient is taken, in words.
      case: `EVERYTHING`, `ONLY` one source, or everything `BUT` one.
      source: the source; '' for everything.
      groups: the accuracies, an entry for each seed of the held streams.
    """
    each = [quantities(group) for group in groups]
    found = {name: deviation([of[name] for of in each]) for name in each[0]}
    told = {
        name: {"std": d.std, "low": d.interval[0], "high": d.interval[1], "degrees": d.degrees}
        for name, d in found.items()
    }
    return {"setting": setting, "case": case, "source": source, "deviations": told}


def _row(entry: Mapping[str, Any]) -> list[str]:
    name = " ".join(filter(None, (entry["case"], SOURCES.get(entry["source"], ""))))
    return [name, *(f"{d['std']:.2f} ({d['low']:.2f} to {d['high']:.2f})" for d in entry["deviations"].values())]


def needed(std: float) -> int:
    """Return the seeds that a claim of two points needs, from the deviation of the paired difference in points."""
    return seeds_for(std, 100 * CLAIMED)


def seeds_table(entries: Sequence[Mapping[str, Any]]) -> Table:
    """Make the table of the seeds that a claim of two points needs."""
    rows: Rows = []
    for entry in entries:
        for name in DIFFERENCES.values() if entry["case"] == EVERYTHING else ():
            d = entry["deviations"][name]
            low, high = needed(d["low"]), needed(d["high"])
            least = smallest_difference(d["std"], USUAL)
            rows.append([name, entry["setting"], f"{d['std']:.2f}", f"{needed(d['std'])} ({low} to {high})"])
            rows[-1].append(f"{least:.1f}")
    header = [
        "difference",
        "gradient",
        "deviation of a seed",
        "seeds for 2 points",
        f"found with {USUAL} seeds (points)",
    ]
    return ("the seeds that a paired difference of 2 points needs (80 % power, two-sided at 5 %)", header, rows)


def tables(entries: Sequence[Mapping[str, Any]]) -> list[Table]:
    """Make the tables of the components, one for each setting, and that of the seeds."""
    found: list[Table] = []
    for setting in dict.fromkeys(entry["setting"] for entry in entries):
        rows = [_row(entry) for entry in entries if entry["setting"] == setting]
        title = f"standard deviation over seeds of the final accuracy and of paired differences (points), {setting}"
        found.append((title, ["what follows the seed", *RULES.values(), *DIFFERENCES.values()], rows))
    return [*found, seeds_table(entries)]
