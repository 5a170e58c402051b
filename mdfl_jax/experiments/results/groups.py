"""Metrics by group: the mobile clients, which are the fast ones under random_walk, and the others.

The thesis's section 6.3 and appendix B. Its "cumulative number of neighbours" adds up |M_i(t_k)|, the contacts of each
round, over the rounds: a client met in two rounds counts twice (48 clients have 47 others, which both groups soon have
met). A client is no neighbour of its own here, so the counts are the thesis's less one a round.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from mdfl_jax.metrics.declare import GROUPS
from mdfl_jax.metrics.history import Metrics


def group_mean(values: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Mean over the clients of a group; NaN where it is empty.

    Args:
      values: [..., N].
      members: [..., N] bool, broadcast against ``values``.

    Returns:
      [...] float64.

    >>> group_mean(np.array([[1.0, 2.0, 6.0]]), np.array([False, True, True])).tolist()
    [4.0]
    """
    members = np.broadcast_to(members, values.shape)
    count = members.sum(axis=-1)
    total = np.where(members, values, 0.0).sum(axis=-1, dtype=np.float64)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def by_group(values: np.ndarray, is_mobile: np.ndarray) -> dict[str, np.ndarray]:
    """`group_mean` of both groups, by the names of `mdfl_jax.metrics.declare.GROUPS`."""
    return {name: group_mean(values, members) for name, members in zip(GROUPS, (is_mobile, ~is_mobile))}


def group_line(metrics: Metrics, e: int, is_mobile: np.ndarray) -> dict[str, float]:
    """What a line of metrics.jsonl says of the groups, of the e-th evaluation: keys such as 'accuracy_mobile'."""
    return {
        f"{metric.in_files}_{name}": float(mean)
        for metric in metrics.declared
        if metric.by_group
        for name, mean in by_group(metric.on_host(metrics[metric.name][e]), is_mobile).items()
    }


def group_summary(
    metrics: Metrics, is_mobile: np.ndarray, statistic: Callable[[np.ndarray], dict[str, Any]]
) -> dict[str, Any]:
    """What summary.json says of the groups of a point.

    Args:
      metrics: NumPy leaves [S, E, ...].
      is_mobile: [S, N] bool.
      statistic: of values over seeds, [S].

    Returns:
      group_accuracy: at the end, of both groups.
      group_gap: accuracy of the mobile less that of the others: ``mean`` over the evaluations after the first, where
        all have one model, and ``final``.
      group_neighbours: contacts of a client from the start to the end, of both groups.
    """
    accuracy = by_group(metrics.accuracy, is_mobile[:, None])  # [S, E]
    gap = accuracy["mobile"] - accuracy["other"]
    rounds = np.diff(metrics.rounds_done, axis=1)[:, :, None]  # none after the stop
    contacts = (np.nan_to_num(metrics.num_neighbours[:, 1:].astype(np.float64)) * rounds).sum(axis=1)  # [S, N]
    return {
        "group_accuracy": {name: statistic(values[:, -1]) for name, values in accuracy.items()},
        "group_gap": {"mean": statistic(gap[:, 1:].mean(axis=1)), "final": statistic(gap[:, -1])},
        "group_neighbours": {name: statistic(values) for name, values in by_group(contacts, is_mobile).items()},
    }
