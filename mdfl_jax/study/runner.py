"""Runs the runs of a study that are not there yet, batch after batch, and tells the sinks what happens.

Of several hosts that share each run, the first one runs the study as if it were alone. Its `Program` tells the others
each call, and they call the same (`follow`): so all devices get the same programs in the same order. The others look at
no file of the study, write none, and print nothing but errors.
"""

import gc
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax

from mdfl_jax.config.sections import flat
from mdfl_jax.core import hosts
from mdfl_jax.core.errors import SHRINK, UserError, out_of_memory
from mdfl_jax.engine.programs import Compiler
from mdfl_jax.storage.disk import plain
from mdfl_jax.storage.provenance import commit, versions
from mdfl_jax.storage.study_files import locked
from mdfl_jax.study.ahead import memory
from mdfl_jax.study.batch import Batch, Program, steps
from mdfl_jax.study.events import Compiling, Ended, Evaluated, Event, Found, ModelsKept, Sink, lines_of
from mdfl_jax.study.identity import run_config
from mdfl_jax.study.run_files import Beginning, RunFiles
from mdfl_jax.study.signals import apart, handled
from mdfl_jax.study.study import Group, Run, Study, part_size
from mdfl_jax.study.workers import Workers

WAIT = 0.5  # seconds from one look at the runs of other workers to the next


class Interrupted(Exception):  # noqa: N818
    """The user stopped the study. Its state is saved, and the same command continues it."""


