"""What is said of runs that have diverged: which seeds, in which round, with which norm, and what may be the cause."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mdfl_jax.core.outcomes import enumerated

FEW = 6  # so many seeds are named one by one
SUSPECTS = ("algorithm.lr", "algorithm.consensus_lr")  # steps that are known to be too long if a run diverges
COMPRESSOR = "algorithm.compressor"  # one that loses much may let errors grow from round to round


def seeds_in_words(point: Mapping[str, Any]) -> str:
    """Return which seeds of a sweep point have diverged, as in "seeds 0 and 2".

    Args:
      point: the entry of the point in summary.json.
    """
    seeds = list(point["diverged"])
    if len(seeds) > FEW:
        return f"{len(seeds)} seeds, {', '.join(seeds[:FEW])}, ..."
    return f"seed{'s' * (len(seeds) > 1)} {enumerated(seeds)}"


def on_seeds(statistic: Mapping[str, Any]) -> str:
    """Return on how many seeds a mean stands, as in " (3 of 6 seeds)"; "" if all have a result.

    Args:
      statistic: an entry of summary.json with its values 'per_seed'.
    """
    per_seed = statistic.get("per_seed")
    return f" ({statistic['seeds']} of {len(per_seed)} seeds)" if "seeds" in statistic and per_seed else ""


def cause(values: Callable[[str], Any]) -> str:
    """Return a hint at why the runs of a sweep point have diverged, from its settings alone; "" without one.

    Args:
      values: (path of a field) -> its value at the point, or None.

    >>> cause({"algorithm.lr": 30.0}.get)
    'algorithm.lr is 30; a smaller step may help'
    >>> cause({"algorithm.lr": 0.3, "algorithm.compressor": "qsgd"}.get)
    'algorithm.lr is 0.3 and algorithm.compressor is qsgd; a smaller step or a compressor that loses less may help'
    """
    steps = {path: value for path in SUSPECTS if isinstance(value := values(path), int | float) and value > 0}
    said = [f"{path} is {value:g}" for path, value in steps.items()]
    helps = ["a smaller step" if len(steps) == 1 else "smaller steps"] if steps else []
    if (compressor := values(COMPRESSOR)) and compressor != "identity":
        said.append(f"{COMPRESSOR} is {compressor}")
        helps.append("a compressor that loses less")
    return f"{enumerated(said)}; {' or '.join(helps)} may help" if said else ""


def values_of(
    point: Mapping[str, Any], manifest_points: Sequence[Mapping[str, Any]], config: Mapping[str, Any]
) -> Callable[[str], Any]:
    """Return the function that `cause` asks for the values of a sweep point.

    Args:
      point: the entry of the point in summary.json.
      manifest_points: the entry `points` of config.json, whose `numbers` are the values in effect.
      config: its entry `config`.
    """
    numbers: Mapping[str, Any] = next((of.get("numbers", {}) for of in manifest_points if of["id"] == point["id"]), {})

    def value(path: str) -> Any:
        section, _, name = path.rpartition(".")
        base = (config.get(section) or {}).get(name) if section else config.get(name)
        return point["overrides"].get(path, numbers.get(path, base))

    return value


def warning(point: Mapping[str, Any], values: Callable[[str], Any]) -> str:
    """Return a line for the user about a sweep point of which some runs have diverged.

    Args:
      point: the entry of the point in summary.json.
      values: as in `cause`.
    """
    known: Mapping[str, Any] = point.get("divergence") or {}
    told = []
    for seed, seen in list(point["diverged"].items())[:FEW]:
        at = known.get(seed) or {"round": seen, "norm": None}
        told.append(f"seed {seed} in round {at['round']}{_norm(at['norm'])}")
    more = len(point["diverged"]) - len(told)
    said = "; ".join(told) + (f"; and {more} more seeds" if more else "")
    why = cause(values)
    return f"{point['id']}: diverged: {said}" + (f" ({why})" if why else "")


def _norm(norm: float | str | None) -> str:
    if norm is None or math.isnan(float(norm)):
        return ""
    return f" with norm {float(norm):.3g}"
