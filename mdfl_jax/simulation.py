"""A whole study of one seed as one pure function of a key: ``simulate``."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from mdfl_jax import sharding
from mdfl_jax.errors import UserError
from mdfl_jax.exchange.meter import Bits, add_bits, no_bits, words
from mdfl_jax.metrics import (
    LAMBDA_2_LIMIT,
    Metrics,
    as_history,
    consensus_distance,
    lambda_2,
    mean_model,
    num_neighbours,
)
from mdfl_jax.rng import stream, stream_at
from mdfl_jax.types import Algorithm, Array, ClientParams, Hparams, Network, Task


class Schedule(NamedTuple):
    """How long, and how often to look.

    Attributes:
      rounds: R, a multiple of ``eval_every``.
      eval_every: rounds between evaluations.
      record_positions: keep every round's places, R * N * 8 bytes a run.
    """

    rounds: int
    eval_every: int
    record_positions: bool = False


class Carry(NamedTuple):
    """All that a run hands on from one evaluation to the next.

    Attributes:
      round: [] int32 rounds done.
      clients: who holds what (task.partition).
      network: the network's state.
      algorithm: the algorithm's state.
      messages: [N] int32 sent so far.
      bits: [N] counts of what they held.
    """

    round: jax.Array
    clients: Any
    network: Any
    algorithm: Any
    messages: jax.Array
    bits: Bits


class RunFacts(NamedTuple):
    """What a run was given, for reports.

    Attributes:
      label_counts: [N, C] int32 samples of each label that each client holds.
      is_mobile: [N] bool.
      reached: [N] bool, who ever meets the server; all false where there is none.
    """

    label_counts: Array
    is_mobile: Array
    reached: Array


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
      num_params: parameters of one model, d.
      mesh: the devices that share each run, where there are several (the task's).
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


class _Sums(NamedTuple):
    """What is summed over the rounds between two evaluations, and the last round's mix (empty where N is large)."""

    loss: jax.Array
    neighbours: jax.Array
    mix: jax.Array


def _check(task: Task, network: Network, algorithm: Algorithm, schedule: Schedule) -> None:
    if task.num_clients != network.num_clients:
        raise UserError(f"the task has {task.num_clients} clients and the network {network.num_clients}")
    missing = algorithm.needs - network.gives
    if missing:
        raise UserError(f"the algorithm needs {', '.join(sorted(missing))}, which this network does not give")
    if schedule.eval_every < 1 or schedule.rounds < 1 or schedule.rounds % schedule.eval_every:
        raise UserError(
            f"rounds is {schedule.rounds}; it must be a positive multiple of eval_every, which is {schedule.eval_every}"
        )


