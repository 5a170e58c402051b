"""What the files say of evaluations of a sample of clients and of test samples (`mdfl_jax.metrics.sampling`)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mdfl_jax.core.outcomes import number
from mdfl_jax.results.records import Record

KEY = "evaluated"  # the metric [..., N] with the number of clients for which each evaluated client stands
INTERVAL = "sampling_error_ci95"  # the half-width of the interval that sampling adds, in a line of metrics.jsonl


def weights_at(metrics: Mapping[str, np.ndarray], e: int) -> np.ndarray | None:
    """Return the weights [N] of the clients in a mean at the e-th evaluation; None if all clients were evaluated.

    Args:
      metrics: The metrics of a run by name, [E, ...].
      e: The index of the evaluation.
    """
    weights = metrics[KEY][e] if KEY in metrics else None
    return None if weights is None or (weights > 0).all() else weights


def mean_over_clients(values: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Return the mean over the clients, or its estimate where only a sample of them was evaluated.

    Args:
      values: [..., N] one value for each client, NaN for those that were not evaluated.
      weights: [..., N] their weights, 0 for those that were not evaluated; None: all were.

    Returns:
      [...] float64.

    >>> mean_over_clients(np.array([[1.0, np.nan, 4.0], [1.0, 2.0, 3.0]]), np.array([[1, 0, 2], [1, 1, 1]])).tolist()
    [3.0, 2.0]
    """
    plain = values.mean(axis=-1, dtype=np.float64)
    if weights is None:
        return plain
    known = weights > 0
    weighted = np.where(known, values.astype(np.float64) * weights, 0.0).sum(axis=-1) / weights.sum(axis=-1)
    return np.where(known.all(axis=-1), plain, weighted)


def summary(records: Sequence[Record]) -> dict[str, Any]:
    """Return the entry 'sampling' of a point in summary.json; none if all clients were evaluated on all test samples.

    Args:
      records: The records of the point, one for each seed.

    Returns:
      ``ci95``: the largest half-width, over the evaluations, of the 95 % interval that sampling adds to the mean
      accuracy over clients and seeds; ``round``: the round of that evaluation; ``mean_ci95``: the mean of these
      half-widths over the evaluations of a sample. The seeds have samples of their own, so the half-width is
      sqrt(sum_s h_s^2) / S for those of the seeds, h_s. If no evaluation is of a sample, the interval is 0; if all of
      them are of models that are not finite, it is NaN.
    """
    if INTERVAL not in records[0].lines[0]:
        return {}
    half = np.array([[number(line.get(INTERVAL)) for line in record.lines] for record in records])  # [S, E]
    of_mean = np.sqrt(np.square(half).sum(axis=0)) / len(records)
    inner = of_mean[1:-1]
    if not np.isfinite(inner).any():
        nothing = float("nan") if len(inner) else 0.0
        return {"sampling": {"ci95": nothing, "round": None, "mean_ci95": nothing}}
    worst, rounds = int(np.nanargmax(inner)), records[0].rounds[1:-1]
    found = {"ci95": float(inner[worst]), "round": int(rounds[worst]), "mean_ci95": float(np.nanmean(inner))}
    return {"sampling": found}
