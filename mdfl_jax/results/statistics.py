"""Statistics over seeds: means with 95 % intervals, and differences that are paired by seed or not.

Simultaneous intervals of many differences all hold together with 95 % probability. The largest of many t statistics is
larger than a single one, so each interval is wider than Student's: its factor is the 0.95 quantile of max |t| (Westfall
and Young, Resampling-Based Multiple Testing, 1993). The distribution is that of the measured differences themselves,
centred, with a random sign for each seed. Differences that go together, as those of like settings, then cost little;
and there may be many more of them than seeds. Fewer than ten seeds have too few signs for this, and get Bonferroni's
factor, which is wider.

Intervals of means fail where a few seeds collapse: of a tenth that may lie far away, a sample may hold none. A
difference whose seeds show this (`collapses`) is reported as its median, with the interval of the sign test (Conover,
Practical Nonparametric Statistics, 1999, section 3.2): two of the sorted values, whatever the distribution.

How many seeds a study needs: a difference of two sweep points is tested by Student's t over the differences of the
single seeds, two-sided at 5 %. Under a true difference d and a standard deviation s of the single differences, the t of
n seeds has a noncentral t distribution with n - 1 degrees of freedom and the noncentrality d sqrt(n) / s (Cohen,
Statistical Power Analysis for the Behavioral Sciences, 1988, chapter 2). The power is the probability that the test
finds the difference.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mdfl_jax.core import outcomes
from mdfl_jax.core.outcomes import t_quantile

Values = Sequence[float] | np.ndarray


def band(values: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the means [E] of values [S, E] over the seeds, and the half-widths [E] of their 95 % Student-t intervals.

    With fewer than `mdfl_jax.core.outcomes.FEWEST` seeds there are no half-widths (None).
    """
    seeds, means = len(values), values.mean(0)
    if seeds < outcomes.FEWEST:
        return means, None
    return means, outcomes.t_quantile(seeds - 1) * values.std(0, ddof=1) / np.sqrt(seeds)


def welch(a: Values, b: Values) -> dict[str, Any]:
    """Return the difference of two means over seeds, a - b, of values [S_a] and [S_b] that are not paired.

    The interval is that of Welch (Biometrika 34, 1947): the variances may differ. Its degrees of freedom are
    (v_a + v_b)^2 / (v_a^2 / (n_a - 1) + v_b^2 / (n_b - 1)), where v is the variance of a mean. 'ci95' is the half-width
    of the 95 % interval; it and 'mean' are None where they are not known, as with two seeds.
    """
    first, second = np.asarray(a, float), np.asarray(b, float)
    if not len(first) or not len(second) or not np.isfinite([*first, *second]).all():
        return {"mean": None, "ci95": None}
    mean = float(first.mean() - second.mean())
    if min(len(first), len(second)) < outcomes.FEWEST:
        return {"mean": mean, "ci95": None}
    variances = [values.var(ddof=1) / len(values) for values in (first, second)]
    total = sum(variances)
    if total == 0:
        return {"mean": mean, "ci95": 0.0}
    parts = sum(v**2 / (len(values) - 1) for v, values in zip(variances, (first, second)))
    return {"mean": mean, "ci95": outcomes.t_quantile(total**2 / parts) * math.sqrt(total)}


def difference(a: Mapping[int, float], b: Mapping[int, float], paired: bool = True) -> dict[str, Any]:
    """Return the difference of the means of two sweep points, a - b.

    Args:
      a, b: the value of each seed; NaN where the run has diverged, which is left out.
      paired: whether runs of the same seed share data and places. The difference is then that of their common seeds;
        without a common seed it is not paired.

    Returns:
      'mean', 'ci95', 'paired', and 'seeds', the number of pairs (None if it is not paired).
    """
    a, b = ({seed: value for seed, value in of.items() if not math.isnan(value)} for of in (a, b))
    common = [seed for seed in a if seed in b]
    if not paired or not common:
        return welch(list(a.values()), list(b.values())) | {"paired": False, "seeds": None}
    found = outcomes.interval_of_known([a[seed] - b[seed] for seed in common])
    return {"mean": found["mean"], "ci95": found["ci95"], "paired": True, "seeds": len(common)}


