"""Runs the batches of a study one after another, tells the sinks what happens, and saves what a later run needs."""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence

from mdfl_jax.core.errors import out_of_memory
from mdfl_jax.storage.checkpoint import Checkpoints, number_of
from mdfl_jax.storage.checksums import Arrays
from mdfl_jax.storage.disk import DiskError
from mdfl_jax.study.batch import Batch, BatchResult, Program, batches_of, from_arrays, steps, to_arrays
from mdfl_jax.study.compiled import Compiler
from mdfl_jax.study.events import Compiling, Ended, Evaluated, Event, ModelsKept, Sink
from mdfl_jax.study.halving import OutOfMemoryError
from mdfl_jax.study.study import Run, Study


class Interrupted(Exception):  # noqa: N818
    """The user stopped the study. Its state is saved, and the same command continues it."""


class Runner:
    """Runs one study.

    Args:
      study: The study.
      checkpoints: The checkpoints of its workdir, from which an unfinished run is read and to which it is saved.
      sinks: The sinks that take the events.
    """

    def __init__(self, study: Study, checkpoints: Checkpoints, sinks: Sequence[Sink]):
        self.study = study
        self.checkpoints = checkpoints
        self.sinks = sinks
        self.batches = batches_of(study)
        self.results: dict[int, BatchResult] = {}
        self.unsaved: list[int] = []
        self.states: dict[int, int] = {}  # the evaluations of the saved batches that are not continued yet
        self.earlier: dict[int, int] = {}  # the evaluations that an earlier run made of a batch, until they are emitted
        self.stopping = False
        self.error: BaseException | None = None
        self.saved_at = time.monotonic()

    def read_back(self) -> dict[int, BatchResult]:
        """Read the batches that an earlier run finished. Call this before any file of that run is changed.

        Returns:
          Their results by the number of the batch.

        Raises:
          UserError: If a checkpoint cannot be read.
        """
        progress = self.checkpoints.progress()
        self.states = {number_of(name): done for name, done in progress.states.items()}
        self.earlier = {number: done + 1 for number, done in self.states.items()}
        declared = [batch.group.simulation.metrics for batch in self.batches]
        return {number: from_arrays(found, declared[number]) for number, found in self.checkpoints.finished().items()}

    def run(self, finished: Mapping[int, BatchResult]) -> list[tuple[list[Run], BatchResult]]:
        """Run all batches that are not finished. The events of all batches come in the order of the batches.

        Args:
          finished: The results of the finished batches, from `read_back`.

        Returns:
          The runs and the result of every batch, in the order of the study.

        Raises:
          Interrupted: If `stop` was called without an error. The state is saved.
          Exception: The error with which `stop` was called. The state is saved.
          OutOfMemoryError: If the memory is not enough for a batch. What was finished before is saved.
          UserError: If the state of a batch under way cannot be read, or if a file cannot be written.
        """
        program: Program | None = None
        compiler = Compiler()
        for batch in self.batches:
            if result := finished.get(batch.number):
                earlier = result.metrics.round.shape[1]
                self._emit(Evaluated(batch, result.metrics, result.facts, earlier=earlier))
                self._finish(batch, result)
                continue
            if program is None or program.group is not batch.group:
                program = Program(self.study, batch.group, compiler)
            self._batch_or_keep(program, batch)
            if len(self.results) < len(self.batches) and self._save_is_due():
                self._save()
        if self.error:
            self._save()
        if self.unsaved:  # whatever happens while the files of results are written, no run is lost
            self._write({})
        return [(batch.runs, self.results[batch.number]) for batch in self.batches]

    def stop(self, error: BaseException | None = None) -> None:
        """Make the study save its state after the current evaluation and end. A sink or a signal may call this.

        Args:
          error: The error that ends the study. Without one it raises `Interrupted`, and it does not end before its
            time if this evaluation is its last one.
        """
        self.stopping = True
        self.error = self.error or error

    def _emit(self, event: Event) -> None:
        for sink in self.sinks:
            sink.take(event)

    def _batch_or_keep(self, program: Program, batch: Batch) -> None:
        """Run a batch. If it fails for lack of room or of memory, saves the batches that are finished."""
        try:
            self._batch(program, batch)
        except DiskError:
            with contextlib.suppress(DiskError):  # a small file may have room where a large one had none
                self._save_finished()
            raise
        except (RuntimeError, MemoryError) as error:
            if error is self.error or (asked := out_of_memory(error)) is None:
                raise
            self._save_finished()
            raise OutOfMemoryError(batch.group, asked) from error

    def _batch(self, program: Program, batch: Batch) -> None:
        """Run a batch, from its saved state if it has one."""
        if program.compile_seconds is None:
            self._emit(Compiling(batch))
        done = self.states.get(batch.number, 0)
        done, saved = self.checkpoints.state(batch.number, done) if batch.number in self.states else (0, None)
        self.earlier[batch.number] = done + 1 if saved else 0
        for step in steps(program, batch.runs, saved, done):
            for kept in step.kept:
                self._emit(ModelsKept(batch, kept))
            earlier = self.earlier.pop(batch.number, 0)
            self._emit(Evaluated(batch, step.metrics, step.facts, step.rounds, not step.rounds, earlier))
            if not step.last and (step.rounds or self.stopping) and self._save_is_due():
                self._save(batch.number, step.state(), step.evaluations)
        self._finish(batch, step.result(), step.state)
        self.unsaved.append(batch.number)

    def _finish(self, batch: Batch, result: BatchResult, state: Callable[[], Arrays] | None = None) -> None:
        """Record the result of a batch, all of whose metrics have been emitted."""
        self.results[batch.number] = result
        self._emit(Ended(batch, result, state))
        self.states.pop(batch.number, None)

    def _save_is_due(self) -> bool:
        minutes = (time.monotonic() - self.saved_at) / 60
        return self.stopping or minutes >= self.study.experiment.engine.checkpoint_minutes

    def _save(self, number: int | None = None, state: Arrays | None = None, evaluations: int = 0) -> None:
        """Save all results and states, with that of the batch under way. If the study must end, raises why."""
        waiting: dict[int, tuple[int, Arrays | None]] = {n: (done, None) for n, done in self.states.items()}
        self._write(waiting if number is None else waiting | {number: (evaluations, state)})
        if number is not None:
            self.states[number] = evaluations
        if self.stopping:
            raise self.error or Interrupted

    def _save_finished(self) -> None:
        """Save the results that are in no checkpoint yet, beside the states that are saved."""
        if self.unsaved:
            self._write({n: (done, None) for n, done in self.states.items()})

    def _write(self, states: dict[int, tuple[int, Arrays | None]]) -> None:
        """Write a checkpoint: the results that are in none yet, and the states of the batches under way."""
        self.checkpoints.save({n: to_arrays(self.results[n]) for n in self.unsaved}, states)
        self.unsaved, self.saved_at = [], time.monotonic()
