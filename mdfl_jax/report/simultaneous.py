"""Simultaneous intervals of many differences that are paired by seed: all of them hold together with 95 % probability.

The largest of many t statistics is larger than a single one, so each interval is wider than Student's: its factor is
the 0.95 quantile of max |t| (Westfall and Young, Resampling-Based Multiple Testing, 1993). The distribution is that of
the measured differences themselves, centred, with a random sign for each seed. Differences that go together, as those
of like settings, then cost little; and there may be many more of them than seeds. Fewer than ten seeds have too few
signs for this, and get Bonferroni's factor, which is wider.
"""

import math
from typing import NamedTuple

import numpy as np

from mdfl_jax.core.outcomes import t_quantile

LEVEL = 0.95
DRAWS = 4_999
LEAST_SEEDS = 10  # 512 signs that differ in more than the sign of all


class Differences(NamedTuple):
    """Means over the seeds with simultaneous intervals.

    Attributes:
      mean: [K]; NaN where fewer than two seeds have a difference.
      half: [K] half-width of the simultaneous interval; NaN where it is not known.
      alone: [K] half-width of Student's interval, of each difference by itself.
      factor: what `half` is in standard errors, for differences of all seeds; NaN if there are none.
    """

    mean: np.ndarray
    half: np.ndarray
    alone: np.ndarray
    factor: float


def simultaneous(differences: np.ndarray, draws: int = DRAWS) -> Differences:
    """Return the means of differences over the seeds, with intervals that hold together.

    A difference that lacks the value of a seed is not drawn with the others. Its interval has Bonferroni's factor for
    its own number of seeds, so that all intervals still hold together.

    Args:
      differences: [S, K] for each seed and comparison; NaN where a seed has none.
      draws: the number of random signs.
    """
    values = np.asarray(differences, np.float64)
    known = np.isfinite(values)
    count = known.sum(axis=0)
    filled = np.where(known, values, 0.0)
    enough = count > 1
    mean = np.where(enough, filled.sum(axis=0) / np.maximum(count, 1), np.nan)
    centred = np.where(known, values - mean, 0.0)
    error = np.sqrt((centred**2).sum(axis=0) / np.maximum((count - 1) * count, 1))
    alone = np.array([t_quantile(n - 1) * e if n > 1 else np.nan for n, e in zip(count, error)])
    whole = enough & (count == len(values))
    some = enough & ~whole
    # Where some are incomplete, each of the two families has half of what may fail.
    level = LEVEL + (1 - LEVEL) / 2 if whole.any() and some.any() else LEVEL
    factor = _factor(centred[:, whole & (error > 0)], draws, level) if whole.any() else math.nan
    half = np.where(whole, factor * error, np.nan)
    for k in np.flatnonzero(some):
        half[k] = _bonferroni(level, int(some.sum()), int(count[k])) * error[k]
    return Differences(mean, half, alone, factor)


def _bonferroni(level: float, count: int, seeds: int) -> float:
    """Return the factor with which so many intervals hold together, whatever their differences have in common."""
    from scipy.special import stdtrit  # importing it takes a sixth of a second, which other panels do not need

    return float(stdtrit(seeds - 1, 1 - (1 - level) / max(count, 1) / 2))


def _factor(centred: np.ndarray, draws: int, level: float = LEVEL) -> float:
    """Return the quantile of max |t| of centred differences [S, K] under random signs, at least Student's."""
    seeds, count = centred.shape
    if seeds < LEAST_SEEDS or count < 2:
        return _bonferroni(level, count, seeds)
    signs = np.random.default_rng(0).choice((-1.0, 1.0), (draws, seeds))
    squares = (centred**2).sum(axis=0)  # no sign changes them
    largest = np.zeros(draws)
    for first in range(0, count, 256):
        part = slice(first, first + 256)
        means = signs @ centred[:, part] / seeds
        variance = np.maximum(squares[part] - seeds * means**2, 1e-30 * squares[part]) / (seeds - 1) / seeds
        largest = np.maximum(largest, np.max(np.abs(means) / np.sqrt(variance), axis=1))
    return max(_bonferroni(level, 1, seeds), float(np.quantile(largest, level, method="higher")))
