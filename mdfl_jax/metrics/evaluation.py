"""The data that a metric may read at an evaluation and in each of the rounds before it, and how a metric is measured.

A record (`RoundRows.record`) tells where clients are and what happens between them, for maps and contacts.
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
from mdfl_jax.core.links import ALL_PAIRS, Senders, no_senders
from mdfl_jax.core.metric import Metric
from mdfl_jax.core.stopping import Divergence
from mdfl_jax.core.types import Algorithm, Array, ClientParams, Links, Network, Places, RoundStats, Score, Task
from mdfl_jax.exchange.active import Finishing
from mdfl_jax.metrics.values import LAMBDA_2_LIMIT, num_neighbours

RECORD_LIMIT = 256  # the largest N of which all are kept; the links of a round take N N / 8 bytes
_MIB = 2**20

MetricRows = dict[str, jax.Array]  # by the name of the metric, [rounds, ...]


class RoundView(NamedTuple):
    """The data that a metric may read in a round (`Metric.each_round`).

    Attributes:
      links: the links of the round among the N clients, over which messages could go.
      heard: the links among them over which messages went (`RoundStats.heard`).
      stats: the losses, messages and bits of the round, for the N clients.
      loss: [N] float, the training loss at the first local step; NaN for an attacker and a client without samples.
      network: the network.
      params: the network's traced numbers, ``hparams.network``.
      before: the network's state from which the links were computed.
      state: the network's state after the round, and so after the movement that follows the links.

    Before the first round, and after the stop rule has ended the run, there is no round: ``links``, ``heard``,
    ``stats``, ``loss`` and ``before`` are then None. Only metrics with one value a round that declare `HOLDS` are
    measured there.
    """

    links: Links
    heard: Links
    stats: RoundStats
    loss: jax.Array
    network: Network
    params: Any
    before: Any
    state: Any

    @property
    def num_neighbours(self) -> jax.Array:
        """[N] int32, the number of senders in range, from which a client can receive."""
        return num_neighbours(self.links)

    @property
    def num_heard(self) -> jax.Array:
        """[N] int32, the number of senders from which each client received."""
        return num_neighbours(self.heard)

    def of_finished(self, values: jax.Array) -> jax.Array:
        """Return values [N] with zero for the clients whose work has not ended in the round."""
        if self.links.get(Finishing) is None:
            return values
        assert self.stats.report.computed is not None  # works end with clocks, which know who computed
        return jnp.where(self.stats.report.computed, values, 0)

    @property
    def places(self) -> Places:
        """The places of the clients after the round, and the distance that each has moved."""
        return self.network.places(self.state)


class Sums(NamedTuple):
    """Sums over the rounds since the last evaluation.

    Attributes:
      rounds: [] int32, the number of rounds that were run. Rounds after the stop rule has ended the run do not count.
      mix: [N, K] float, the mixing matrix of the last round that was run; [0, 0] if N is too large for ``lambda_2``.
      senders: the clients for which the K places of ``mix`` stand.
      totals: for each name of a metric with ``each_round``, the sum of its values in these rounds.
    """

    rounds: jax.Array
    mix: jax.Array
    senders: Senders
    totals: dict[str, jax.Array]


class Sample(NamedTuple):
    """The clients that count, in a study that evaluates a sample of its clients (`mdfl_jax.metrics.sampling`), or in
    which some attack.

    Attributes:
      stands_for: [N] float32, the number of clients for which each evaluated client stands; 0 if it is not evaluated,
        or an attacker.
      error: [2] float32, the standard errors of the mean accuracy by the samples of clients and of test samples.
    """

    stands_for: jax.Array
    error: jax.Array


class Evaluation(NamedTuple):
    """The data that a metric may read at an evaluation of one run.

    Attributes:
      task, network, algorithm: the three parts of the simulation, as functions; their states are below.
      data: the task's data.
      clients: the data that each client holds, as the task's ``partition`` returns it.
      models: [N, ...] the models of the clients, as they are evaluated (`Scoring.adapt`).
      model: [1, ...] the judged model: the algorithm's global model, or the mean of ``models`` if it has none.
      score: [N] accuracy and loss of ``models`` on the test samples; NaN if only the global model is evaluated, for
        clients that are not in ``sample``, and once the run has diverged.
      model_score: [1] accuracy and loss of ``model`` on the test samples.
      network_state: the network's state.
      algorithm_state: the algorithm's state. Its leaves that belong to clients have N rows.
      round: [] int32, the number of rounds since the start.
      rounds_done: [] int32, the number of these rounds that were run. It is smaller if the stop rule or
        divergence has ended the run.
      divergence: whether the run has diverged, and in which round.
      messages: [N] int32, the number of messages sent since the start.
      bits: [N, 2] uint32, the number of bits in these messages, in two words (`mdfl_jax.core.message_bits.words`).
      sums: sums over the rounds since the last evaluation.
      rows: for each name of a metric with one value a round, its values in the rounds since the last evaluation
        (`by_round`).
      sample: the clients that count; None in a study without attackers that evaluates all clients on all test samples.
    """

    task: Task
    network: Network
    algorithm: Algorithm
    data: Any
    clients: Any
    models: ClientParams
    model: ClientParams
    score: Score
    model_score: Score
    network_state: Any
    algorithm_state: Any
    round: jax.Array
    rounds_done: jax.Array
    divergence: Divergence
    messages: jax.Array
    bits: jax.Array
    sums: Sums
    rows: dict[str, jax.Array]
    sample: Sample | None = None

    @property
    def num_clients(self) -> int:
        """The number of clients, N."""
        return self.task.num_clients

    @property
    def num_classes(self) -> int:
        """The number of labels, C."""
        return self.clients.label_counts.shape[-1]

    @property
    def label_counts(self) -> jax.Array:
        """[N, C] int32, the number of training samples of each label that each client holds."""
        return self.clients.label_counts[: self.num_clients]

    @property
    def places(self) -> Places:
        """The places of the clients, and the distance that each has moved."""
        return self.network.places(self.network_state)

    @property
    def honest(self) -> jax.Array | None:
        """[N] bool, the clients that are no attackers; None: nobody attacks."""
        return self.network.hooks.counted(self.network_state) if self.network.hooks.counted else None

    def by_round(self, name: str) -> jax.Array:
        """Return the values of a metric's ``each_round``, [rounds since the last evaluation, ...].

        Before the first round there is one row if the metric declares `HOLDS`, and none otherwise.
        """
        return self.rows[name]

    def total(self, name: str) -> Array:
        """Return the sum of a metric's ``each_round`` over the rounds since the last evaluation."""
        return self.sums.totals[name]

    def mean_over_rounds(self, name: str) -> Array:
        """Return the mean of a metric's ``each_round`` over the same rounds as `total`; NaN if there were none."""
        rounds = self.sums.rounds
        return jnp.where(rounds > 0, self.total(name) / jnp.maximum(rounds, 1), jnp.nan)

    def mean_over_works(self, name: str) -> Array:
        """Return the mean of a metric's ``each_round`` over the works that each client has finished; NaN without any.

        Without clocks (`mdfl_jax.networks.wrappers.clocks`), each round is a work of every client.
        """
        works = self.sums.totals.get("works")
        if works is None:
            return self.mean_over_rounds(name)
        return jnp.where(works > 0, self.total(name) / jnp.maximum(works, 1), jnp.nan)