LEVEL = 0.95
DRAWS = 4_999
LEAST_SEEDS = 10  # 512 signs that differ in more than the sign of all


FARTHEST, OF_SQUARES = 0.2, 0.9


class Differences(NamedTuple):
    """Means or medians over the seeds with simultaneous intervals.

    Attributes:
      mean: [K], the median where ``is_median``; NaN where fewer than two seeds have a difference.
      half: [K] half-width of the simultaneous interval; NaN where it is not known.
      alone: [K] half-width of the interval of each difference by itself.
      factor: what `half` is in standard errors, for means of all seeds; NaN if there are none.
      is_median: [K] bool, whether a few seeds collapse, so that the median is reported.
    """

    mean: np.ndarray
    half: np.ndarray
    alone: np.ndarray
    factor: float
    is_median: np.ndarray


def collapses(values: np.ndarray) -> bool:
    """Tell whether a few seeds lie so far from the others that a mean with Student's interval misleads.

    It does if the farthest fifth of the seeds holds nine tenths of the squared distances from the median. Of normal
    values, 10 show this once in 100 times and 20 once in 2,500. If a tenth of 20 seeds lies ten standard deviations
    away, nine of ten such samples show it. Fewer than `LEAST_SEEDS` seeds cannot.

    >>> collapses(np.r_[np.arange(18), -200, -210])
    True
    >>> collapses(np.arange(20))
    False
    """
    if len(values) < LEAST_SEEDS:
        return False
    squares = np.sort((values - np.median(values)) ** 2)
    return bool(squares[-int(FARTHEST * len(values)) :].sum() > OF_SQUARES * squares.sum())


