"""How many seeds a study needs: the power of its paired differences over the seeds. It does not use JAX.

A difference of two sweep points is tested by Student's t over the differences of the single seeds, two-sided at 5 %.
Under a true difference d and a standard deviation s of the single differences, the t of n seeds has a noncentral t
distribution with n - 1 degrees of freedom and the noncentrality d sqrt(n) / s (Cohen, Statistical Power Analysis for
the Behavioral Sciences, 1988, chapter 2). The power is the probability that the test finds the difference.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mdfl_jax.core.outcomes import t_quantile

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


def of_differences(differences: Mapping[str, Sequence[float] | np.ndarray]) -> dict[str, Any] | None:
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


def told(power: Mapping[str, Any]) -> str:
    """Return the entry `power` of summary.json in words: from the most certain difference to the least certain one."""
    order = sorted(power["points"], key=lambda point: point["smallest_difference"])
    sure, unsure = order[0], order[-1]
    counts = sorted({point["seeds"] for point in order})
    needed = sorted({point["seeds_for_difference"] for point in order})
    seeds, many = (" to ".join(map(str, sorted({of[0], of[-1]}))) for of in (counts, needed))
    apart = [f"{100 * point['smallest_difference']:.1f}" for point in (sure, unsure)]
    tells = apart[0] if len(order) == 1 else f"{apart[0]} ({sure['id']}) to {apart[1]} ({unsure['id']})"
    return (
        f"{seeds} seeds find true differences of at least {tells} percentage points "
        f"({100 * power['power']:.0f} % power, paired by seed); {many} seeds find {100 * power['difference']:g} points"
    )