def build(task: Task, network: Network, algorithm: Algorithm, schedule: Schedule) -> Simulation:
    """The stepwise form of `simulate`.

    Raises:
      UserError: where the parts do not fit together.
    """
    _check(task, network, algorithm, schedule)
    num_clients = task.num_clients
    mix_size = num_clients if num_clients <= LAMBDA_2_LIMIT else 0  # kept for lambda_2, and only where that is taken

    def measure(
        data: Any, params: ClientParams, one: ClientParams, carry: Carry, sums: _Sums, rounds: int, position: jax.Array
    ) -> Metrics:
        score = task.evaluate(data, params)
        of_mean = task.evaluate(data, one)
        return Metrics(
            round=carry.round,
            accuracy=score.accuracy,
            loss=score.loss,
            train_loss=jnp.where(carry.clients.num_samples > 0, sums.loss / rounds, jnp.nan),
            mean_model_accuracy=of_mean.accuracy[0],
            mean_model_loss=of_mean.loss[0],
            consensus_distance=consensus_distance(params),
            messages=carry.messages,
            bits=words(carry.bits),
            distance_moved=network.places(carry.network).distance_moved,
            num_neighbours=sums.neighbours / rounds,
            lambda_2=lambda_2(sums.mix),
            position=position,
        )

    def settle(carry: Carry) -> Carry:
        divided = sharding.divide(carry.algorithm, num_clients, task.mesh)
        return sharding.copied(carry._replace(algorithm=None), task.mesh)._replace(algorithm=divided)

    def init(data: Any, hparams: Hparams, key: jax.Array) -> tuple[Carry, Metrics]:
        clients = task.partition(data, hparams.task, stream(key, "partition"))
        model = task.init(stream(key, "init"))
        client_params = jax.tree.map(lambda p: jnp.broadcast_to(p, (num_clients, *p.shape)), model)
        carry = Carry(
            round=jnp.int32(0),
            clients=clients,
            network=network.init(hparams.network, key, clients),
            algorithm=algorithm.init(hparams.algorithm, client_params),
            messages=jnp.zeros(num_clients, jnp.int32),
            bits=no_bits(num_clients),
        )
        unknown = jnp.full(num_clients, jnp.nan)
        none_yet = _Sums(unknown, unknown, jnp.zeros((0, 0)))
        start = network.places(carry.network).position[None]
        position = start if schedule.record_positions else start[:0]
        return settle(carry), measure(data, client_params, mean_model(client_params), carry, none_yet, 1, position)

    def one_round(
        data: Any, hparams: Hparams, key: jax.Array, state: tuple[Carry, _Sums], _: None
    ) -> tuple[tuple[Carry, _Sums], jax.Array | None]:
        carry, sums = state
        network_state, links = network.step(hparams.network, key, carry.round, carry.network, carry.clients)
        with sharding.tracing_over(task.mesh):
            algorithm_state, stats = algorithm.round(
                hparams.algorithm,
                stream_at(key, "batch", carry.round),
                carry.algorithm,
                links,
                partial(task.gradient, data, carry.clients),
            )
        sums = _Sums(
            loss=sums.loss + stats.loss,
            neighbours=sums.neighbours + num_neighbours(links),
            mix=links.mix[:mix_size, :mix_size],
        )
        messages, bits = carry.messages + stats.messages, add_bits(carry.bits, stats.bits)
        carry = Carry(carry.round + 1, carry.clients, network_state, algorithm_state, messages, bits)
        return (settle(carry), sums), network.places(network_state).position if schedule.record_positions else None

    no_sums = _Sums(jnp.zeros(num_clients), jnp.zeros(num_clients), jnp.zeros((mix_size, mix_size)))

    def advance(data: Any, hparams: Hparams, key: jax.Array, carry: Carry) -> tuple[Carry, Metrics]:
        body = partial(one_round, data, hparams, key)
        (carry, sums), position = jax.lax.scan(body, (carry, no_sums), None, length=schedule.eval_every)
        params = algorithm.params(carry.algorithm)
        position = jnp.zeros((0, num_clients, 2)) if position is None else position
        one = algorithm.global_model(carry.algorithm) if algorithm.global_model else mean_model(params)
        return carry, measure(data, params, one, carry, sums, schedule.eval_every, position)

    model = jax.eval_shape(task.init, jax.random.key(0))
    num_params = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(model))
    count = algorithm.double_bits
    double_bits = (lambda numbers: count(numbers, num_params)) if count else None
    return Simulation(
        init=init,
        advance=advance,
        round=lambda data, hparams, key, carry: one_round(data, hparams, key, (carry, no_sums), None)[0][0],
        data=task.data,
        num_evaluations=schedule.rounds // schedule.eval_every,
        facts=lambda carry: RunFacts(
            carry.clients.label_counts,
            network.places(carry.network).is_mobile,
            network.reached(carry.network) if network.reached else jnp.zeros(num_clients, bool),
        ),
        double_bits=double_bits,
        num_params=num_params,
        mesh=task.mesh,
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
        rest = rest._replace(position=rest.position.reshape(-1, *rest.position.shape[2:]))
        return jax.tree.map(lambda *parts: jnp.concatenate(parts), as_history(first, 0), rest)

    return run
