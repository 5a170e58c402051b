"""The metrics of every study, by name, and those of one simulation."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from mdfl_jax.errors import UserError
from mdfl_jax.metrics.declare import CLIENTS, ROUNDS, Metric
from mdfl_jax.registry import Registry

METRICS: Registry[Metric] = Registry("metric")

RESERVED = frozenset(
    (
        *("schema", "point", "seed", "round", "rounds", "seconds", "double_bits"),
        *("is_mobile", "label_counts", "reached"),
        *("id", "overrides", "baseline", "diverged", "compile_seconds", "run_seconds", "difference_to_baseline"),
        *("final_accuracy", "best_accuracy", "worst_client_accuracy", "group_accuracy", "group_gap"),
        *("rounds_to_target", "rounds_to_target_per_seed", "bits_to_target", "bits_to_target_per_seed"),
        *("bits_sent_per_client", "double_bits_per_client", "messages_per_client", "group_neighbours"),
        "distance_moved_per_mobile_client",
    )
)
"""Keys of the files that are no metric's."""


def metric(name: str, *, still: float | None, **declared: Any) -> Callable[[Callable[[Any], Any]], Metric]:
    """Decorator: makes a metric of the function that measures it, for every study that is built afterwards.

    Args:
      name: of the metric.
      still: what it is while a run stands still.
      **declared: the other fields of `mdfl_jax.metrics.declare.Metric`.

    Raises:
      UserError: for a name that a metric of another file has.
    """

    def add(measure: Callable[[Any], Any]) -> Metric:
        return METRICS.register(name)(Metric(name, measure, still, **declared))

    return add


def metrics_of(*brought: Sequence[Metric]) -> tuple[Metric, ...]:
    """The metrics of a simulation: those of every study in the order of their registration, then those brought along.

    Args:
      *brought: the own metrics of the network, and of the algorithm.

    Raises:
      UserError: where a declaration is wrong, or two metrics have one name or one key.
    """
    found = [METRICS[name] for name in METRICS.as_registered()]
    found += [own for metrics in brought for own in metrics]
    names: set[str] = set()
    keys = set(RESERVED)
    for one in found:
        if not one.name.isidentifier() or one.name.startswith("_"):
            raise UserError(f"a metric is called {one.name!r}; its name must be letters, digits and underscores")
        own_keys = one.line_keys or [one.in_files]
        taken = [one.name] if one.name in names else sorted(keys.intersection(own_keys))
        if taken:
            raise UserError(f"the metric {one.name!r} needs the name {taken[0]!r}, which something else has")
        if any(axis not in (CLIENTS, ROUNDS) for axis in one.shape if isinstance(axis, str)) or ROUNDS in one.shape[1:]:
            raise UserError(f"the metric {one.name!r} has the shape {one.shape}; its axes are clients or whole numbers")
        if one.by_round and one.still is not None:
            raise UserError(f"the metric {one.name!r} has a value a round; while a run stands still it can only hold")
        names.add(one.name)
        keys.update(own_keys)
    return tuple(found)


def of_inner(network: Any, state_of: Callable[[Any], Any]) -> tuple[Metric, ...]:
    """The own metrics of a network that another one wraps, for that other one.

    Args:
      network: the inner one.
      state_of: (state of the outer one) -> state of the inner one.
    """

    def inside(own: Metric) -> Metric:
        see = lambda at: at._replace(network=network, network_state=state_of(at.network_state))  # noqa: E731
        return dataclasses.replace(own, measure=lambda at: own.measure(see(at)))

    return tuple(map(inside, network.metrics))
