"""The lines of metrics.jsonl, and the accuracy by which points are compared."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from mdfl_jax.core.metric import SCHEMA
from mdfl_jax.metrics.history import Metrics
from mdfl_jax.results import samples
from mdfl_jax.results.mobile_static import group_line


def unmeasured(values: np.ndarray) -> bool:
    """Tell whether a metric [S, E, ...] was not measured: all its values before the first round are NaN."""
    return bool(np.isnan(values[:, 0]).all())


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
    return samples.mean_over_clients(metrics["accuracy"], metrics.get(samples.KEY))


def metric_lines(
    point: str, seed: int, metrics: Metrics, is_mobile: np.ndarray, double_bits: float | None
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
        weights = samples.weights_at(metrics, e)
        for metric in metrics.declared:
            if metric.by_round:
                continue
            values = metric.on_host(metrics[metric.name][e])
            line[metric.in_files] = metric.number(values, weights)
            more = {name: metric.reduced(of, values, weights) for name, of in metric.more.items()}
            line |= {f"{metric.in_files}_{name}": value for name, value in more.items()}
            if metric.name == "bits":  # the count of PaME is written as well
                line["double_bits"] = _times(line["messages"], double_bits)
        yield line | group_line(metrics, e, is_mobile)