def no_sums(metrics: tuple[Metric, ...], network: Network) -> Sums:
    """Return the sums of no rounds, all zero.

    Args:
      metrics: the metrics of the simulation.
      network: the network.
    """
    num_clients = network.num_clients
    if network.lists:
        shape, senders = (num_clients, network.lists.places), no_senders(num_clients, network.lists.places)
    else:
        size = num_clients if num_clients <= LAMBDA_2_LIMIT else 0  # the matrix is kept only for lambda_2
        shape, senders = (size, size), ALL_PAIRS
    summed = [metric for metric in metrics if metric.each_round and not metric.by_round]
    totals = {metric.name: jnp.zeros(metric.dims(num_clients)) for metric in summed}
    return Sums(jnp.int32(0), jnp.zeros(shape), senders, totals)


def add_round(metrics: tuple[Metric, ...], sums: Sums, view: RoundView) -> Sums:
    """Add one round to the sums.

    Args:
      metrics: the metrics of the simulation.
      sums: the sums before this round.
      view: the data of this round.

    Returns:
      The sums after this round.

    Raises:
      UserError: if the ``each_round`` of a metric returns another shape than the declared one.
    """
    rows, columns = sums.mix.shape
    totals = {}
    for metric in metrics:
        if metric.each_round and not metric.by_round:
            value, total = jnp.asarray(metric.each_round(view)), sums.totals[metric.name]
            if value.shape != total.shape:
                said = f"is declared of shape {total.shape} and each_round gives {value.shape}"
                raise UserError(own_files.located(f"the metric {metric.name!r} {said}", metric.each_round))
            totals[metric.name] = total + value
    mix, senders = view.links.mix[:rows, :columns].astype(sums.mix.dtype), view.links.senders
    return Sums(sums.rounds + 1, mix, senders._replace(reach=None), totals)  # the sums begin with no senders


