"""An evaluation inside the compiled program: it computes the scores of the models, and then all metrics."""

from typing import Any

import jax
import jax.numpy as jnp

from mdfl_jax.core import own_files, sharding
from mdfl_jax.core.client_padding import first
from mdfl_jax.core.diverging import rounds_computed
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.message_bits import words
from mdfl_jax.core.metric import Metric
from mdfl_jax.core.parts import Carry, Parts
from mdfl_jax.core.types import ClientParams, Score
from mdfl_jax.metrics.evaluation import Evaluation, Sample, Sums
from mdfl_jax.metrics.history import Metrics
from mdfl_jax.metrics.round_records import Rows
from mdfl_jax.metrics.sampling import everyone, in_any_run, is_sampled, sampled_scores
from mdfl_jax.metrics.values import mean_model
from mdfl_jax.tasks.evaluation import MANY


def client_models(parts: Parts, state: Any) -> ClientParams:
    """Return the models of the N clients, [N, ...], without padding clients."""
    return first(parts.algorithm.params(state), parts.task.num_clients)


def global_model(parts: Parts, state: Any) -> ClientParams:
    """Return the judged model, [1, ...]: the algorithm's global model, or the mean of the clients' models."""
    algorithm = parts.algorithm
    return algorithm.global_model(state) if algorithm.global_model else mean_model(client_models(parts, state))


def scores(
    parts: Parts, data: Any, clients: Any, params: ClientParams, one: ClientParams, alike: bool
) -> tuple[Score, Score]:
    """Compute the scores of the clients' models and of the judged model.

    Args:
      parts: the parts of the simulation.
      data: the task's data.
      clients: the data that each client holds, as the task's ``partition`` returns it.
      params: [N, ...] the clients' models.
      one: [1, ...] the judged model.
      alike: whether all models are the same.

    Returns:
      The scores [N] of the clients' models, which are NaN if only the global model is evaluated, and the score [1] of
      the judged model.
    """
    task, schedule = parts.task, parts.schedule
    together = task.in_turn or task.num_clients < MANY
    if together and task.mesh is None and not (alike or schedule.global_only):
        # One compiled loop evaluates all models. So many that they are computed in groups are left as they are.
        both = task.evaluate(data, clients, jax.tree.map(lambda x, y: jnp.concatenate([x, y]), params, one))
        return Score(*(value[:-1] for value in both)), Score(*(value[-1:] for value in both))
    of_one = task.evaluate(data, clients, one)
    if schedule.global_only:
        unknown = jnp.full(task.num_clients, jnp.nan, jnp.float32)
        return Score(unknown, unknown), of_one
    if alike:  # one evaluation is enough, and there is one less to compile
        return Score(*(jnp.broadcast_to(value, task.num_clients) for value in of_one)), of_one
    return task.evaluate(data, clients, params), of_one


def _scores_or_sample(
    parts: Parts, data: Any, key: jax.Array, carry: Carry, params: ClientParams, one: ClientParams
) -> tuple[Score, Score, Sample]:
    """Evaluate a sample of the clients, or at both ends of the run all of them, and the judged model in any case."""
    task, clients = parts.task, carry.clients
    is_mobile = parts.network.places(carry.network).is_mobile

    def whole() -> tuple[Score, Sample]:
        return task.evaluate(data, clients, params), everyone(task.num_clients)

    def sampled() -> tuple[Score, Sample]:
        return sampled_scores(parts, data, clients, params, is_mobile, key)

    at_an_end = (carry.round == 0) | (carry.round >= parts.schedule.rounds)
    score, sample = jax.lax.cond(in_any_run(at_an_end), whole, sampled)
    return score, task.evaluate(data, clients, one), sample


def measure(
    parts: Parts,
    data: Any,
    key: jax.Array,
    carry: Carry,
    sums: Sums,
    rows: Rows,
    start: bool = False,
    alike: bool = False,
) -> Metrics:
    """Evaluate the models of a run and compute all metrics.

    Args:
      parts: the parts of the simulation.
      data: the task's data.
      key: the seed's key, which draws the sample that is evaluated, if only a sample is.
      carry: the state of the run.
      sums: the sums over the rounds since the last evaluation.
      rows: the values of the metrics with one value a round, in the rounds since the last evaluation.
      start: whether it is known to be the evaluation before the first round, which is never one of a sample.
      alike: whether all models are the same, as before the first round. Then one model is evaluated for all.

    Returns:
      The values of all metrics at this evaluation.

    Raises:
      UserError: if the value of a metric does not have the declared shape or a suitable type.
    """
    params, one = client_models(parts, carry.algorithm), global_model(parts, carry.algorithm)
    computed = rounds_computed(carry.divergence, carry.round, parts.schedule.eval_every)
    sample: Sample | None
    if is_sampled(parts.schedule) and not start:
        score, of_one, sample = _scores_or_sample(parts, data, key, carry, params, one)
    else:
        score, of_one = scores(parts, data, carry.clients, params, one, alike)
        sample = everyone(parts.task.num_clients) if is_sampled(parts.schedule) else None
    score, of_one = (jax.tree.map(carry.divergence.result, found) for found in (score, of_one))
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
        rounds_done=carry.stop_state.rounds if carry.stop_state else computed,
        divergence=carry.divergence,
        messages=carry.messages,
        bits=words(carry.bits),
        sums=sums,
        rows=rows,
        sample=sample,
    )
    values = {metric.name: _value(metric, at) for metric in parts.metrics}
    return Metrics(parts.metrics, {"round": carry.round} | values)


def _of_clients(parts: Parts, state: Any, ran: jax.Array) -> Any:
    """Remove the rows of padding clients from the algorithm's state."""
    num_clients = parts.task.num_clients
    rows = sharding.padded(num_clients, parts.task.mesh)
    if rows == num_clients:
        return state

    def of_clients(x: jax.Array, by_client: bool) -> jax.Array:
        # Devices must communicate to cut rows off. For a leaf that no round changes, they could do this while the
        # rounds run. ``ran`` depends on the rounds (its value is always true), so they do it after the rounds.
        return jnp.where(ran, x, 0)[:num_clients] if by_client else x

    return jax.tree.map(of_clients, state, sharding.stacked(state, rows))


def _value(metric: Metric, at: Evaluation) -> jax.Array:
    """Measure a metric, check the value against the declaration, and apply ``still`` if the run has ended."""
    found = metric.measure(at)
    value = found if isinstance(found, jax.Array) else jnp.asarray(found)
    rounds = value.shape[0] if metric.by_round and value.ndim else 0
    wanted = metric.dims(at.num_clients, rounds, at.num_classes)
    if value.shape != wanted:
        said = f"is declared of shape {wanted} and was measured as {value.shape}"
        raise UserError(own_files.located(f"the metric {metric.name!r} {said}", metric.measure))
    if metric.still is None or metric.by_round:
        return value
    if metric.still != metric.still and not jnp.issubdtype(value.dtype, jnp.floating):
        said = f"is {value.dtype}, which cannot be UNKNOWN while a run stands still"
        raise UserError(own_files.located(f"the metric {metric.name!r} {said}", metric.measure))
    still = (at.sums.rounds == 0) & (at.round > 0)
    return jnp.where(still, jnp.asarray(metric.still, value.dtype), value)
