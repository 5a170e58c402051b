"""An evaluation: the models' scores, then every metric of the simulation, inside the compiled program."""

from typing import Any

import jax
import jax.numpy as jnp

from mdfl_jax import sharding
from mdfl_jax.errors import UserError
from mdfl_jax.exchange.meter import words
from mdfl_jax.metrics.declare import Metric
from mdfl_jax.metrics.evaluation import Evaluation, Sums
from mdfl_jax.metrics.history import Metrics
from mdfl_jax.metrics.values import mean_model
from mdfl_jax.padding import first
from mdfl_jax.parts import Carry, Parts
from mdfl_jax.types import ClientParams, Score


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
    """An evaluation; where all models are alike, as before the first round, one is evaluated for all.

    Args:
      parts: of the simulation.
      data: the task's.
      carry: the state of the run.
      sums: of the rounds since the last evaluation.
      position: [rounds since the last evaluation, N, 2], or [0, N, 2].
      alike: all models are the same.

    Raises:
      UserError: where a metric is not what it was declared to be.
    """
    params, one = client_models(parts, carry.algorithm), global_model(parts, carry.algorithm)
    score, of_one = scores(parts, data, carry.clients, params, one, alike)
    at = Evaluation(
        task=parts.task,
        network=parts.network,
        algorithm=parts.algorithm,
        data=data,
        clients=carry.clients,
        models=params,
        model=one,
        score=score,
        model_score=of_one,
        network_state=carry.network,
        algorithm_state=_of_clients(parts, carry.algorithm, carry.round >= 0),
        round=carry.round,
        rounds_done=carry.watch.rounds if carry.watch else carry.round,
        messages=carry.messages,
        bits=words(carry.bits),
        sums=sums,
        position=position,
    )
    values = {metric.name: _value(metric, at, may_stop=carry.watch is not None) for metric in parts.metrics}
    return Metrics(parts.metrics, {"round": carry.round} | values)


def _of_clients(parts: Parts, state: Any, ran: jax.Array) -> Any:
    """The algorithm's state without the rows that fill up a mesh."""
    num_clients = parts.task.num_clients
    rows = sharding.padded(num_clients, parts.task.mesh)
    if rows == num_clients:
        return state

    def of_clients(x: jax.Array, by_client: bool) -> jax.Array:
        # Devices talk to take some rows, and of what no round changes they would do so while the rounds run.
        return jnp.where(ran, x, 0)[:num_clients] if by_client else x

    return jax.tree.map(of_clients, state, sharding.stacked(state, rows))


def _value(metric: Metric, at: Evaluation, may_stop: bool) -> jax.Array:
    """A metric's value, checked against its declaration, and as ``still`` says where the run stands still."""
    found = metric.measure(at)
    value = found if isinstance(found, jax.Array) else jnp.asarray(found)
    rounds = value.shape[0] if metric.by_round and value.ndim else 0
    if value.shape != metric.dims(at.num_clients, rounds):
        wanted = metric.dims(at.num_clients, rounds)
        raise UserError(f"the metric {metric.name!r} is declared of shape {wanted} and was measured as {value.shape}")
    if metric.still is None or metric.by_round:
        return value
    if metric.still != metric.still and not jnp.issubdtype(value.dtype, jnp.floating):
        raise UserError(
            f"the metric {metric.name!r} is {value.dtype}, which cannot be UNKNOWN while a run stands still"
        )
    if not may_stop:
        return value
    still = (at.sums.rounds == 0) & (at.round > 0)
    return jnp.where(still, jnp.asarray(metric.still, value.dtype), value)
