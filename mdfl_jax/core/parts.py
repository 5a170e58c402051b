"""The parts from which a simulation is built, and the state that it carries from round to round."""

from typing import Any, NamedTuple

import jax

from mdfl_jax.core.diverging import NORM, Divergence
from mdfl_jax.core.message_bits import Bits
from mdfl_jax.core.metric import Metric
from mdfl_jax.core.stopping import StopState
from mdfl_jax.core.types import Algorithm, Array, Network, Task


class Schedule(NamedTuple):
    """The length of a run, and how often the models are evaluated.

    Attributes:
      rounds: the number of rounds, R, a multiple of ``eval_every``.
      eval_every: rounds between evaluations.
      record_positions: whether to keep the positions of every round, which takes R * N * 8 bytes for each run.
      record_mib: with ``record_positions``, the other records of every round (links, meetings, destinations, ...) are
        kept too if they take at most this many MiB of a run (`mdfl_jax.metrics.round_records`); 0: positions alone.
      eval_clients: the clients that are evaluated between the first and the last evaluation, a sample of mobile and
        static ones (`mdfl_jax.metrics.sampling`); 0: all.
      eval_samples: the test samples on which they are evaluated there, a sample by label; 0: all.
      stop_std: a run stops once the standard deviation of the mean model's objective over three rounds is below this
        value (`mdfl_jax.core.stopping`); 0: there is no stop rule.
      global_only: whether to evaluate only the global model; the clients' accuracies and losses are then NaN. With many
        clients, the evaluation of all their models may take longer than the rounds between evaluations.
      metrics: the names of the metrics that are measured on request (`mdfl_jax.metrics.ON_REQUEST`).
      diverged_norm: a run has diverged once the norm of a client's parameters is above this
      (`mdfl_jax.core.diverging`).
    """

    rounds: int
    eval_every: int
    record_positions: bool = False
    stop_std: float = 0.0
    global_only: bool = False
    metrics: tuple[str, ...] = ()
    record_mib: float = 0.0
    eval_clients: int = 0
    eval_samples: int = 0
    diverged_norm: float = NORM


class Carry(NamedTuple):
    """The complete state of a run between two rounds.

    Attributes:
      round: [] int32 index of the next round.
      clients: the samples that each client holds, from ``Task.partition``.
      network: the network's state.
      algorithm: the algorithm's state.
      messages: [N] int32 messages that each client has sent so far.
      bits: [N] counts of the bits of these messages.
      stop_state: the state of the stop rule; None where there is none.
      divergence: whether the run has diverged. It is the last field, since checkpoints number the leaves.
    """

    round: jax.Array
    clients: Any
    network: Any
    algorithm: Any
    messages: jax.Array
    bits: Bits
    stop_state: StopState | None
    divergence: Divergence


class RunFacts(NamedTuple):
    """Facts about a run that are known before its first round, for reports.

    Attributes:
      label_counts: [N, C] int32 samples of each label that each client holds.
      is_mobile: [N] bool, whether each client is mobile.
      reached: [N] bool, whether each client ever meets the server; all False where there is no server.
    """

    label_counts: Array
    is_mobile: Array
    reached: Array


class Parts(NamedTuple):
    """The parts from which a simulation is built.

    Attributes:
      task, network, algorithm: the three main parts (`mdfl_jax.core.types`).
      schedule: the length of a run, and how often the models are evaluated.
      metrics: the metrics that are measured, in this order (`mdfl_jax.metrics.metrics_of`).
    """

    task: Task
    network: Network
    algorithm: Algorithm
    schedule: Schedule
    metrics: tuple[Metric, ...]

    @property
    def by_round(self) -> tuple[Metric, ...]:
        """The metrics whose value of each round is kept. Without positions no record is."""
        positions = self.schedule.record_positions
        return tuple(m for m in self.metrics if m.by_round and m.each_round and (positions or not m.record))
