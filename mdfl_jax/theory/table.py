"""The table of `launch.theory`, and the same numbers as JSON."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from ml_collections import ConfigDict

from mdfl_jax.config.points import Point
from mdfl_jax.core.outcomes import interval
from mdfl_jax.theory.network import Observed
from mdfl_jax.theory.quantities import QUANTITIES

WIDTH = 118  # characters of a line; more points continue in a further block
ROUNDING = 1e-9  # an interval that is smaller relative to the mean is rounding error


def _short(value: float, digits: int = 3) -> str:
    """Format a number with so many digits, without an exponent below a million.

    >>> [_short(v) for v in (0.0, 0.08642, 17.25, 1234.5, 3.1e8, math.inf)]
    ['0', '0.0864', '17.2', '1230', '3.1e+08', 'inf']
    """
    text = f"{value:.{digits}g}"
    return f"{float(text):.0f}" if 10**digits <= abs(value) < 1e6 else text


def cell(values: np.ndarray) -> str:
    """Format the values of the seeds [S]: the mean with the 95 % interval.

    If some are infinite, it is the median and the share that is infinite; '-' if none is known.

    >>> cell(np.array([1.0, 2.0, 3.0])), cell(np.array([5.0, 7.0, 9.0, np.inf])), cell(np.array([np.nan]))
    ('2 ± 2.5', '7; 25% inf', '-')
    """
    known = values[~np.isnan(values)]
    if not len(known):
        return "-"
    infinite = np.isinf(known).mean()
    if infinite == 1:
        return "inf"
    if infinite:
        return f"{_short(float(np.quantile(known, 0.5, method='lower')))}; {infinite:.0%} inf"
    found = interval(known)
    half = found["ci95"] or 0.0
    return _short(found["mean"]) + (f" ± {_short(half, 2)}" if half > ROUNDING * abs(found["mean"]) else "")


def _blocks(names: list[str], columns: list[list[str]], labels: list[str]) -> list[str]:
    """Arrange columns [points][quantities] beside their labels, as many points in a block as a line holds."""
    first = max(map(len, labels))
    widths = [max(map(len, (name, *column))) for name, column in zip(names, columns)]
    lines: list[str] = []
    begin = 0
    while begin < len(names):
        end, used = begin, first
        while end < len(names) and (end == begin or used + 2 + widths[end] <= WIDTH):
            used, end = used + 2 + widths[end], end + 1
        of_block = range(begin, end)
        lines += [""] if begin else []
        lines.append("  ".join(["".ljust(first), *(names[k].rjust(widths[k]) for k in of_block)]))
        for row, label in enumerate(labels):
            lines.append("  ".join([label.ljust(first), *(columns[k][row].rjust(widths[k]) for k in of_block)]))
        begin = end
    return lines


def table(points: Sequence[Point], observed: Sequence[Observed | None]) -> str:
    """Arrange the quantities of a study's points as a table: a row for each quantity that a point has.

    Args:
      points: the points.
      observed: what `mdfl_jax.theory.network.of_study` has found for each; points with None are left out.
    """
    pairs = [(point.id, found) for point, found in zip(points, observed) if found]
    of_point = lambda found, name: cell(found.values.get(name, np.array([np.nan])))  # noqa: E731
    shown = [name for name in QUANTITIES.as_registered() if any(of_point(found, name) != "-" for _, found in pairs)]
    columns = [[of_point(found, name) for name in shown] for _, found in pairs]
    return "\n".join(_blocks([name for name, _ in pairs], columns, [QUANTITIES[name].label for name in shown]))


def as_json(points: Sequence[Point], observed: Sequence[Observed | None], config: ConfigDict) -> dict[str, Any]:
    """Return the same numbers for a JSON file, with those of each seed and the curves of the pictures.

    Infinite values are the text 'inf', and unknown ones None.

    Args:
      points, observed: as in `table`.
      config: the study's configuration, of which the seeds and the rounds are noted.
    """
    content = []
    for point, found in zip(points, observed):
        if found is None:
            continue
        values = {name: [_plain(v) for v in of] for name, of in found.values.items()}
        curves = {
            "window": found.window.tolist(),
            "window_p": found.window_p.mean(0).tolist(),
            "union": found.union.tolist(),
            "connected": found.connected.mean(0).tolist(),
        }
        content.append({"point": point.id, "overrides": point.overrides, "per_seed": values, "curves": curves})
    told = {
        name: {"label": QUANTITIES[name].label, "source": QUANTITIES[name].source}
        for name in QUANTITIES.as_registered()
    }
    seeds = list(range(config.first_seed, config.first_seed + config.seeds))
    return {"seeds": seeds, "rounds": config.rounds, "quantities": told, "points": content}


def _plain(value: float) -> float | str | None:
    if math.isnan(value):
        return None
    return float(value) if math.isfinite(value) else str(float(value))
