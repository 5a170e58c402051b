"""The state before the first round, and its evaluation.

The state is made in three steps, of which the first two do not know the algorithm. Studies compile each of them by
itself, since equal programs are compiled once for all algorithms and networks (`mdfl_jax.study.compiled`).
"""

from typing import Any

import jax
import jax.numpy as jnp

from mdfl_jax.core import sharding
from mdfl_jax.core.client_padding import held_by
from mdfl_jax.core.diverging import no_divergence
from mdfl_jax.core.message_bits import no_bits
from mdfl_jax.core.parts import Carry, Parts
from mdfl_jax.core.rng import stream
from mdfl_jax.core.stopping import initial_stop_state
from mdfl_jax.core.types import Hparams, Params
from mdfl_jax.engine import division
from mdfl_jax.engine.rounds import settle
from mdfl_jax.metrics import round_records
from mdfl_jax.metrics.evaluation import Sums, no_sums
from mdfl_jax.metrics.history import Metrics
from mdfl_jax.metrics.measure import measure


def draw(parts: Parts, data: Any, hparams: Hparams, key: jax.Array) -> tuple[Any, Params]:
    """Draw what the task tells: the data of the clients and the first model.

    Args:
      parts: the parts of the simulation.
      data: the task's data.
      hparams: the numbers of the run.
      key: the seed's key.

    Returns:
      (the clients' data, as the task's ``partition`` returns it; one model, as the task's ``init`` returns it).
    """
    return division.divided(parts, data, hparams, key), parts.task.init(data, stream(key, "init"))


def world(parts: Parts, hparams: Hparams, key: jax.Array, clients: Any) -> Any:
    """Return the network's state before the first round."""
    return parts.network.init(hparams.network, key, held_by(clients, parts.task.num_clients))


def begin(parts: Parts, hparams: Hparams, model: Params, network: Any) -> tuple[Carry, Sums, round_records.Rows]:
    """Return the state before the first round, without the clients' data, and what its evaluation reads of rounds.

    Args:
      parts: the parts of the simulation.
      hparams: the numbers of the run, perhaps with models from which the clients start.
      model: the first model, from `draw`.
      network: the network's state, from `world`.

    Returns:
      (state, the sums over no rounds, the rows of the metrics with one value a round).
    """
    task, schedule = parts.task, parts.schedule
    num_clients, rows = task.num_clients, sharding.padded(task.num_clients, task.mesh)
    client_params = jax.tree.map(lambda p: jnp.broadcast_to(p, (rows, *p.shape)), model)
    if hparams.start is not None:
        client_params = jax.tree.map(_for_rows, hparams.start, client_params)
    carry = Carry(
        round=jnp.int32(0),
        clients=None,
        network=network,
        algorithm=parts.algorithm.init(hparams.algorithm, client_params),
        messages=jnp.zeros(num_clients, jnp.int32),
        bits=no_bits(num_clients),
        stop_state=initial_stop_state(jax.tree.leaves(model)[0].dtype) if schedule.stop_std else None,
        divergence=no_divergence(),
    )
    before = round_records.before_rounds(parts.by_round, parts.network, hparams.network, network, num_clients)
    by_round = round_records.no_rows(parts.metrics, num_clients) | before
    return carry, no_sums(parts.metrics, parts.network), by_round


def first(parts: Parts, data: Any, hparams: Hparams, key: jax.Array) -> tuple[Carry, Sums, round_records.Rows]:
    """Return the whole state before the first round, and what its evaluation reads: the first three steps."""
    clients, model = draw(parts, data, hparams, key)
    carry, sums, rows = begin(parts, hparams, model, world(parts, hparams, key, clients))
    return settle(parts, carry._replace(clients=clients)), sums, rows


def init(parts: Parts, data: Any, hparams: Hparams, key: jax.Array) -> tuple[Carry, Metrics]:
    """Return the state before the first round and its evaluation: all steps."""
    carry, sums, rows = first(parts, data, hparams, key)
    alike = hparams.start is None or jax.tree.leaves(hparams.start)[0].shape[0] == 1
    return carry, measure(parts, data, key, carry, sums, rows, start=True, alike=alike)


def _for_rows(given: jax.Array, like: jax.Array) -> jax.Array:
    """Return given models, [N, ...] or [1, ...], for all rows; a row beyond N, of a padding client, has the first."""
    more = jnp.broadcast_to(given[:1], (like.shape[0] - given.shape[0], *given.shape[1:]))
    return jnp.concatenate([given, more]).astype(like.dtype)
