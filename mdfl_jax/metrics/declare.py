"""The registry of the metrics of every study, and the list of the metrics of one simulation."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.core.metric import CLASSES, CLIENT_BYTES, CLIENTS, ROUNDS, Metric
from mdfl_jax.core.registry import Registry, caller

if TYPE_CHECKING:
    from mdfl_jax.core.types import Task

METRICS: Registry[Metric] = Registry("metric", home="mdfl_jax.metrics.built_in", contrib="predictions")

RESERVED = frozenset(
    (
        *("schema", "point", "seed", "round", "rounds", "double_bits"),
        *("is_mobile", "label_counts", "reached"),
        *("id", "overrides", "baseline", "diverged", "divergence"),
        *("compile_seconds", "run_seconds", "difference_to_baseline"),
        *("final_accuracy", "best_accuracy", "worst_client_accuracy", "group_accuracy", "group_gap"),
        *("rounds_to_target", "rounds_to_target_per_seed", "bits_to_target", "bits_to_target_per_seed"),
        *("bits_sent_per_client", "double_bits_per_client", "messages_per_client", "group_neighbours", "group_heard"),
        "distance_moved_per_mobile_client",
    )
)
"""Keys in the files of a study that are not metrics. No metric may use them."""


METRIC_NEEDS = {
    "over_test": "test samples of a data set",
    "num_labels": "test samples with labels, one each",
    "local_accuracy": "test samples with natural owners (the array client_test)",
    "labels_here": "clients that collect their samples (data.collect)",
}
"""The fields of `Task.scoring` that a metric may need, in words for error messages."""


def metric(name: str, *, still: float | None, **declared: Any) -> Callable[[Callable[[Any], Any]], Metric]:
    """Turn a function that measures a value into a metric of every study that is built afterwards (a decorator).

    Args:
      name: the name of the metric.
      still: the value of the metric after the stop rule has ended the run, as in `mdfl_jax.core.metric.Metric`.
      **declared: what else `mdfl_jax.core.metric.Metric` takes.

    Returns:
      The decorator.

    Raises:
      UserError: if a metric of another file has this name.
    """

    def add(measure: Callable[[Any], Any]) -> Metric:
        return METRICS.register(name, origin=caller())(Metric(name, measure, still, **declared))

    return add


def asked_for(text: str) -> tuple[str, ...]:
    """Return the names in a comma-separated list of metrics that are measured on request.

    Raises:
      UserError: if a name is that of no such metric.
    """
    names = tuple(dict.fromkeys(filter(None, (name.strip() for name in text.split(",")))))
    known = [name for name in METRICS.as_registered() if METRICS[name].on_request]
    for name in names:
        if name in METRICS and name not in known:
            raise UserError(f"metrics: {name!r} is measured in every study; on request are {', '.join(known)}")
        if name not in known:
            raise UserError(f"metrics: {unknown_name('metric on request', name, known)}")
    return names


def list_metrics(*brought: Sequence[Metric], asked: Sequence[str] = ()) -> tuple[Metric, ...]:
    """List the metrics of a simulation.

    Args:
      *brought: the metrics of the network itself, and those of the algorithm itself.
      asked: the names of the metrics that are measured on request, as `asked_for` returns them.

    Returns:
      The metrics of every study and those asked for, in the order of their registration, then those in ``brought``.

    Raises:
      UserError: if a declaration is wrong, or if two metrics have the same name or the same key.
    """
    found = [METRICS[name] for name in METRICS.as_registered() if not METRICS[name].on_request or name in asked]
    found += dict.fromkeys(own for metrics in brought for own in metrics)
    names: set[str] = set()
    keys = set(RESERVED)
    for one in found:
        if not one.name.isidentifier() or one.name.startswith("_"):
            raise UserError(f"a metric is called {one.name!r}; its name must be letters, digits and underscores")
        own_keys = [*(one.line_keys or [one.in_files]), *one.summary_keys]
        taken = [one.name] if one.name in names else sorted(keys.intersection(own_keys))
        if taken:
            raise UserError(f"the metric {one.name!r} needs the name {taken[0]!r}, which something else has")
        named = [axis for axis in one.shape if isinstance(axis, str)]
        if any(axis not in (CLIENTS, CLIENT_BYTES, CLASSES, ROUNDS) for axis in named) or ROUNDS in one.shape[1:]:
            raise UserError(
                f"the metric {one.name!r} has the shape {one.shape}; its axes are clients, classes or whole numbers"
            )
        if CLASSES in named and one.each_round:
            raise UserError(f"the metric {one.name!r} has an axis of classes, so it cannot have each_round")
        if one.by_round and one.still is not None and not one.each_round:
            raise UserError(
                f"the metric {one.name!r} has a value a round and no each_round; while a run stands still it can "
                "only hold"
            )
        if one.by_round and one.still != one.still and not one.rows.dtype.startswith("float"):
            raise UserError(
                f"the metric {one.name!r} is {one.rows.dtype}, which cannot be UNKNOWN while a run stands still"
            )
        names.add(one.name)
        keys.update(own_keys)
    return tuple(found)


def check_metrics(task: "Task", metrics: tuple[Metric, ...], eval_clients: int) -> None:
    """Check that a task has what the metrics need.

    Raises:
      UserError: if it does not, or if a metric of all clients is asked for where only ``eval_clients`` are evaluated.
    """
    for metric in metrics:
        if metric.scores.of_all and eval_clients:
            raise UserError(f"eval_clients is {eval_clients}; it must be 0 (all) with the metric {metric.name!r}")
        missing = [
            METRIC_NEEDS.get(field, field) for field in metric.scores.needs if getattr(task.scoring, field) is None
        ]
        if missing:
            raise UserError(f"metrics: {metric.name!r} needs {missing[-1]}, which this task does not have")