class Runner:
    """Runs the missing runs of a study, of which other workers may compute some.

    Args:
      files: The files of its runs.
      workers: The workers of its folder.
      sinks: The sinks that take the events.
      alone: Whether no other worker was there when this one began.
      many: The number of workers that are to share the runs, this one included; 0: as many as are there.
      beside: The number of devices of a process that would compute all runs (`part_size`); 0: as many as this one has.
    """

    def __init__(self, files: RunFiles, workers: Workers, sinks: Sequence[Sink], alone: bool, many: int, beside: int):
        study, self.log = files.study, files.log
        self.study, self.files, self.workers, self.sinks = study, files, workers, sinks
        self.is_told, self.many, self.beside = not alone, many, beside
        self.runs = {study.name(run): run for run in reversed(study.to_do())}  # equal runs are done once
        self.runs = dict(reversed(self.runs.items()))
        self.sizes: dict[int, int] = {}  # the runs in a batch of each group, by its first point
        self.seen: set[str] = set()  # runs that the sinks have been told of
        self.stopping = False
        self.error: BaseException | None = None
        self.saved_at = time.monotonic()

    def run(self) -> None:
        """Run all runs that have no record, and wait for those that other workers have taken.

        Raises:
          Interrupted: If `stop` was called without an error. The state is saved.
          Exception: The error with which `stop` was called. The state is saved.
          UserError: If the memory is not enough for one run, if a state cannot be read, or if a file cannot be written.
        """
        program, compiler, waits = None, Compiler(), False
        self._tell_found()
        self.is_told = True  # what is there from now on, and not computed here, is told by its own worker
        while self.runs.keys() - self.seen:
            taken = self._take(program.group if program else None)
            if taken is None:
                self._tell_found()
                if self.stopping and self.runs.keys() - self.seen:
                    raise self.error or Interrupted
                if not waits and (others := self.workers.others()):
                    self.log(f"the last runs are computed by {', '.join(map(str, others))}; waiting for them ...")
                waits = True
                time.sleep(WAIT if self.runs.keys() - self.seen else 0)
                continue
            batch, beginnings = taken
            size = self.sizes[batch.group.points[0]]
            if program is None or program.group is not batch.group or program.placement.num_runs != size:
                program = Program(self.study, batch.group, compiler, size)
            try:
                self._batch(program, batch, beginnings)
            except (RuntimeError, MemoryError) as error:
                if error is self.error or (asked := out_of_memory(error)) is None or hosts.many() > 1:
                    raise
                program = None
                self._halve(batch, asked)
            if program is None:
                gc.collect()  # what the error held is on the devices no more
        if self.error:
            raise self.error

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

    def _tell_found(self) -> None:
        """Tell the sinks of the runs that are there, and that this process has not computed."""
        there = self.files.finished() - self.seen
        for name in [name for name in self.runs if name in there]:
            self.seen.add(name)
            self._emit(Found(self.runs[name], self.files.record(self.runs[name]), self.is_told))

    def _take(self, before: Group | None) -> tuple[Batch, list[Beginning]] | None:
        """Take runs that nobody has, of one group and after equally many evaluations; None if there are none.

        Args:
          before: The group of the batch before, whose program is compiled.
        """
        if self.stopping:
            return None
        self.workers.check()
        with locked(self.files.workdir):
            others, there = self.workers.others(), self.files.finished()
            taken = frozenset[str]().union(*(other.runs for other in others))
            missing = {name: run for name, run in self.runs.items() if name not in there}
            free = [run for name, run in missing.items() if name not in taken]
            if not free:
                return None
            busy = {self.runs[name].point for name in taken if name in self.runs}
            groups = [group for group in self.study.groups if any(run.point in group.points for run in free)]
            alone = [group for group in groups if not busy & {*group.points}]  # nobody compiles their programs
            group = next((g for g in groups if g is before), (alone or groups)[0])
            size = self._size(group, list(missing.values()), max(self.many, len(others) + 1))
            mine, beginnings = list[Run](), list[Beginning]()
            for run in (run for run in free if run.point in group.points):
                beginning = self.files.beginning(run)
                if not mine or _together(beginning, beginnings[0]):
                    mine.append(run)
                    beginnings.append(beginning)
                if len(mine) == size:
                    break
            self.workers.take([self.study.name(run) for run in mine])
        return Batch(group, mine), beginnings

    def _size(self, group: Group, missing: Sequence[Run], many: int) -> int:
        """Return the number of runs in a batch of a group, which stays the same as long as this process runs.

        Args:
          group: The group.
          missing: All runs of the study that have no record.
          many: The number of workers that share them.
        """
        if (key := group.points[0]) not in self.sizes:
            count = -(-sum(run.point in group.points for run in missing) // many)
            whole = group.runs_per_batch
            self.sizes[key] = part_size(self.study.experiment, group.simulation, whole, max(count, 1), self.beside)
        return self.sizes[key]

    def _batch(self, program: Program, batch: Batch, beginnings: list[Beginning]) -> None:
        """Run a batch, from the saved states of its runs if they have some."""
        if program.programs is None:
            self._emit(Compiling(batch))
        saved, done = self.files.read_states(batch, beginnings), beginnings[0].evaluations
        earlier = done + 1 if saved else 0
        for step in steps(program, batch.runs, saved, done, self._interruptible):
            for kept in step.kept:
                self._emit(ModelsKept(batch, kept))
            lines = lines_of(self.study, batch, step.metrics, step.facts)
            self._emit(Evaluated(batch, step.metrics, step.facts, lines, step.rounds, not step.rounds, earlier))
            earlier = 0
            if not step.last and (step.rounds or self.stopping) and self._save_is_due():
                if step.rounds or not saved:
                    self.files.save_states(batch, step.state(), step.evaluations, beginnings)
                self.saved_at = time.monotonic()
                if self.stopping:
                    raise self.error or Interrupted
        self.workers.check()
        self.files.finish(batch, step.result(), step.state, beginnings)
        program.carry = None  # another program may need its memory
        self.seen |= {self.study.name(run) for run in batch.runs}
        self._emit(Ended(batch))

    def _save_is_due(self) -> bool:
        minutes = (time.monotonic() - self.saved_at) / 60
        return self.stopping or minutes >= self.study.experiment.engine.checkpoint_minutes

    def _interruptible(self, act: Callable[[], None]) -> None:
        """Call a function that compiles, and end at once if the study is stopped meanwhile."""
        apart(act, lambda: self.stopping)
        if self.stopping:
            raise self.error or Interrupted

    def _halve(self, batch: Batch, asked: str) -> None:
        """Make the batches of a group half as large, since the memory was not enough for one.

        Raises:
          UserError: If the batch has one run only.
        """
        group, said = batch.group, f" ({asked} asked for)" if asked else ""
        size = min(self.sizes[group.points[0]], len(batch.runs))
        if size == 1:
            names = "; ".join(self.study.points[p].id for p in group.points)
            clients = self.study.points[group.points[0]].experiment.network.num_clients
            raise UserError(
                f"not enough memory for one run at a time{said}: {names}: {clients} clients of "
                f"{group.simulation.num_params:,} parameters; {SHRINK}"
            )
        self.sizes[group.points[0]] = size // 2
        self.log(f"not enough memory for {size} runs at once{said}: split into batches of {size // 2}")


def _together(one: Beginning, other: Beginning) -> bool:
    """Tell whether two runs can be in the same batch: they have evaluations of the same rounds."""
    rounds = lambda run: run.rpartition("-r")[2]  # noqa: E731
    about = [(of.evaluations, bool(of.state), rounds(of.earlier), of.state == of.earlier) for of in (one, other)]
    return about[0] == about[1]


def about(study: Study) -> dict[str, Any]:
    """Return all that must be the same on the hosts that compute a study together, as values of JSON by name.

    Numbers of members have the values in effect, since a number that is not given is None in the configuration.
    """
    local = jax.local_devices()
    here = {"the kind of the devices": local[0].device_kind, "the number of devices": len(local)}
    here |= {"commit": commit(), "versions": versions()}
    return plain(flat(here | study.config)) | run_config(study.experiment)


def follow(study: Study) -> None:
    """Call what the first host calls, until it says that all is done. A signal to this process ends the whole study."""
    ignore: Callable[[str], None] = lambda line: None  # noqa: E731
    groups, compiler, program = {group.points[0]: group for group in study.groups}, Compiler(), None
    with handled(hosts.ask_to_end, ignore, is_worker=True):
        while True:
            match hosts.hear():
                case ["fit"]:
                    apart(lambda: memory.fit(study, ignore))
                case ["program", point, size]:
                    program = Program(study, groups[point], compiler, size)
                case ["end"]:
                    return
                case [call, *args]:
                    getattr(program, call)(*args)
