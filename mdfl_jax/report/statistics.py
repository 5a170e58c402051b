"""Statistics over seeds: means with 95 % intervals, and differences that are paired by seed or not."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mdfl_jax.core import outcomes

Values = Sequence[float] | np.ndarray


def interval(values: Values) -> dict[str, Any]:
    """Return mean, standard deviation and half-width of the 95 % Student-t interval of values [S] over the seeds.

    Seeds without a value (NaN), as those whose runs have diverged, are left out, and 'seeds' then counts the others.
    What is not known is None: all of no values or of infinite ones, and all but the mean of one value.

    >>> interval([0.5])
    {'mean': 0.5, 'std': None, 'ci95': None}
    """
    found = outcomes.interval_of_known(values) if len(values) else dict.fromkeys(("mean", "std", "ci95"))
    return {key: None if value is None or not math.isfinite(value) else value for key, value in found.items()}


def with_seeds(values: Values) -> dict[str, Any]:
    """Return the `interval` of values [S], and the values themselves as 'per_seed'."""
    return interval(values) | {"per_seed": [float(value) for value in values]}


def band(values: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the means [E] of values [S, E] over the seeds, and the half-widths [E] of their 95 % Student-t intervals.

    With one seed there are no half-widths (None).
    """
    seeds, means = len(values), values.mean(0)
    if seeds < 2:
        return means, None
    return means, outcomes.t_quantile(seeds - 1) * values.std(0, ddof=1) / np.sqrt(seeds)


def welch(a: Values, b: Values) -> dict[str, Any]:
    """Return the difference of two means, a - b, of values that are not paired.

    The interval is that of Welch (Biometrika 34, 1947): the variances may differ. Its degrees of freedom are
    (v_a + v_b)^2 / (v_a^2 / (n_a - 1) + v_b^2 / (n_b - 1)), where v is the variance of a mean.

    Args:
      a, b: [S_a] and [S_b] the values of the seeds.

    Returns:
      'mean' and 'ci95', the half-width of the 95 % interval; None where it is not known, as with one seed.
    """
    first, second = np.asarray(a, float), np.asarray(b, float)
    if not len(first) or not len(second) or not np.isfinite([*first, *second]).all():
        return {"mean": None, "ci95": None}
    mean = float(first.mean() - second.mean())
    if min(len(first), len(second)) < 2:
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
    found = interval([a[seed] - b[seed] for seed in common])
    return {"mean": found["mean"], "ci95": found["ci95"], "paired": True, "seeds": len(common)}
