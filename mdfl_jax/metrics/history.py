"""The values of a run's metrics, together with their declarations."""

from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np

from mdfl_jax.core.metric import Metric
from mdfl_jax.core.types import Array


@jax.tree_util.register_pytree_with_keys_class
class Metrics(Mapping[str, Array]):
    """The values of all metrics at one evaluation of one run, or stacked values of many evaluations and runs.

    A history stacks E evaluations, [E, ...]. The histories of S runs are stacked before that axis, [S, E, ...].
    ``metrics["accuracy"]`` and ``metrics.accuracy`` are the same. The entry ``round``, [] int32, is the number of
    rounds since the start. All other entries are metrics in the order of ``declared``, with the shapes declared there.
    In a history, metrics of shape (rounds, ...) have the rounds of all evaluations in one axis. The object is a pytree
    whose leaves are the values.
    """

    def __init__(self, declared: tuple[Metric, ...], values: Mapping[str, Array]):
        self.declared = declared
        self._values = {"round": values["round"]} | {metric.name: values[metric.name] for metric in declared}

    def __getitem__(self, name: str) -> Array:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getattr__(self, name: str) -> Array:
        if name.startswith("_") or name not in self._values:
            raise AttributeError(f"no metric is called {name!r}; there are {', '.join(self)}")
        return self._values[name]

    def replace(self, values: Mapping[str, Array]) -> "Metrics":
        """Return a copy in which the given names have the given values."""
        return Metrics(self.declared, {**self, **values})

    def tree_flatten_with_keys(self) -> tuple[list[tuple[Any, Array]], tuple[Metric, ...]]:
        """Return the leaves with their keys, and the declarations. JAX calls this method."""
        return [(jax.tree_util.GetAttrKey(name), value) for name, value in self.items()], self.declared

    @classmethod
    def tree_unflatten(cls, declared: tuple[Metric, ...], leaves: Any) -> "Metrics":
        """Make the object again from its declarations and leaves. JAX calls this method."""
        return cls(declared, dict(zip(("round", *(metric.name for metric in declared)), leaves)))


def by_round(metrics: Metrics) -> dict[str, Array]:
    """Return the metrics of shape (rounds, ...), by name."""
    return {metric.name: metrics[metric.name] for metric in metrics.declared if metric.by_round}


def as_history(metrics: Metrics, axis: int) -> Metrics:
    """Turn one evaluation into a history with E = 1.

    Every value gets a new axis at ``axis``, except for the metrics that already have an axis of rounds there.
    """
    new = lambda leaf: leaf[(slice(None),) * axis + (None,)]  # noqa: E731
    own = by_round(metrics)
    return metrics.replace({name: new(value) for name, value in metrics.items() if name not in own})


def standing_still(metrics: Metrics, eval_every: int) -> Metrics:
    """Make the next evaluation of runs that the stop rule has all ended, from each metric's ``still``.

    Args:
      metrics: a history with NumPy leaves [runs, E, ...]. Only the last evaluation is used.
      eval_every: the number of rounds between two evaluations.

    Returns:
      One evaluation, [runs, 1, ...]; metrics of shape (rounds, ...) have ``eval_every`` in place of 1.
    """
    values = {"round": metrics.round[:, -1:] + eval_every}
    for metric in metrics.declared:
        last = metrics[metric.name][:, -1:]
        if metric.by_round:
            last = np.repeat(last, eval_every, axis=1)
        values[metric.name] = last if metric.still is None else np.full_like(last, metric.still)
    return metrics.replace(values)
