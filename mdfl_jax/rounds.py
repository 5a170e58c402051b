"""One round, and what is measured between rounds: the inside of `mdfl_jax.simulation`."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax import sharding
from mdfl_jax.exchange.meter import Bits, add_bits, no_bits, words
from mdfl_jax.metrics import LAMBDA_2_LIMIT, Metrics, consensus_distance, lambda_2, mean_model, num_neighbours
from mdfl_jax.padding import first, held_by, pad_links
from mdfl_jax.rng import stream, stream_at
from mdfl_jax.stopping import Watch, look, start_watch
from mdfl_jax.types import Algorithm, Array, ClientParams, Hparams, Network, Score, Task, of_types


class Schedule(NamedTuple):
    """How long, and how often to look.

    Attributes:
      rounds: R, a multiple of ``eval_every``.
      eval_every: rounds between evaluations.
      record_positions: keep every round's places, R * N * 8 bytes a run.
      stop_std: a run holds still once the objective of the mean model varies by less than this over three rounds
        (`mdfl_jax.stopping`); 0: it goes on.
      global_only: evaluate the global model only; the clients' accuracies and losses are NaN. With many clients these
        evaluations may take longer than the rounds between them.
    """

    rounds: int
    eval_every: int
    record_positions: bool = False
    stop_std: float = 0.0
    global_only: bool = False


class Carry(NamedTuple):
    """All that a run hands on from one evaluation to the next.

    Attributes:
      round: [] int32 index of the next round.
      clients: who holds what (task.partition).
      network: the network's state.
      algorithm: the algorithm's state.
      messages: [N] int32 sent so far.
      bits: [N] counts of what they held.
      watch: of the stop rule; None where there is none.
    """

    round: jax.Array
    clients: Any
    network: Any
    algorithm: Any
    messages: jax.Array
    bits: Bits
    watch: Watch | None = None


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


class Parts(NamedTuple):
    """What a simulation is built of."""

    task: Task
    network: Network
    algorithm: Algorithm
    schedule: Schedule


class Sums(NamedTuple):
    """Sums over the rounds between two evaluations, and the last round's mix (empty where N is large).

    The loss of a client without data is NaN.
    """

    rounds: jax.Array
    loss: jax.Array
    neighbours: jax.Array
    mix: jax.Array


def no_sums(num_clients: int) -> Sums:
    """Before the first of these rounds."""
    size = num_clients if num_clients <= LAMBDA_2_LIMIT else 0  # kept for lambda_2, and only where that is taken
    zeros = jnp.zeros(num_clients)
    return Sums(jnp.int32(0), zeros, zeros, jnp.zeros((size, size)))


def client_models(parts: Parts, state: Any) -> ClientParams:
    """The models of the N clients."""
    return first(parts.algorithm.params(state), parts.task.num_clients)


def global_model(parts: Parts, state: Any) -> ClientParams:
    """The model that a run is judged by, [1, ...]: the algorithm's, or the mean of the clients'."""
    algorithm = parts.algorithm
    return algorithm.global_model(state) if algorithm.global_model else mean_model(client_models(parts, state))


def scores(
    parts: Parts, data: Any, clients: Any, params: ClientParams, one: ClientParams, alike: bool
) -> tuple[Score, Score]:
    """Of the clients' models, and of the model that the run is judged by.

    Args:
      parts: of the simulation.
      data, clients: as the task has them.
      params: [N, ...].
      one: [1, ...].
      alike: all models are the same.
    """
    task, schedule = parts.task, parts.schedule
    if task.in_turn and task.mesh is None and not (alike or schedule.global_only):
        # Models follow one another: one compiled loop serves them all.
        both = task.evaluate(data, clients, jax.tree.map(lambda x, y: jnp.concatenate([x, y]), params, one))
        return Score(*(value[:-1] for value in both)), Score(*(value[-1:] for value in both))
    of_one = task.evaluate(data, clients, one)
    if schedule.global_only:
        unknown = jnp.full(task.num_clients, jnp.nan, jnp.float32)
        return Score(unknown, unknown), of_one
    if alike:  # and its evaluation is compiled once less
        return Score(*(jnp.broadcast_to(value, task.num_clients) for value in of_one)), of_one
    return task.evaluate(data, clients, params), of_one


def measure(parts: Parts, data: Any, carry: Carry, sums: Sums, position: jax.Array, alike: bool = False) -> Metrics:
    """An evaluation; where all models are alike, as before the first round, one is evaluated for all."""
    task, clients = parts.task, carry.clients
    params, one = client_models(parts, carry.algorithm), global_model(parts, carry.algorithm)
    score, of_mean = scores(parts, data, clients, params, one, alike)
    a_round = lambda total: jnp.where(sums.rounds > 0, total / jnp.maximum(sums.rounds, 1), jnp.nan)  # noqa: E731
    return Metrics(
        round=carry.round,
        accuracy=score.accuracy,
        loss=score.loss,
        train_loss=a_round(sums.loss),
        mean_model_accuracy=of_mean.accuracy[0],
        mean_model_loss=of_mean.loss[0],
        validation_loss=task.validate(data, clients, one) if task.validate else jnp.float32(jnp.nan),
        objective=task.objective(data, clients, one) if task.objective else jnp.float32(jnp.nan),
        rounds_done=carry.watch.rounds if carry.watch else carry.round,
        consensus_distance=consensus_distance(params),
        messages=carry.messages,
        bits=words(carry.bits),
        distance_moved=parts.network.places(carry.network).distance_moved,
        num_neighbours=a_round(sums.neighbours),
        lambda_2=jnp.where(sums.rounds > 0, lambda_2(sums.mix), jnp.nan),
        position=position,
    )


def layout(parts: Parts, carry: Carry, before: int = 0) -> Carry | None:
    """Where a state lies over the devices of a mesh, as shardings; None without one.

    Args:
      parts: of the simulation.
      carry: arrays or their shapes; ``clients`` may be None.
      before: as `mdfl_jax.sharding.layout`.
    """
    task = parts.task
    if task.mesh is None:
        return None
    divided = jax.tree.map(lambda _: False, carry)
    rows = sharding.padded(task.num_clients, task.mesh)
    divided = divided._replace(algorithm=sharding.stacked(carry.algorithm, rows, before))
    if task.by_client and carry.clients is not None:
        divided = divided._replace(clients=task.by_client(carry.clients))
    return sharding.layout(divided, task.mesh, before)


def settle(parts: Parts, carry: Carry) -> Carry:
    """Says where a state lies."""
    return sharding.settle(carry, layout(parts, carry))


def kept(parts: Parts, carry: Carry, before: int = 0) -> Carry:
    """What must be saved of a state: not the clients, which `init` gives again, and no row beyond N.

    Args:
      parts: of the simulation.
      carry: with ``before`` leading axes.
      before: axes before that of the clients.
    """
    num_clients = parts.task.num_clients
    rows = sharding.stacked(carry.algorithm, sharding.padded(num_clients, parts.task.mesh), before)
    cut = lambda x, of_clients: x[(slice(None),) * before + (slice(num_clients),)] if of_clients else x  # noqa: E731
    return carry._replace(clients=None, algorithm=jax.tree.map(cut, carry.algorithm, rows))


def restored(parts: Parts, saved: Carry, start: Carry, before: int = 0) -> Carry:
    """A state as it was before `kept`, perhaps over other devices.

    Args:
      parts: of the simulation.
      saved: from `kept`.
      start: the state before the first round; it gives the clients, and the rows beyond N.
      before: axes before that of the clients.
    """

    def leaf(x: Array, whole: Array) -> Array:
        if x.shape == whole.shape:
            return x
        return np.concatenate([x, whole[(slice(None),) * before + (slice(x.shape[before], None),)]], axis=before)

    return saved._replace(clients=start.clients, algorithm=jax.tree.map(leaf, saved.algorithm, start.algorithm))


def init(parts: Parts, data: Any, hparams: Hparams, key: jax.Array) -> tuple[Carry, Metrics]:
    """The state before the first round, and its evaluation."""
    task, network, schedule = parts.task, parts.network, parts.schedule
    num_clients, rows = task.num_clients, sharding.padded(task.num_clients, task.mesh)
    clients = task.partition(data, hparams.task, stream(key, "partition"))
    model = task.init(data, stream(key, "init"))
    client_params = jax.tree.map(lambda p: jnp.broadcast_to(p, (rows, *p.shape)), model)
    carry = Carry(
        round=jnp.int32(0),
        clients=clients,
        network=network.init(hparams.network, key, held_by(clients, num_clients)),
        algorithm=parts.algorithm.init(hparams.algorithm, client_params),
        messages=jnp.zeros(num_clients, jnp.int32),
        bits=no_bits(num_clients),
        watch=start_watch(jax.tree.leaves(model)[0].dtype) if schedule.stop_std else None,
    )
    start = network.places(carry.network).position[None]
    position = start if schedule.record_positions else start[:0]
    return settle(parts, carry), measure(parts, data, carry, no_sums(num_clients), position, alike=True)


def facts(parts: Parts, carry: Carry) -> RunFacts:
    """What a run was given, of its state before the first round."""
    network = parts.network
    return RunFacts(
        first(carry.clients.label_counts, parts.task.num_clients),
        network.places(carry.network).is_mobile,
        network.reached(carry.network) if network.reached else jnp.zeros(parts.task.num_clients, bool),
    )


def one_round(
    parts: Parts, data: Any, hparams: Hparams, key: jax.Array, carry: Carry, sums: Sums
) -> tuple[Carry, Sums]:
    """A round: the network's links, then the algorithm, then the stop rule's look."""
    task, network, clients = parts.task, parts.network, carry.clients
    held, rows = held_by(clients, task.num_clients), sharding.padded(task.num_clients, task.mesh)
    with jax.named_scope("round"), sharding.tracing_over(task.mesh):
        network_state, links = sharding.everywhere(network.step, hparams.network, key, carry.round, carry.network, held)
        network_state = of_types(network_state, carry.network)
        algorithm_state, stats = parts.algorithm.round(
            hparams.algorithm,
            stream_at(key, "batch", carry.round),
            carry.algorithm,
            pad_links(links, rows),
            partial(task.gradient, data, clients),
        )
    stats = first(stats, task.num_clients)
    watch = carry.watch
    if watch is not None and task.objective:
        before, after = (global_model(parts, state) for state in (carry.algorithm, algorithm_state))
        differ = jax.tree.map(lambda x, y: jnp.any(x != y), before, after)
        value = task.objective(data, clients, after)
        watch = look(watch, value, parts.schedule.stop_std, jnp.any(jnp.stack(jax.tree.leaves(differ))))
    size = sums.mix.shape[0]
    sums = Sums(
        rounds=sums.rounds + 1,
        loss=sums.loss + jnp.where(held.num_samples > 0, stats.loss, jnp.nan),
        neighbours=sums.neighbours + num_neighbours(links),
        mix=links.mix[:size, :size].astype(sums.mix.dtype),
    )
    messages, bits = carry.messages + stats.messages, add_bits(carry.bits, stats.bits)
    carry = Carry(carry.round + 1, None, network_state, algorithm_state, messages, bits, watch)
    return settle(parts, carry)._replace(clients=clients), sums


def advance(parts: Parts, data: Any, hparams: Hparams, key: jax.Array, carry: Carry) -> tuple[Carry, Metrics]:
    """``eval_every`` rounds and an evaluation. Rounds after the stop change nothing but the index."""
    schedule, clients = parts.schedule, carry.clients  # which no round changes: outside the scan, never copied

    def go(state: tuple[Carry, Sums]) -> tuple[Carry, Sums]:
        carry, sums = one_round(parts, data, hparams, key, state[0]._replace(clients=clients), state[1])
        return carry._replace(clients=None), sums

    def hold(state: tuple[Carry, Sums]) -> tuple[Carry, Sums]:
        return state[0]._replace(round=state[0].round + 1), state[1]

    def body(state: tuple[Carry, Sums], _: None) -> tuple[tuple[Carry, Sums], jax.Array | None]:
        watch = state[0].watch
        if watch is None:
            state = go(state)
        else:
            with sharding.tracing_over(parts.task.mesh):
                state = sharding.choose(watch.stopped, hold, go, state)
        return state, parts.network.places(state[0].network).position if schedule.record_positions else None

    start = (carry._replace(clients=None), no_sums(parts.task.num_clients))
    (carry, sums), position = jax.lax.scan(body, start, None, length=schedule.eval_every)
    carry = carry._replace(clients=clients)
    position = jnp.zeros((0, parts.task.num_clients, 2)) if position is None else position
    return carry, measure(parts, data, carry, sums, position)
