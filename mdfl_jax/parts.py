"""What a simulation is built of, and what it hands on from round to round."""

from typing import Any, NamedTuple

import jax

from mdfl_jax.exchange.meter import Bits
from mdfl_jax.metrics.declare import Metric
from mdfl_jax.stopping import Watch
from mdfl_jax.types import Algorithm, Array, Network, Task


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
    """What a simulation is built of.

    Attributes:
      task, network, algorithm: the three nouns.
      schedule: how long, and how often to look.
      metrics: what is measured, in this order (`mdfl_jax.metrics.metrics_of`).
    """

    task: Task
    network: Network
    algorithm: Algorithm
    schedule: Schedule
    metrics: tuple[Metric, ...]
