"""Runs batches of a study in process 0, which writes the files, and collects those of the other processes."""

import math
import time
from collections.abc import Sequence

from mdfl_jax.experiments.processes.channel import Arrays
from mdfl_jax.experiments.processes.follow import shares
from mdfl_jax.experiments.processes.hosts import Interrupted, Lead
from mdfl_jax.experiments.results.checkpoint import Checkpoints, number_of, state_name
from mdfl_jax.experiments.run.batch import Batch, BatchResult, Program, batches_of, from_arrays, steps, to_arrays
from mdfl_jax.experiments.run.events import Compiling, Elsewhere, Ended, Evaluated, Event, ModelsKept, Sink
from mdfl_jax.experiments.run.keeping import Kept
from mdfl_jax.experiments.run.study import Run, Study


class Runner:
    """Runs one study.

    Args:
      study: The study.
      checkpoints: The checkpoints of its workdir, from which an unfinished run is read and to which it is saved.
      lead: Process 0, with its connections to the processes that share the study.
      sinks: The sinks that take the events.
    """

    def __init__(self, study: Study, checkpoints: Checkpoints, lead: Lead, sinks: Sequence[Sink]):
        self.study = study
        self.checkpoints = checkpoints
        self.lead = lead
        self.sinks = sinks
        self.batches = batches_of(study)
        self.results: dict[int, BatchResult] = {}
        self.unsaved: list[int] = []
        self.states: dict[int, tuple[int, Arrays | None]] = {}  # of batches under way elsewhere, or not continued yet
        self.earlier: dict[int, int] = {}  # the evaluations that an earlier run made of a batch, until they are emitted
        self.error: BaseException | None = None
        self.saved_at = time.monotonic()

    def read_back(self) -> list[tuple[Batch, BatchResult]]:
        """Reads the batches that an earlier run finished. Call this before any file of that run is changed.

        Raises:
          UserError: If a checkpoint cannot be read.
        """
        progress = self.checkpoints.progress()
        self.states = {number_of(name): (done, None) for name, done in progress.states.items()}
        self.earlier = {number: done + 1 for number, (done, _) in self.states.items()}
        batches = [self.batches[number_of(name)] for name in progress.finished]
        return [
            (batch, from_arrays(self.checkpoints.load(name), batch.group.simulation.metrics))
            for name, batch in zip(progress.finished, batches)
        ]

    def run(self, finished: list[tuple[Batch, BatchResult]]) -> list[tuple[list[Run], BatchResult]]:
        """Runs all batches that are not finished.

        Args:
          finished: The finished batches and their results, from `read_back`.

        Returns:
          The runs and the result of every batch, in the order of the study.

        Raises:
          Interrupted: On a signal, or if a sink has called `stop`. The state is saved.
          HostLost: If another process is gone. The state is saved.
          Exception: The error with which a sink has called `stop`. The state is saved.
          UserError: If the state of a batch under way cannot be read.
        """
        for batch, result in finished:
            self.earlier[batch.number] = result.metrics.round.shape[1]
            self._finish(batch, result, whole=True)
        program: Program | None = None
        for batch in self._share_out():
            if program is None or program.group is not batch.group:
                program = Program(self.study, batch.group)
            self._batch(program, batch)
            self._save_if_due()
        while len(self.results) < len(self.batches):
            self._take(wait=0.2)
            self._save_if_due()
        if self.error:
            self._save()
        if self.unsaved:  # whatever happens while the files of results are written, no run is lost
            self._write({})
        return [(batch.runs, self.results[batch.number]) for batch in self.batches]

    def stop(self, error: BaseException | None = None) -> None:
        """Makes the study save its state after the current evaluation and end. A sink may call this.

        Args:
          error: The error that ends the study. Without one it ends as by a signal, and not at all if this evaluation
            is the last one of the study.
        """
        self.lead.stopping = True
        self.error = self.error or error

    def _emit(self, event: Event) -> None:
        for sink in self.sinks:
            sink.take(event)

    def _share_out(self) -> list[Batch]:
        """Sends every other process its batches, and returns those of this process."""
        left = [batch.number for batch in self.batches if batch.number not in self.results]
        mine, *theirs = shares(left, list(self.states), self.lead.count)
        for index, numbers in enumerate(theirs, start=1):
            for number in (n for n in numbers if n in self.states):
                done = self.states[number][0]
                state = self.checkpoints.load(state_name(number, done))
                self.lead.send(index, "state", {"number": number, "evaluations": done}, state)
            sizes = [group.runs_per_batch for group in self.study.groups]
            self.lead.send(index, "plan", {"sizes": sizes, "numbers": numbers})
        return [self.batches[number] for number in mine]

    def _batch(self, program: Program, batch: Batch) -> None:
        """Runs a batch, from its saved state if it has one."""
        if program.compile_seconds is None:
            self._emit(Compiling(batch))
        done = self.states.get(batch.number, (0, None))[0]
        saved = self.checkpoints.load(state_name(batch.number, done)) if batch.number in self.states else None
        begin = time.monotonic()
        for step in steps(program, batch.runs, saved, done):
            if step.rounds:
                self.lead.patience = max(self.lead.patience, 2 * (time.monotonic() - begin))
            begin = time.monotonic()
            for kept in step.kept:
                self._emit(ModelsKept(batch, kept))
            earlier = self.earlier.pop(batch.number, 0)
            self._emit(Evaluated(batch, step.metrics, step.facts, step.rounds, not step.rounds, earlier))
            self._take()
            if not step.last and (step.rounds or self.lead.ending) and self._save_is_due():
                self._save(batch.number, step.state(), step.evaluations)
        self.unsaved.append(batch.number)
        self._finish(batch, step.result())

    def _finish(self, batch: Batch, result: BatchResult, whole: bool = False, first: bool = False) -> None:
        """Records the result of a batch. ``whole``: none of its metrics has been emitted yet."""
        if whole:
            earlier = self.earlier.pop(batch.number, 0)
            self._emit(Evaluated(batch, result.metrics, result.facts, first=first, earlier=earlier))
        self.results[batch.number] = result
        self.states.pop(batch.number, None)
        self._emit(Ended(batch, result))

    def _take(self, wait: float = 0.0) -> None:
        """Handles the messages of other processes. Waits up to ``wait`` seconds for the first one."""
        for _, message in self.lead.messages(wait):
            if message.kind == "state":
                self.states[message.fields["number"]] = message.fields["evaluations"], message.arrays
            elif message.kind == "models":
                run, at_round, accuracy = (message.fields[name] for name in ("run", "round", "accuracy"))
                kept = Kept(run, at_round, math.nan if accuracy is None else accuracy, message.arrays)
                self._emit(ModelsKept(self.batches[message.fields["number"]], kept))
            elif message.kind == "result":
                batch = self.batches[message.fields["number"]]
                self.unsaved.append(batch.number)
                result = from_arrays(message.arrays, batch.group.simulation.metrics)
                self._finish(batch, result, whole=True, first=True)
        self._emit(Elsewhere(sum(self.lead.rounds.values())))

    def _save_if_due(self) -> None:
        """Saves between two batches if a checkpoint is due."""
        if len(self.results) < len(self.batches) and (self.unsaved or self.lead.ending) and self._save_is_due():
            self._save()

    def _save_is_due(self) -> bool:
        minutes = (time.monotonic() - self.saved_at) / 60
        return self.lead.ending or minutes >= self.study.experiment.engine.checkpoint_minutes

    def _save(self, number: int | None = None, state: Arrays | None = None, evaluations: int = 0) -> None:
        """Saves all results and states, with that of the batch under way here. If the study must end, raises why."""
        if ending := self.lead.ending:
            until = time.monotonic() + self.lead.patience
            while not self.lead.resting() and time.monotonic() < until:
                self._take(wait=0.2)
            self._take()
        states = {n: of_batch for n, of_batch in self.states.items() if n != number}
        here = {} if number is None else {number: (evaluations, state)}
        self._write(states | here)
        self.states = {n: (done, None) for n, (done, _) in states.items()}
        if ending:
            raise self.error or self.lead.lost or Interrupted

    def _write(self, states: dict[int, tuple[int, Arrays | None]]) -> None:
        """Writes a checkpoint: the results that are in none yet, and the states of the batches under way."""
        self.checkpoints.save({n: to_arrays(self.results[n]) for n in self.unsaved}, states)
        self.unsaved, self.saved_at = [], time.monotonic()
