"""A whole study of one seed as one pure function of a key: ``simulate``."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from mdfl_jax import rounds
from mdfl_jax.errors import UserError
from mdfl_jax.metrics.declare import Metric
from mdfl_jax.metrics.evaluation import no_sums
from mdfl_jax.metrics.history import Metrics, as_history, by_round
from mdfl_jax.metrics.registry import metrics_of
from mdfl_jax.parts import Carry, Parts, RunFacts, Schedule
from mdfl_jax.statistics import sent, trained
from mdfl_jax.types import FIXED, SYMMETRIC, Algorithm, Hparams, Network, Task

__all__ = ["Carry", "RunFacts", "Schedule", "Simulation", "build", "simulate"]


class Simulation(NamedTuple):
    """The parts of `simulate`, for callers that want to stop in between (progress, checkpoints).

    Attributes:
      init: (data, hparams, key) -> (Carry, Metrics before the first round).
      advance: (data, hparams, key, Carry) -> (Carry, Metrics after ``eval_every`` more rounds).
      round: (data, hparams, key, Carry) -> Carry after one round, nothing measured: for benchmarks and plans.
      data: the task's data, the first argument of both.
      num_evaluations: how many times ``advance`` makes a whole run.
      facts: (Carry) -> RunFacts.
      double_bits: of hparams.algorithm, the bits of one message as PaME counts them (`Algorithm.double_bits`).
      num_params: parameters of one model, d; batch statistics are none.
      mesh: the devices that share each run, where there are several (the task's).
      alone: one run is work enough for a device (the task's).
      metrics: what is measured, in this order.
      layout, kept, restored: of a Carry, see `mdfl_jax.rounds`: where it lies over a mesh, what of it is saved, and how
        it is made again over other devices.
    """

    init: Callable[[Any, Hparams, jax.Array], tuple[Carry, Metrics]]
    advance: Callable[[Any, Hparams, jax.Array, Carry], tuple[Carry, Metrics]]
    round: Callable[[Any, Hparams, jax.Array, Carry], Carry]
    data: Any
    num_evaluations: int
    facts: Callable[[Carry], RunFacts]
    double_bits: Callable[[Any], float] | None
    num_params: int
    mesh: Mesh | None
    alone: bool
    metrics: tuple[Metric, ...]
    layout: Callable[..., Carry | None]
    kept: Callable[..., Carry]
    restored: Callable[..., Carry]


NEEDS = {
    "adjacency": "links between clients",
    "mix": "mixing weights",
    "at_server": "meetings with a server",
    "last_server": "meetings with a server",
    "next_server": "known next meetings with a server",
    SYMMETRIC: "symmetric mixing weights",
    FIXED: "the same links in every round",
}
"""What an algorithm may need of a network, in words."""


def check_needs(
    algorithm: Algorithm, network: Network, name: str = "the algorithm", network_name: str = "this network"
) -> None:
    """Checks that a network gives what an algorithm needs.

    Args:
      algorithm: with its ``needs``.
      network: with what it ``gives``.
      name: how the algorithm is called.
      network_name: how the network is called.

    Raises:
      UserError: naming what is missing, in words.
    """
    missing = algorithm.needs - network.gives
    if missing:
        needs = " and ".join(dict.fromkeys(NEEDS.get(need, need) for need in sorted(missing)))
        raise UserError(f"{name} needs {needs}, which {network_name} does not give")


def _check(task: Task, network: Network, algorithm: Algorithm, schedule: Schedule) -> None:
    if task.num_clients != network.num_clients:
        raise UserError(f"the task has {task.num_clients} clients and the network {network.num_clients}")
    check_needs(algorithm, network)
    if schedule.stop_std and not task.objective:
        raise UserError("the stop rule needs a task with an objective, and this task has none")
    if schedule.eval_every < 1 or schedule.rounds < 1 or schedule.rounds % schedule.eval_every:
        raise UserError(
            f"rounds is {schedule.rounds}; it must be a positive multiple of eval_every, which is {schedule.eval_every}"
        )


def build(task: Task, network: Network, algorithm: Algorithm, schedule: Schedule) -> Simulation:
    """The stepwise form of `simulate`.

    Raises:
      UserError: where the parts do not fit together, or a metric is declared wrongly.
    """
    _check(task, network, algorithm, schedule)
    metrics = metrics_of(network.metrics, algorithm.metrics)
    parts = Parts(task, network, algorithm, schedule, metrics)
    model = jax.eval_shape(task.init, task.data, jax.random.key(0))
    size = lambda tree: sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(tree))  # noqa: E731
    count = algorithm.double_bits
    one_round = partial(rounds.one_round, parts)
    return Simulation(
        init=partial(rounds.init, parts),
        advance=partial(rounds.advance, parts),
        round=lambda data, hparams, key, carry: one_round(
            data, hparams, key, carry, no_sums(metrics, task.num_clients)
        )[0],
        data=task.data,
        num_evaluations=schedule.rounds // schedule.eval_every,
        facts=partial(rounds.facts, parts),
        double_bits=(lambda numbers: count(numbers, size(sent(model, algorithm.local_statistics)))) if count else None,
        num_params=size(trained(model)),
        mesh=task.mesh,
        alone=task.alone,
        metrics=metrics,
        layout=partial(rounds.layout, parts),
        kept=partial(rounds.kept, parts),
        restored=partial(rounds.restored, parts),
    )


def simulate(
    task: Task, network: Network, algorithm: Algorithm, schedule: Schedule
) -> Callable[[Hparams, jax.Array], Metrics]:
    """A whole run as a pure function, to be jitted, and mapped over seeds and points.

    Args:
      task: what is learnt.
      network: who can talk, when.
      algorithm: what is done and sent.
      schedule: rounds and evaluations.

    Returns:
      (hparams, key) -> Metrics with a leading axis of 1 + rounds / eval_every evaluations, the first before any round;
      ``position`` is [R + 1, N, 2] where recorded.

    Raises:
      UserError: where the parts do not fit together.
    """
    simulation = build(task, network, algorithm, schedule)

    def run(hparams: Hparams, key: jax.Array) -> Metrics:
        carry, first = simulation.init(simulation.data, hparams, key)
        advance = lambda c, _: simulation.advance(simulation.data, hparams, key, c)  # noqa: E731
        _, rest = jax.lax.scan(advance, carry, None, length=simulation.num_evaluations)
        rest = rest.replace({name: x.reshape(-1, *x.shape[2:]) for name, x in by_round(rest).items()})
        return jax.tree.map(lambda *parts: jnp.concatenate(parts), as_history(first, 0), rest)

    return run
