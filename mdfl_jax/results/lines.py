"""The lines of metrics.jsonl: means over clients, over groups of them and over samples; the accuracy that is judged.

Groups are the mobile clients and the others. Under random_walk the mobile clients are the fast ones. See the thesis,
section 6.3 and appendix B. Its "cumulative number of neighbours" adds up |M_i(t_k)|, the contacts of each round, over
the rounds. A client that is met in two rounds counts twice. (With 48 clients each has 47 others, and the clients of
both groups soon have met all of them.) Here a client is not its own neighbour, so the count is that of the thesis minus
one for each round.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mdfl_jax.core.metric import GROUPS, SCHEMA

if TYPE_CHECKING:
    from mdfl_jax.metrics.history import Metrics

WEIGHT = "evaluated"  # the metric [..., N] with the number of clients for which each evaluated client stands
INTERVAL = "sampling_error_ci95"  # the half-width of the interval that sampling adds, in a line of metrics.jsonl


def weights_at(metrics: Mapping[str, np.ndarray], e: int) -> np.ndarray | None:
    """Return the weights [N] of the clients in a mean at the e-th evaluation; None if all clients were evaluated.

    Args:
      metrics: The metrics of a run by name, [E, ...].
      e: The index of the evaluation.
    """
    weights = metrics[WEIGHT][e] if WEIGHT in metrics else None
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


def group_mean(values: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Return the mean over the clients of a group, or NaN where the group is empty.

    Args:
      values: [..., N] one value for each client.
      members: [..., N] bool, the clients of the group; broadcast to the shape of ``values``.

    Returns:
      [...] float64 means.

    >>> group_mean(np.array([[1.0, 2.0, 6.0]]), np.array([False, True, True])).tolist()
    [4.0]
    """
    members = np.broadcast_to(members, values.shape)
    count = members.sum(axis=-1)
    total = np.where(members, values, 0.0).sum(axis=-1, dtype=np.float64)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def by_group(values: np.ndarray, is_mobile: np.ndarray, weights: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """Return `group_mean` of values [..., N] for both groups, by the names of `mdfl_jax.core.metric.GROUPS`.

    Args:
      values: [..., N] one value for each client.
      is_mobile: [..., N] bool.
      weights: [..., N], 0 for the clients that were not evaluated, which are left out. The others of a group have the
        same weight, since a sample of clients is drawn from each group separately. None: all were evaluated.
    """
    known = True if weights is None else weights > 0
    return {name: group_mean(values, members & known) for name, members in zip(GROUPS, (is_mobile, ~is_mobile))}


def group_line(metrics: "Metrics", e: int, is_mobile: np.ndarray) -> dict[str, float]:
    """Return the entries for the groups at the e-th evaluation in metrics.jsonl: keys such as 'accuracy_mobile'."""
    weights = weights_at(metrics, e)
    return {
        f"{metric.in_files}_{name}": float(mean)
        for metric in metrics.declared
        if metric.reduction.by_group
        for name, mean in by_group(
            metric.reduction.on_host(metrics[metric.name][e]), is_mobile, weights if metric.scores.sampled else None
        ).items()
    }


def _times(messages: float, size: float | None) -> float | None:
    return None if size is None else float(messages * size)


def accuracy_of(metrics: Mapping[str, np.ndarray], judged: str) -> np.ndarray:
    """Return the accuracy of runs, [S, E] float64, by which points are compared.

    Args:
      metrics: The metrics of the runs by name, NumPy arrays [S, E, ...].
      judged: "clients" for the mean over the clients, "global" for the judged model.
    """
    if judged == "global":
        return metrics["mean_model_accuracy"].astype(np.float64)
    return mean_over_clients(metrics["accuracy"], metrics.get(WEIGHT))


def metric_lines(
    point: str, seed: int, metrics: "Metrics", is_mobile: np.ndarray, double_bits: float | None
) -> Iterator[dict[str, Any]]:
    """Yield the lines of metrics.jsonl of one run, one for each evaluation.

    Args:
      point: The id of the sweep point.
      seed: The seed.
      metrics: The metrics of the run, NumPy leaves [E, ...].
      is_mobile: [N] bool, which clients are mobile.
      double_bits: The bits of one message as PaME counts them, or None.
    """
    for e in range(len(metrics.round)):
        line: dict[str, Any] = {"schema": SCHEMA, "point": point, "seed": seed, "round": int(metrics.round[e])}
        weights = weights_at(metrics, e)
        for metric in metrics.declared:
            if metric.by_round:
                continue
            values = metric.reduction.on_host(metrics[metric.name][e])
            line[metric.in_files] = metric.number(values, weights)
            more = {name: metric.reduced(of, values, weights) for name, of in metric.reduction.more.items()}
            line |= {f"{metric.in_files}_{name}": value for name, value in more.items()}
            if metric.name == "bits":  # the count of PaME is written as well
                line["double_bits"] = _times(line["messages"], double_bits)
        yield line | group_line(metrics, e, is_mobile)
