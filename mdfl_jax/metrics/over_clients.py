"""Statistics over the clients: one number of the values of all clients, or of a weighted sample of them.

Each function takes the values [N] and, where only a sample was evaluated, its weights [N]: for how many clients each of
them stands. All are computed in double precision. With weights, each is the statistic of a population in which the
clients of the sample have these shares, an estimate of that of all clients. The smallest and the largest value are the
sample's.
"""

from typing import Any

import numpy as np

Weights = np.ndarray | None


def _double(values: np.ndarray) -> np.ndarray:
    return np.asarray(values, np.float64)


def smallest(values: np.ndarray, weights: Weights = None) -> Any:
    """Return the smallest value."""
    return _double(values).min()


def largest(values: np.ndarray, weights: Weights = None) -> Any:
    """Return the largest value."""
    return _double(values).max()


def mean(values: np.ndarray, weights: Weights = None) -> Any:
    """Return the mean."""
    return _double(values).mean() if weights is None else np.average(_double(values), weights=weights)


def variance(values: np.ndarray, weights: Weights = None) -> Any:
    """Return the variance, whose divisor is the number of clients."""
    if weights is None:
        return _double(values).var()
    return np.average(np.square(_double(values) - mean(values, weights)), weights=weights)


def deviation(values: np.ndarray, weights: Weights = None) -> Any:
    """Return the standard deviation, the root of the variance."""
    return _double(values).std() if weights is None else np.sqrt(variance(values, weights))


def worst_decile(values: np.ndarray, weights: Weights = None) -> Any:
    """Return the mean of the lowest tenth of the N values: of N // 10 of them, at least of one.

    With weights, each value stands for so many clients as its weight says, and these are N. The last value of the tenth
    counts with the part of its weight that is within it.
    """
    if weights is None:
        return np.sort(_double(values))[: max(len(values) // 10, 1)].mean()
    order = np.argsort(values, kind="stable")
    sorted_weights = _double(weights)[order]
    before = np.cumsum(sorted_weights) - sorted_weights
    within = np.clip(max(round(sorted_weights.sum()) // 10, 1) - before, 0, sorted_weights)
    return np.average(_double(values)[order], weights=within)


def jain(values: np.ndarray, weights: Weights = None) -> float:
    """Return Jain's fairness index (sum x)^2 / (N sum x^2), which is (mean x)^2 / mean x^2; NaN if all values are 0.

    It is 1 if all clients have the same accuracy and 1/N if one client has all of it (Jain, Chiu and Hawe, "A
    quantitative measure of fairness and discrimination", DEC-TR-301, 1984).
    """
    doubles = _double(values)
    if weights is not None:
        squares = np.average(np.square(doubles), weights=weights)
        return float(mean(values, weights) ** 2 / squares) if squares else float("nan")
    squares = len(doubles) * (doubles**2).sum()
    return float(doubles.sum() ** 2 / squares) if squares else float("nan")


def mean_of_known(values: np.ndarray) -> float:
    """Compute the mean of the values that are not NaN; NaN if all are NaN."""
    known = values[~np.isnan(values)]
    return float(known.mean(dtype=np.float64)) if len(known) else float("nan")
