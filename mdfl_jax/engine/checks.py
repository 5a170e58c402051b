"""Check that task, network, algorithm and schedule fit together; errors name what is missing in words."""

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.metric import Metric
from mdfl_jax.core.types import FIXED, SYMMETRIC, Algorithm, Network, Schedule, Task
from mdfl_jax.metrics.sampling import check as check_sample

NEEDS = {
    "adjacency": "links between clients",
    "mix": "mixing weights",
    "at_server": "meetings with a server",
    "last_server": "meetings with a server",
    "next_server": "known next meetings with a server",
    SYMMETRIC: "symmetric mixing weights",
    FIXED: "the same links in every round",
}
"""The things that an algorithm may need from a network, in words for error messages."""

METRIC_NEEDS = {
    "over_test": "test samples of a data set",
    "num_labels": "test samples with labels, one each",
    "local_accuracy": "test samples with natural owners (the array client_test)",
}
"""The fields of `Task.scoring` that a metric may need, in words for error messages."""


def check_needs(
    algorithm: Algorithm, network: Network, name: str = "the algorithm", network_name: str = "this network"
) -> None:
    """Check that a network provides everything that an algorithm needs.

    Args:
      algorithm: the algorithm, with its field ``needs``.
      network: the network, with its field ``gives``.
      name: the name of the algorithm in the error message.
      network_name: the name of the network in the error message.

    Raises:
      UserError: if something is missing; the message names it in words.
    """
    missing = algorithm.needs - network.gives
    if missing:
        needs = " and ".join(dict.fromkeys(NEEDS.get(need, need) for need in sorted(missing)))
        raise UserError(f"{name} needs {needs}, which {network_name} does not give")


def check_fit(task: Task, network: Network, algorithm: Algorithm, schedule: Schedule) -> None:
    """Check that the four parts of a simulation fit together.

    Raises:
      UserError: if they do not.
    """
    if task.num_clients != network.num_clients:
        raise UserError(f"the task has {task.num_clients} clients and the network {network.num_clients}")
    check_needs(algorithm, network)
    if schedule.stop_std and not task.objective:
        raise UserError("the stop rule needs a task with an objective, and this task has none")
    if schedule.eval_every < 1 or schedule.rounds < 1 or schedule.rounds % schedule.eval_every:
        raise UserError(
            f"rounds is {schedule.rounds}; it must be a positive multiple of eval_every, which is {schedule.eval_every}"
        )
    check_sample(schedule, task)


def check_metrics(task: Task, metrics: tuple[Metric, ...], eval_clients: int) -> None:
    """Check that a task has what the metrics need.

    Raises:
      UserError: if it does not, or if a metric of all clients is asked for where only ``eval_clients`` are evaluated.
    """
    for metric in metrics:
        if metric.of_all and eval_clients:
            raise UserError(f"eval_clients is {eval_clients}; it must be 0 (all) with the metric {metric.name!r}")
        missing = [METRIC_NEEDS.get(field, field) for field in metric.needs if getattr(task.scoring, field) is None]
        if missing:
            raise UserError(f"metrics: {metric.name!r} needs {missing[-1]}, which this task does not have")
