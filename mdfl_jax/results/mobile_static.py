"""Metrics by group: the mobile clients and the others. Under random_walk the mobile clients are the fast ones.

See the thesis, section 6.3 and appendix B. Its "cumulative number of neighbours" adds up |M_i(t_k)|, the contacts of
each round, over the rounds. A client that is met in two rounds counts twice. (With 48 clients each has 47 others, and
the clients of both groups soon have met all of them.) Here a client is not its own neighbour, so the count is that of
the thesis minus one for each round.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mdfl_jax.core.metric import GROUPS
from mdfl_jax.metrics.history import Metrics
from mdfl_jax.results import samples


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


def group_line(metrics: Metrics, e: int, is_mobile: np.ndarray) -> dict[str, float]:
    """Return the entries for the groups at the e-th evaluation in metrics.jsonl: keys such as 'accuracy_mobile'."""
    weights = samples.weights_at(metrics, e)
    return {
        f"{metric.in_files}_{name}": float(mean)
        for metric in metrics.declared
        if metric.by_group
        for name, mean in by_group(
            metric.on_host(metrics[metric.name][e]), is_mobile, weights if metric.sampled else None
        ).items()
    }


def group_summary(
    metrics: Mapping[str, np.ndarray], is_mobile: np.ndarray, statistic: Callable[[np.ndarray], dict[str, Any]]
) -> dict[str, Any]:
    """Return what summary.json says of the groups of a point.

    Args:
      metrics: The metrics of the point by name, NumPy arrays [S, E, ...].
      is_mobile: [S, N] bool, which clients are mobile.
      statistic: A function of values over the seeds, [S].

    Returns:
      group_accuracy: The accuracy of both groups at the end.
      group_gap: The accuracy of the mobile clients minus that of the others: ``final``, at the end, and ``mean``, over
        the evaluations without the first one, at which all clients have the same model.
      group_neighbours: The contacts of a client over the whole run, for both groups.
    """
    accuracy = by_group(metrics["accuracy"], is_mobile[:, None], metrics.get(samples.KEY))  # [S, E]
    gap = accuracy["mobile"] - accuracy["other"]
    rounds = np.diff(metrics["rounds_done"], axis=1)[:, :, None]  # 0 after a run has stopped
    contacts = (np.nan_to_num(metrics["num_neighbours"][:, 1:].astype(np.float64)) * rounds).sum(axis=1)  # [S, N]
    return {
        "group_accuracy": {name: statistic(values[:, -1]) for name, values in accuracy.items()},
        "group_gap": {"mean": statistic(gap[:, 1:].mean(axis=1)), "final": statistic(gap[:, -1])},
        "group_neighbours": {name: statistic(values) for name, values in by_group(contacts, is_mobile).items()},
    }
