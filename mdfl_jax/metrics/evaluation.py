"""What a metric may read: at an evaluation, and in each of the rounds before it."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.errors import UserError
from mdfl_jax.metrics.declare import Metric
from mdfl_jax.metrics.values import LAMBDA_2_LIMIT, num_neighbours
from mdfl_jax.types import Algorithm, Array, ClientParams, Links, Network, Places, RoundStats, Score, Task


class RoundView(NamedTuple):
    """What a metric may read in a round (`Metric.each_round`).

    Attributes:
      links: of the round, among the N clients.
      stats: what the algorithm did in it, of the N clients.
      loss: [N] float training loss at the first local step; NaN for a client without samples.
    """

    links: Links
    stats: RoundStats
    loss: jax.Array

    @property
    def num_neighbours(self) -> jax.Array:
        """[N] int32 senders that each client hears."""
        return num_neighbours(self.links)


class Sums(NamedTuple):
    """What is kept of the rounds since the last evaluation.

    Attributes:
      rounds: [] int32 how many were run; none of those in which a run stood still.
      mix: [N, N] float mixing weights of the last one; [0, 0] where N is too large for ``lambda_2``.
      totals: by the name of a metric, what its ``each_round`` gave, added up.
    """

    rounds: jax.Array
    mix: jax.Array
    totals: dict[str, jax.Array]


class Evaluation(NamedTuple):
    """What a metric may read at an evaluation of one run.

    Attributes:
      task, network, algorithm: the three nouns, functions and not values.
      data: the task's data.
      clients: who holds what, as the task has it.
      models: [N, ...] the models of the clients.
      model: [1, ...] the model that the run is judged by: the mean of these, or the algorithm's global model.
      score: [N] accuracy and loss of ``models`` on the test samples; NaN where the global model alone is evaluated.
      model_score: [1] the same of ``model``.
      network_state: the network's state.
      algorithm_state: the algorithm's state, where its leaves belong to clients of the N clients.
      round: [] int32 rounds gone by.
      rounds_done: [] int32 rounds that were run; the stop rule may have ended the run.
      messages: [N] int32 messages sent since the start.
      bits: [N, 2] uint32 what they held (`mdfl_jax.exchange.meter.words`).
      sums: of the rounds since the last evaluation.
      position: [rounds since the last evaluation, N, 2] float32 places after each round, or [0, N, 2].
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
    messages: jax.Array
    bits: jax.Array
    sums: Sums
    position: jax.Array

    @property
    def num_clients(self) -> int:
        """N."""
        return self.task.num_clients

    @property
    def places(self) -> Places:
        """Where the clients are, and how far each has moved."""
        return self.network.places(self.network_state)

    def total(self, name: str) -> Array:
        """What the ``each_round`` of a metric gave, added up over the rounds since the last evaluation."""
        return self.sums.totals[name]

    def mean_over_rounds(self, name: str) -> Array:
        """The same as a mean over these rounds; NaN where there were none."""
        rounds = self.sums.rounds
        return jnp.where(rounds > 0, self.total(name) / jnp.maximum(rounds, 1), jnp.nan)


def no_sums(metrics: tuple[Metric, ...], num_clients: int) -> Sums:
    """Before the first of these rounds."""
    size = num_clients if num_clients <= LAMBDA_2_LIMIT else 0  # kept for lambda_2, and only where that is taken
    totals = {metric.name: jnp.zeros(metric.dims(num_clients)) for metric in metrics if metric.each_round}
    return Sums(jnp.int32(0), jnp.zeros((size, size)), totals)


def add_round(metrics: tuple[Metric, ...], sums: Sums, view: RoundView) -> Sums:
    """One round later.

    Raises:
      UserError: where what a metric gives in a round is not of its shape.
    """
    size = sums.mix.shape[0]
    totals = {}
    for metric in metrics:
        if metric.each_round:
            value, total = jnp.asarray(metric.each_round(view)), sums.totals[metric.name]
            if value.shape != total.shape:
                said = f"is declared of shape {total.shape} and each_round gives {value.shape}"
                raise UserError(f"the metric {metric.name!r} {said}")
            totals[metric.name] = total + value
    return Sums(sums.rounds + 1, view.links.mix[:size, :size].astype(sums.mix.dtype), totals)
