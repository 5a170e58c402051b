"""What happens while a study runs, as events. Whoever writes, shows or watches takes them: see `sinks.py`."""

from typing import NamedTuple, Protocol, Self

from mdfl_jax.experiments.run.batch import Batch, BatchResult
from mdfl_jax.metrics.history import Metrics
from mdfl_jax.simulation import RunFacts


class Compiling(NamedTuple):
    """The program of a batch is about to be compiled."""

    batch: Batch


class Evaluated(NamedTuple):
    """Metrics of a batch have come, of one evaluation or of several.

    Attributes:
      batch: the runs.
      metrics: what is new, NumPy leaves [runs, evaluations, ...].
      facts: NumPy leaves [runs, ...].
      rounds: of a run since the evaluation before; 0 before the first round, and where it was computed elsewhere.
      first: nothing of this batch came before it, and it is not read back from an earlier run.
    """

    batch: Batch
    metrics: Metrics
    facts: RunFacts
    rounds: int = 0
    first: bool = False


class Ended(NamedTuple):
    """A batch has ended; all its metrics have come."""

    batch: Batch
    result: BatchResult


class Elsewhere(NamedTuple):
    """Other processes have this many rounds behind them of the batches that they have not ended."""

    rounds: int


Event = Compiling | Evaluated | Ended | Elsewhere


class Sink(Protocol):
    """Takes the events of a study as they come; a context manager around the whole study."""

    def take(self, event: Event) -> None:
        """Takes an event; those that it does not care for it lets pass."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...