class Records(NamedTuple):
    """The records of the rounds of a simulation, without the positions.

    Attributes:
      names: the records that the network and the algorithm have; for many clients only the ones that could be kept.
      size: the bytes that the records take for one run.
      kept: whether the records are kept.
      why: why the records are not kept, as the end of a sentence; "" if they are kept, or if nobody asked for them.
    """

    names: tuple[str, ...]
    size: int
    kept: bool
    why: str = ""


def choose_records(
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
    others = [metric for metric in metrics if metric.rows.record and metric.name != "position"]
    few = [metric for metric in others if num_clients <= RECORD_LIMIT or _bytes(metric, num_clients) <= num_clients]
    asked = few or others
    size = rounds * sum(_bytes(metric, num_clients) for metric in asked)
    why = ""
    if positions and limit_mib and not few:
        why = f"are recorded of at most {RECORD_LIMIT} clients, and there are {num_clients:,}"
    elif positions and 0 < limit_mib * _MIB < size:
        why = f"would take {size / _MIB:,.1f} MiB of a run, and engine.record_mib is {limit_mib:g}"
    kept = positions and limit_mib > 0 and not why
    measured = tuple(metric for metric in metrics if metric not in others or (kept and metric in few))
    return measured, Records(tuple(metric.name for metric in asked), size, kept, why)


def metrics_by_round(metrics: Sequence[Metric], positions: bool) -> tuple[Metric, ...]:
    """Return the metrics whose value of each round is kept. Without positions no record is."""
    return tuple(m for m in metrics if m.by_round and m.each_round and (positions or not m.rows.record))


def _bytes(metric: Metric, num_clients: int) -> int:
    """Compute the bytes of a record in a round of one run."""
    return math.prod(metric.dims(num_clients, 1)) * np.dtype(metric.rows.dtype).itemsize


def _row(metric: Metric, view: RoundView, num_clients: int) -> jax.Array:
    """Compute the value of one round, and check its shape."""
    assert metric.each_round is not None
    value, wanted = jnp.asarray(metric.each_round(view)), metric.dims(num_clients, 1)[1:]
    if value.shape != wanted:
        said = f"is declared of shape {wanted} a round and each_round gives {value.shape}"
        raise UserError(own_files.located(f"the metric {metric.name!r} {said}", metric.each_round))
    return value if metric.still is None else value.astype(metric.rows.dtype)


def rows_of_round(metrics: Sequence[Metric], view: RoundView, num_clients: int) -> MetricRows:
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
    return {metric.name: _row(metric, view, num_clients) for metric in metrics}


def rows_without_round(
    metrics: Sequence[Metric], network: Network, params: Any, state: Any, num_clients: int
) -> MetricRows:
    """Compute the values in the place of a round that is not run, since the stop rule has ended the run.

    Args:
      metrics: the metrics with one value a round.
      network: the network.
      params: the network's traced numbers.
      state: the network's state.
      num_clients: N.

    Returns:
      The values as in `rows_of_round`: those of the state, or the number that the metric declares for this case.
    """
    nothing: Any = None
    view = RoundView(nothing, nothing, nothing, nothing, network, params, None, state)
    filled = lambda metric: jnp.full(metric.dims(num_clients, 1)[1:], metric.still, metric.rows.dtype)  # noqa: E731
    return {m.name: _row(m, view, num_clients) if m.still is None else filled(m) for m in metrics}


def rows_before(metrics: Sequence[Metric], network: Network, params: Any, state: Any, num_clients: int) -> MetricRows:
    """Return the rows before the first round: one of the metrics that read only the state, none of the others.

    Args:
      metrics, network, params, num_clients: as in `rows_without_round`.
      state: the network's state before the first round.

    Returns:
      The rows by the name of the metric, [1, ...] or [0, ...].
    """
    rows = rows_without_round(metrics, network, params, state, num_clients)
    return {m.name: rows[m.name][None] if m.still is None else rows[m.name][None][:0] for m in metrics}


def no_rows(metrics: Sequence[Metric], num_clients: int) -> MetricRows:
    """Return [0, ...] for each metric with one value a round, for those of which nothing is recorded."""
    return {m.name: jnp.zeros(m.dims(num_clients)) for m in metrics if m.by_round and m.each_round}


def measured(metric: Metric, at: Evaluation) -> jax.Array:
    """Measure a metric, check the value against the declaration, and apply ``still`` if the run has ended.

    Raises:
      UserError: if the value does not have the declared shape or a suitable type.
    """
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
