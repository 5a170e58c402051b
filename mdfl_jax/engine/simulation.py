"""A whole run as one pure function of numbers and a key: ``simulate``."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from mdfl_jax.core.batch_statistics import sent, trained
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.metric import HOLDS, Metric
from mdfl_jax.core.parts import Carry, Parts, RunFacts, Schedule
from mdfl_jax.core.types import FIXED, SYMMETRIC, Algorithm, ClientParams, Hparams, Network, Task
from mdfl_jax.engine import division, rounds, starting
from mdfl_jax.engine.steps import Steps, steps_of
from mdfl_jax.metrics import round_records
from mdfl_jax.metrics.declare import metrics_of
from mdfl_jax.metrics.evaluation import no_sums
from mdfl_jax.metrics.history import Metrics, as_history, by_round
from mdfl_jax.metrics.sampling import check as check_sample
from mdfl_jax.metrics.sampling import is_sampled, metrics_of_sample
from mdfl_jax.networks.costs.work import LinkLoad, probe

__all__ = ["Carry", "RunFacts", "Schedule", "Simulation", "build", "simulate"]


class Simulation(NamedTuple):
    """The steps of `simulate` as separate functions, for callers that pause between them (progress, checkpoints).

    Attributes:
      init: (data, hparams, key) -> (Carry, Metrics before the first round).
      advance: (data, hparams, key, Carry) -> (Carry, Metrics after ``eval_every`` more rounds).
      first: (data, hparams, key) -> Carry before the first round, without an evaluation; for plans, which read shapes.
      steps: ``init`` and ``advance`` in smaller functions.
      round: (data, hparams, key, Carry) -> Carry after one round, without metrics; for benchmarks and plans.
      data: the task's data, the first argument of ``init``, ``advance`` and ``round``.
      num_evaluations: the number of calls of ``advance`` in a whole run.
      facts: (Carry before the first round) -> RunFacts.
      double_bits: (hparams.algorithm) -> the bits of one message as PaME counts them; None as `Algorithm.double_bits`.
      num_params: the number of parameters of one model, d, without batch statistics.
      mesh: the devices that share each run (``Task.mesh``); None for one device.
      alone: whether one run keeps a device busy (``Task.alone``).
      metrics: the metrics that are measured, in this order.
      records: which records of the rounds there are besides the positions, their size, and whether they are kept.
      model: the shapes of one model, as `Task.init` returns it: a tree of `jax.ShapeDtypeStruct`.
      models: (Carry) -> (the models of the N clients [N, ...], the algorithm's global model [1, ...] or None).
      link_load: (hparams.algorithm) -> the messages that a link carries in a round (`mdfl_jax.networks.costs.probe`).
      owner: (data, hparams, key) -> [n] int32, the client that holds each training sample, -1 for nobody; None if there
        are no samples to divide (``Task.owner``).
      list_bound: the places of the network's neighbour lists; 0 if nothing can be too much for them.
      places_needed: (data, hparams, key) -> the places that they need in a run; None where ``list_bound`` is 0.
      layout, kept, restored: functions of a Carry, from `mdfl_jax.engine.rounds`: its shardings over a mesh, the part
        that a checkpoint contains, and the whole Carry made again from that part, perhaps on other devices.
      parts: what the simulation was built from, for theory that needs the network alone.
    """

    init: Callable[[Any, Hparams, jax.Array], tuple[Carry, Metrics]]
    advance: Callable[[Any, Hparams, jax.Array, Carry], tuple[Carry, Metrics]]
    first: Callable[[Any, Hparams, jax.Array], Carry]
    steps: Steps
    round: Callable[[Any, Hparams, jax.Array, Carry], Carry]
    data: Any
    num_evaluations: int
    facts: Callable[[Carry], RunFacts]
    double_bits: Callable[[Any], float] | None
    num_params: int
    mesh: Mesh | None
    alone: bool
    metrics: tuple[Metric, ...]
    records: round_records.Records
    model: Any
    models: Callable[[Carry], tuple[ClientParams, ClientParams | None]]
    link_load: Callable[[Any], LinkLoad]
    owner: Callable[[Any, Hparams, jax.Array], jax.Array] | None
    list_bound: int
    places_needed: Callable[[Any, Hparams, jax.Array], jax.Array] | None
    layout: Callable[..., Carry | None]
    kept: Callable[..., Carry]
    restored: Callable[..., Carry]
    parts: Parts


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
    check_sample(schedule, task)


LIST_PLACES = Metric(
    "list_places",
    lambda at: at.network.lists.needed(at.network_state),
    HOLDS,
    shape=(),
    label="places that a neighbour list needed",
    summary=False,
)
"""The largest number of places that a neighbour list has needed so far, the client itself included."""

METRIC_NEEDS = {
    "over_test": "test samples of a data set",
    "num_labels": "test samples with labels, one each",
    "local_accuracy": "test samples with natural owners (the array client_test)",
}
"""The fields of a task that a metric may need, in words for error messages."""


def _check_metrics(task: Task, metrics: tuple[Metric, ...], eval_clients: int) -> None:
    for metric in metrics:
        if metric.of_all and eval_clients:
            raise UserError(f"eval_clients is {eval_clients}; it must be 0 (all) with the metric {metric.name!r}")
        missing = [METRIC_NEEDS.get(field, field) for field in metric.needs if getattr(task, field) is None]
        if missing:
            raise UserError(f"metrics: {metric.name!r} needs {missing[-1]}, which this task does not have")


def build(task: Task, network: Network, algorithm: Algorithm, schedule: Schedule) -> Simulation:
    """Build a simulation whose steps can be called one by one; `simulate` does the same for a whole run.

    Args:
      task, network, algorithm, schedule: as in `simulate`.

    Raises:
      UserError: if the parts do not fit together, or if a metric is declared wrongly.
    """
    _check(task, network, algorithm, schedule)
    of_sample = metrics_of_sample(schedule.eval_clients, schedule.eval_samples) if is_sampled(schedule) else ()
    of_lists = (LIST_PLACES,) if network.lists and network.lists.needed else ()
    metrics = metrics_of(network.metrics, algorithm.metrics, of_sample, of_lists, asked=schedule.metrics)
    _check_metrics(task, metrics, schedule.eval_clients)
    metrics, recorded = round_records.choose(
        metrics, task.num_clients, schedule.rounds, schedule.record_positions, schedule.record_mib
    )
    parts = Parts(task, network, algorithm, schedule, metrics)
    model = jax.eval_shape(task.init, task.data, jax.random.key(0))
    size = lambda tree: sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(tree))  # noqa: E731
    largest_message = sum(math.prod(leaf.shape) * (8 * leaf.dtype.itemsize + 1) for leaf in jax.tree.leaves(model))
    if largest_message >= 2**32:  # every coordinate, and the bitmap of a sparse message
        raise UserError(f"the model has {size(model):,} numbers; messages are counted exactly below 2^32 bits only")
    count = algorithm.double_bits
    one_round = partial(rounds.one_round, parts)
    return Simulation(
        init=partial(starting.init, parts),
        advance=partial(rounds.advance, parts),
        first=lambda data, hparams, key: starting.first(parts, data, hparams, key)[0],
        steps=steps_of(parts),
        round=lambda data, hparams, key, carry: one_round(data, hparams, key, carry, no_sums(metrics, network))[0],
        data=task.data,
        num_evaluations=schedule.rounds // schedule.eval_every,
        facts=lambda carry: rounds.facts(parts, carry.clients, carry.network),
        double_bits=(lambda numbers: count(numbers, size(sent(model, algorithm.local_statistics)))) if count else None,
        num_params=size(trained(model)),
        mesh=task.mesh,
        alone=task.alone,
        metrics=metrics,
        records=recorded,
        model=model,
        models=partial(rounds.models, parts),
        link_load=probe(algorithm, model),
        owner=partial(division.owner, parts) if task.owner else None,
        list_bound=network.lists.bound if network.lists else 0,
        places_needed=partial(rounds.places_needed, parts) if network.lists and network.lists.needed else None,
        layout=partial(rounds.layout, parts),
        kept=partial(rounds.kept, parts),
        restored=partial(rounds.restored, parts),
        parts=parts,
    )


def simulate(
    task: Task, network: Network, algorithm: Algorithm, schedule: Schedule
) -> Callable[[Hparams, jax.Array], Metrics]:
    """Return a whole run as a pure function, which can be jitted and mapped over seeds and sweep points.

    Args:
      task: the learning problem.
      network: the links between the clients in each round.
      algorithm: the computation and communication of a round.
      schedule: the number of rounds, and how often the models are evaluated.

    Returns:
      A function (hparams, key) -> Metrics. The metrics have a leading axis of 1 + rounds / eval_every evaluations, and
      the first one is before any round. ``position`` is [R + 1, N, 2] where it is recorded, other records [R, ...].

    Raises:
      UserError: if the parts do not fit together, or if a metric is declared wrongly.
    """
    simulation = build(task, network, algorithm, schedule)

    def run(hparams: Hparams, key: jax.Array) -> Metrics:
        carry, first = simulation.init(simulation.data, hparams, key)
        advance = lambda c, _: simulation.advance(simulation.data, hparams, key, c)  # noqa: E731
        _, rest = jax.lax.scan(advance, carry, None, length=simulation.num_evaluations)
        rest = rest.replace({name: x.reshape(-1, *x.shape[2:]) for name, x in by_round(rest).items()})
        return jax.tree.map(lambda *parts: jnp.concatenate(parts), as_history(first, 0), rest)

    return run
