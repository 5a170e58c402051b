"""The events of a running study. Sinks take them to write files or to show progress: see `sinks.py`."""

from collections.abc import Callable
from typing import NamedTuple, Protocol, Self

from mdfl_jax.engine.simulation import RunFacts
from mdfl_jax.metrics.history import Metrics
from mdfl_jax.storage.checksums import Arrays
from mdfl_jax.study.batch import Batch, BatchResult
from mdfl_jax.study.keeping import Kept


class Compiling(NamedTuple):
    """The program of a batch is about to be compiled."""

    batch: Batch


class Evaluated(NamedTuple):
    """New metrics of a batch are available, of one evaluation or of several.

    Attributes:
      batch: The batch.
      metrics: The new metrics, NumPy leaves [runs, evaluations, ...].
      facts: The facts of the runs, NumPy leaves [runs, ...].
      rounds: The rounds of a run since the last evaluation; 0 before the first round, or if they are read back.
      first: Whether these are the first metrics of this batch. False for a finished batch that is read back.
      earlier: How many of the evaluations, counted from the first, an earlier run of the study has made and saved.
    """

    batch: Batch
    metrics: Metrics
    facts: RunFacts
    rounds: int = 0
    first: bool = False
    earlier: int = 0


class ModelsKept(NamedTuple):
    """The models of a run must be written to a file. It comes before the state that knows this evaluation is saved."""

    batch: Batch
    kept: Kept


class Ended(NamedTuple):
    """A batch has ended. Events with all its metrics came before.

    Attributes:
      batch: The batch.
      result: Its result.
      state: A function that returns the arrays from which the batch could go on; None if it is read back.
    """

    batch: Batch
    result: BatchResult
    state: Callable[[], Arrays] | None = None


Event = Compiling | Evaluated | ModelsKept | Ended


class Sink(Protocol):
    """Takes the events of a study. It is a context manager around the whole study."""

    def take(self, event: Event) -> None:
        """Take an event. A sink ignores the events that it does not use."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...
