"""The metrics with one value a round: their rows, and which of the records of the rounds a simulation keeps.

A record (`Metric.record`) tells where clients are and what happens between them, for maps and statistics of contacts.
Records cost memory in proportion to the rounds, so they are kept only up to a given size. Of more than `RECORD_LIMIT`
clients only those of one byte a client and round are kept, such as who is present.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.core import own_files
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.metric import Metric
from mdfl_jax.core.types import Network
from mdfl_jax.metrics.evaluation import RoundView

RECORD_LIMIT = 256  # the largest N of which all are kept; the links of a round take N N / 8 bytes
MIB = 2**20

Rows = dict[str, jax.Array]  # by the name of the metric, [rounds, ...]


class Records(NamedTuple):
    """The records of the rounds of a simulation, without the positions.

    Attributes:
      names: the records that the network and the algorithm have; of many clients those that could be kept.
      size: the bytes that they take for one run.
      kept: whether they are kept.
      why: why they are not, as the end of a sentence; "" if they are kept, or if nobody asked for them.
    """

    names: tuple[str, ...]
    size: int
    kept: bool
    why: str = ""


def choose(
    metrics: Sequence[Metric], num_clients: int, rounds: int, positions: bool, limit_mib: float
) -> tuple[tuple[Metric, ...], Records]:
    """Choose the metrics that are measured.

    A history has always had the metric ``position``. If it is not recorded, it has no rows. Other records that are not
    kept are left out, so that a program without records is the same as if they were not declared.

    Args:
      metrics: all metrics that the parts of a simulation declare.
      num_clients: N.
      rounds: R.
      positions: whether the positions are recorded. Without them no other record is.
      limit_mib: the largest size in MiB of the other records of one run.

    Returns:
      (the metrics, what is known of the records).
    """
    others = [metric for metric in metrics if metric.record and metric.name != "position"]
    few = [metric for metric in others if num_clients <= RECORD_LIMIT or _bytes(metric, num_clients) <= num_clients]
    asked = few or others
    size = rounds * sum(_bytes(metric, num_clients) for metric in asked)
    why = ""
    if positions and limit_mib and not few:
        why = f"are recorded of at most {RECORD_LIMIT} clients, and there are {num_clients:,}"
    elif positions and 0 < limit_mib * MIB < size:
        why = f"would take {size / MIB:,.1f} MiB of a run, and engine.record_mib is {limit_mib:g}"
    kept = positions and limit_mib > 0 and not why
    measured = tuple(metric for metric in metrics if metric not in others or (kept and metric in few))
    return measured, Records(tuple(metric.name for metric in asked), size, kept, why)


def of_each_round(metrics: Sequence[Metric], positions: bool) -> tuple[Metric, ...]:
    """Return the metrics whose value of each round is kept. Without positions no record is."""
    return tuple(m for m in metrics if m.by_round and m.each_round and (positions or not m.record))


def _bytes(metric: Metric, num_clients: int) -> int:
    """Compute the bytes of a record in a round of one run."""
    return math.prod(metric.dims(num_clients, 1)) * np.dtype(metric.dtype).itemsize


def _value(metric: Metric, view: RoundView, num_clients: int) -> jax.Array:
    """Compute the value of one round, and check its shape."""
    assert metric.each_round is not None
    value, wanted = jnp.asarray(metric.each_round(view)), metric.dims(num_clients, 1)[1:]
    if value.shape != wanted:
        said = f"is declared of shape {wanted} a round and each_round gives {value.shape}"
        raise UserError(own_files.located(f"the metric {metric.name!r} {said}", metric.each_round))
    return value if metric.still is None else value.astype(metric.dtype)


def of_round(metrics: Sequence[Metric], view: RoundView, num_clients: int) -> Rows:
    """Compute the values of one round.

    Args:
      metrics: the metrics with one value a round.
      view: the data of the round.
      num_clients: N.

    Returns:
      The values by the name of the metric, without an axis of rounds.

    Raises:
      UserError: if a value has another shape than the declared one.
    """
    return {metric.name: _value(metric, view, num_clients) for metric in metrics}


def without_round(metrics: Sequence[Metric], network: Network, params: Any, state: Any, num_clients: int) -> Rows:
    """Compute the values in the place of a round that is not run, since the stop rule has ended the run.

    Args:
      metrics: the metrics with one value a round.
      network: the network.
      params: the network's traced numbers.
      state: the network's state.
      num_clients: N.

    Returns:
      The values as in `of_round`: those of the state, or the number that the metric declares for this case.
    """
    nothing: Any = None
    view = RoundView(nothing, nothing, nothing, network, params, None, state)
    filled = lambda metric: jnp.full(metric.dims(num_clients, 1)[1:], metric.still, metric.dtype)  # noqa: E731
    return {m.name: _value(m, view, num_clients) if m.still is None else filled(m) for m in metrics}


def before_rounds(metrics: Sequence[Metric], network: Network, params: Any, state: Any, num_clients: int) -> Rows:
    """Return the rows before the first round: one of the metrics that read only the state, none of the others.

    Args:
      metrics, network, params, num_clients: as in `without_round`.
      state: the network's state before the first round.

    Returns:
      The rows by the name of the metric, [1, ...] or [0, ...].
    """
    rows = without_round(metrics, network, params, state, num_clients)
    return {m.name: rows[m.name][None] if m.still is None else rows[m.name][None][:0] for m in metrics}


def no_rows(metrics: Sequence[Metric], num_clients: int) -> Rows:
    """Return [0, ...] for each metric with one value a round, for those of which nothing is recorded."""
    return {m.name: jnp.zeros(m.dims(num_clients)) for m in metrics if m.by_round and m.each_round}