def median_interval(values: np.ndarray, level: float = LEVEL) -> tuple[float, float]:
    """Return the median of values [S] and the half-width that holds the sign test's interval to both sides.

    The half-width is NaN if the smallest and the largest value are no interval of this level.

    >>> median_interval(np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]))
    (5.0, 3.0)
    """
    from scipy.special import bdtr

    ordered, seeds = np.sort(values), len(values)
    median = float(np.median(ordered))
    left_out = int(np.sum(bdtr(np.arange(seeds // 2), seeds, 0.5) <= (1 - level) / 2))  # at each end
    if not left_out:
        return median, math.nan
    return median, float(max(median - ordered[left_out - 1], ordered[-left_out] - median))


def simultaneous(differences: np.ndarray, draws: int = DRAWS) -> Differences:
    """Return the means of differences [S, K] over the seeds, with intervals that hold together.

    Each difference is of one of three kinds, and the kinds share equally what may fail. Means of all seeds are drawn
    together. NaN stands for a difference that a seed does not have: such a mean has Bonferroni's factor for its own
    number of seeds. Where a few seeds collapse, the median is reported, also with Bonferroni's level, unless so many
    collapse that no intervals of medians hold together.
    """
    values = np.asarray(differences, np.float64)
    known = np.isfinite(values)
    count = known.sum(axis=0)
    enough, complete = count > 1, count == len(values)
    mean = np.where(enough, np.where(known, values, 0.0).sum(axis=0) / np.maximum(count, 1), np.nan)
    centred = np.where(known, values - mean, 0.0)
    error = np.sqrt((centred**2).sum(axis=0) / np.maximum((count - 1) * count, 1))
    alone = np.array([t_quantile(n - 1) * e if n > 1 else np.nan for n, e in zip(count, error)])

    def divided(few: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """Return which means are of all seeds, which of some, and the level of the intervals of each kind."""
        kinds = (enough & complete & ~few, enough & ~complete & ~few, few)
        return *kinds[:2], 1 - (1 - LEVEL) / max(sum(map(np.any, kinds)), 1)

    few = np.array([collapses(column[of]) for column, of in zip(values.T, known.T)], bool)
    whole, some, level = divided(few)
    of_each = 1 - (1 - level) / max(int(few.sum()), 1)
    medians = {k: median_interval(values[known[:, k], k], of_each) for k in np.flatnonzero(few)}
    if any(math.isnan(half) for _, half in medians.values()):
        medians, few = {}, np.zeros_like(few)
        whole, some, level = divided(few)
    factor = _factor(centred[:, whole & (error > 0)], draws, level) if whole.any() else math.nan
    half = np.where(whole, factor * error, np.nan)
    for k in np.flatnonzero(some):
        half[k] = _bonferroni(level, int(some.sum()), int(count[k])) * error[k]
    for k, found in medians.items():
        mean[k], half[k] = found
        alone[k] = median_interval(values[known[:, k], k])[1]
    return Differences(mean, half, alone, factor, few)


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


POWER = 0.8  # the usual demand on a study: it finds the difference in four of five repetitions
CLAIMED = 0.02  # the size of the papers' claims about movement, in accuracy


def smallest_difference(std: float, seeds: int) -> float:
    """Return the smallest true difference that so many seeds find with 80 % power.

    The test may also find a difference of the wrong sign. This has a probability below 1e-6 here and is left out.

    Args:
      std: the standard deviation of the difference of one seed, in any unit.
      seeds: the number of seeds n, at least 2.

    Returns:
      The difference, in the unit of ``std``.

    >>> round(smallest_difference(2.0, 6), 2)
    2.87
    """
    from scipy.special import nctdtrinc  # importing it takes a sixth of a second, which no study needs before it runs

    noncentrality = float(nctdtrinc(seeds - 1, 1 - POWER, t_quantile(seeds - 1)))
    return noncentrality * std / math.sqrt(seeds)


def seeds_for(std: float, difference: float = CLAIMED) -> int:
    """Return the smallest number of seeds that find a true difference with 80 % power, at least 2.

    Args:
      std: the standard deviation of the difference of one seed.
      difference: the true difference, above 0, in the same unit.

    >>> seeds_for(0.023)  # for two points
    13
    """
    few, enough = 1, 2
    while smallest_difference(std, enough) > difference:
        few, enough = enough, 2 * enough
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (few, middle) if smallest_difference(std, middle) <= difference else (middle, enough)
    return enough


def power_of(differences: Mapping[str, Sequence[float] | np.ndarray]) -> dict[str, Any] | None:
    """Return the power of a study from the paired differences of its sweep points.

    Args:
      differences: for each sweep point, by its id, its differences [n] to the point that it is compared with, a value
        for each seed, in accuracy. Values that are not finite are those of runs that diverged, and are left out.

    Returns:
      The entry `power` of summary.json (docs/outputs.md). It has no entry for a point without two seeds whose
      differences differ; None if there is no other point.
    """
    found = []
    for name, values in differences.items():
        known = np.asarray(values, np.float64)
        known = known[np.isfinite(known)]
        if len(known) > 1 and (std := float(known.std(ddof=1))) > 0:
            least = smallest_difference(std, len(known))
            entry = {"id": name, "seeds": len(known), "std": std, "smallest_difference": least}
            found.append(entry | {"seeds_for_difference": seeds_for(std)})
    return {"power": POWER, "difference": CLAIMED, "points": found} if found else None


def power_in_words(power: Mapping[str, Any] | None) -> str:
    """Return the entry `power` of summary.json in words: the least differences that the seeds detect.

    Of points with fewer than `outcomes.FEWEST` seeds, and of differences above 100 points, nothing is said.
    """
    points = [of for of in (power or {}).get("points", ()) if of["seeds"] >= outcomes.FEWEST]
    points = [of for of in points if of["smallest_difference"] <= 1]
    if not power or not points:
        return ""

    def span(key: str, scale: float = 1.0) -> str:
        found = [scale * point[key] for point in points]
        return " to ".join(dict.fromkeys(f"{of:.2g}" if of < 10 else f"{of:.0f}" for of in (min(found), max(found))))

    return (
        f"Minimum detectable difference ({100 * power['power']:.0f} % power, {span('seeds')} seeds):"
        f" {span('smallest_difference', 100)} points; {100 * power['difference']:g} points take"
        f" {span('seeds_for_difference')} seeds."
    )
