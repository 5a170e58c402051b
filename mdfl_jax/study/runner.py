"""Runs the runs of a study that are not there yet, batch after batch, and tells the sinks what happens.

Of several hosts that share each run, the first one runs the study as if it were alone. Its `Program` tells the others
each call, and they call the same (`follow`): so all devices get the same programs in the same order. The others look at
no file of the study, write none, and print nothing but errors.
"""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from mdfl_jax.config.checks import parse_save, words_of
from mdfl_jax.config.sections import flat
from mdfl_jax.core import devices, hosts
from mdfl_jax.core.errors import SHRINK, UserError, out_of_memory
from mdfl_jax.core.section import sections_in
from mdfl_jax.core.types import RunFacts
from mdfl_jax.engine.programs import Compiler, Placement, Programs
from mdfl_jax.metrics.history import Metrics, as_history, standing_still
from mdfl_jax.networks.wrappers.roadside import ServerConfig
from mdfl_jax.storage.array_files import Arrays
from mdfl_jax.storage.disk import plain
from mdfl_jax.storage.provenance import commit, versions
from mdfl_jax.storage.study_files import locked
from mdfl_jax.study import memory, states
from mdfl_jax.study.events import Compiling, Ended, Evaluated, Event, Found, Sink, evaluation_lines
from mdfl_jax.study.identity import run_config
from mdfl_jax.study.keeping import Kept, taken, write_models
from mdfl_jax.study.signals import apart, handled
from mdfl_jax.study.states import BatchResult, Beginning, from_arrays, to_arrays
from mdfl_jax.study.study import Group, Run, RunBatch, Study, check_lists, part_size
from mdfl_jax.study.workdir import RunFiles
from mdfl_jax.study.workers import Workers

WAIT = 0.5  # seconds from one look at the runs of other workers to the next


class Interrupted(Exception):  # noqa: N818
    """The user stopped the study. Its state is saved, and the same command continues it."""


class Program:
    """The program of a group for batches of one size, and the state of the batch that runs.

    It is compiled when its first batch starts, which is timed. Of several hosts, each has this program, and the first
    one tells the others each call (`follow`).
    """

    def __init__(self, study: Study, group: Group, compiler: Compiler, size: int):
        hosts.tell("program", group.points[0], size)
        self.group, self.compiler = group, compiler
        self.hparams = dict(zip(group.points, group.hparams))
        self.starts = dict(zip(group.points, group.starts))
        self.experiment, engine = study.experiment, study.experiment.engine
        self.of_points = {point: study.points[point].experiment for point in group.points}
        self.is_sampled = self.experiment.eval_clients > 0 or self.experiment.eval_samples > 0
        self.placement = Placement(group.simulation, size, engine.runs_at_once)
        self.compile_seconds: float | None = None
        self.programs: Programs | None = None
        self.carry: Any = None

    def take(self, batch: Sequence[tuple[int, int]]) -> None:
        """Take the runs of the next batch: their inputs for `advance`, and for `start`, which may have first models."""
        hosts.tell("take", batch)
        runs = [Run(*run) for run in batch]
        self.num_runs, self.carry = len(runs), None
        seeds = np.concatenate([words_of(self.of_points[run.point], [run.seed]) for run in runs])
        hparams = [self.hparams[run.point] for run in runs]
        starts = [self.starts.get(run.point) for run in runs]
        given = [h._replace(start=start.models(run.seed)) for h, start, run in zip(hparams, starts, runs) if start]
        whole = self.of_points[self.group.points[0]]
        again = bool(given) and any(each.begins_anew(whole) for each in sections_in(whole))
        self.runs = self.placement.inputs(given if again else hparams, seeds)
        self.first = self.placement.inputs(given, seeds) if given and not again else self.runs

    def compile(self) -> None:
        """Compile the program for the inputs of its first batch."""
        hosts.tell("compile")
        begin = time.perf_counter()
        self.programs = self.compiler.programs(self.placement, self.runs[0], self.first[0])
        self.compile_seconds = time.perf_counter() - begin

    def start(self) -> tuple[Metrics, RunFacts]:
        """Start the runs: return the metrics and the facts before the first round. Call `compile` before."""
        assert self.programs is not None
        hosts.tell("start")
        hosts.meet()  # one of them may compile much longer than the others
        self.carry, metrics, facts = self.programs.init(self.placement.data, self.first)
        return self.placement.join(metrics, self.num_runs), self.placement.join(facts, self.num_runs)

    def advance(self) -> Metrics:
        """Compute the rounds up to the next evaluation, and return the metrics. Call `start` before."""
        assert self.programs is not None
        hosts.tell("advance")
        self.carry, metrics = self.programs.advance(self.placement.data, self.runs, self.carry)
        return self.placement.join(metrics, self.num_runs)

    def _state(self, **without: None) -> Any:
        """Return the state with NumPy leaves [runs, ...], without the clients' data and other fields."""
        return self.placement.join([part._replace(clients=None, **without) for part in self.carry], self.num_runs)

    def kept(self) -> Any:
        """Return the state in the form that is saved, which is the same for any devices."""
        hosts.tell("kept")
        return self._state()

    def models(self) -> Any:
        """Return the state of which the models are kept, with NumPy leaves [runs, ...]."""
        hosts.tell("models")
        return self._state(network=None)

    def restore(self, arrays: Arrays | None = None) -> None:
        """Put a saved state on the devices, in place of that of the same runs before the first round.

        Args:
          arrays: The saved state; None on all hosts but the first, which sends it to them.
        """
        hosts.tell("restore")
        template, tree = jax.tree.flatten(self._state())
        if arrays is not None:
            template = [_leaf(arrays, f"{i:04d}", leaf) for i, leaf in enumerate(template)]
        saved = list(map(hosts.of_first, template))
        parts = self.placement.split(jax.tree.unflatten(tree, saved))
        self.carry = [part._replace(clients=own.clients) for part, own in zip(parts, self.carry, strict=True)]


def _leaf(arrays: Arrays, name: str, start: np.ndarray) -> np.ndarray:
    """Return a leaf of a saved state, [runs, ...]. Where the saved state says so, a run has the leaf of its start."""
    saved, as_at_start = arrays[f"carry/{name}"], arrays.get(f"start/{name}")
    if as_at_start is None:
        return saved
    return np.where(as_at_start.reshape(-1, *[1] * (start.ndim - 1)), start, saved)


class Step(NamedTuple):
    """A batch after an evaluation.

    Attributes:
      rounds: The rounds since the previous step; 0 at the first step.
      evaluations: The number of evaluations so far, without the one before the first round.
      last: Whether the batch has ended.
      metrics: The new metrics, NumPy leaves [runs, evaluations, ...]. At the first step, all that a saved state holds.
      facts: The facts of the runs, NumPy leaves [runs, ...].
      kept: The models that must be written to files, if the study keeps models.
      result: A function that returns the result of the batch so far.
      state: A function that returns the arrays from which the batch can continue.
    """

    rounds: int
    evaluations: int
    last: bool
    metrics: Metrics
    facts: RunFacts
    kept: list[Kept]
    result: Callable[[], BatchResult]
    state: Callable[[], Arrays]


def steps(
    program: Program,
    runs: list[Run],
    saved: Arrays | None = None,
    evaluations: int = 0,
    waits: Callable[[Callable[[], None]], None] = lambda act: act(),
) -> Iterator[Step]:
    """Run a batch, and yield a step before its first round and after each evaluation.

    Args:
      program: The program of the batch's group.
      runs: The runs of the batch.
      saved: A saved state of this batch, from which it continues.
      evaluations: The number of evaluations before that state.
      waits: A function that calls the function that compiles, and that may be interrupted meanwhile.
    """
    simulation, experiment = program.group.simulation, program.experiment
    save = parse_save(experiment.save, experiment.rounds, experiment.eval_every)
    program.take(runs)
    compile_seconds = 0.0
    if program.programs is None:
        waits(program.compile)
        compile_seconds = program.compile_seconds or 0.0
    metrics, facts = program.start()
    before = BatchResult(as_history(metrics, 1), facts, compile_seconds, run_seconds=0.0)
    if saved is not None:
        before = from_arrays(saved, simulation.metrics)
        program.restore(saved)
        before = before._replace(compile_seconds=before.compile_seconds + compile_seconds)
    begin, parts = time.perf_counter() - before.run_seconds, [before.metrics]

    def result() -> BatchResult:
        history = jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=1), *parts)
        return before._replace(metrics=history, run_seconds=time.perf_counter() - begin)

    def state() -> Arrays:
        leaves = jax.tree.leaves(program.kept())
        carried = {f"carry/{i:04d}": leaf for i, leaf in enumerate(leaves)}
        return to_arrays(result()) | carried

    ended = evaluations == simulation.num_evaluations

    def kept() -> list[Kept]:
        at_round = evaluated * experiment.eval_every
        due = save.is_due(at_round, experiment.rounds)
        return taken(simulation, program.models(), parts[-1], experiment.judged) if due else []

    evaluated = evaluations
    yield Step(0, evaluated, ended, parts[0], facts, kept() if ended else [], result, state)
    for e in range(evaluations, simulation.num_evaluations):
        all_stopped = np.all(parts[-1].rounds_done[:, -1] < parts[-1].round[:, -1])  # by the stop rule
        if all_stopped and not program.is_sampled:  # after a sample, the program must make the last evaluation, of all
            parts.append(standing_still(parts[-1], experiment.eval_every))
        else:
            parts.append(as_history(program.advance(), 1))
            if bound := simulation.list_bound:
                check_lists(int(parts[-1].list_places.max()), bound)
        evaluated = e + 1
        ended = evaluated == simulation.num_evaluations
        yield Step(experiment.eval_every, evaluated, ended, parts[-1], facts, kept(), result, state)


class Runner:
    """Runs the missing runs of a study, of which other workers may compute some.

    Args:
      files: The files of its runs.
      workers: The workers of its folder.
      sinks: The sinks that take the events.
      alone: Whether no other worker was there when this one began.
      many: The number of workers that are to share the runs, this one included; 0: as many as are there.
    """

    def __init__(self, files: RunFiles, workers: Workers, sinks: Sequence[Sink], alone: bool, many: int):
        study, self.log = files.study, files.log
        self.study, self.files, self.workers, self.sinks = study, files, workers, sinks
        self.is_told, self.many = not alone, many
        self.runs = {study.name(run): run for run in reversed(study.runs)}  # equal runs are done once
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

    def _take(self, before: Group | None) -> tuple[RunBatch, list[Beginning]] | None:
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
        return RunBatch(group, mine), beginnings

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
            self.sizes[key] = part_size(self.study.experiment, group.simulation, whole, max(count, 1))
        return self.sizes[key]

    def _batch(self, program: Program, batch: RunBatch, beginnings: list[Beginning]) -> None:
        """Run a batch, from the saved states of its runs if they have some."""
        if program.programs is None:
            self._emit(Compiling(batch))
        study, workdir, done = self.study, self.files.workdir, beginnings[0].evaluations
        saved = states.read(study, workdir, batch, beginnings) if beginnings[0].state else None
        earlier = done + 1 if saved else 0
        for step in steps(program, batch.runs, saved, done, self._interruptible):
            for kept in step.kept:
                write_models(study, workdir, batch.runs[kept.run], kept)
            lines = evaluation_lines(study, batch, step.metrics, step.facts)
            self._emit(Evaluated(batch, step.metrics, step.facts, lines, step.rounds, earlier))
            for line in () if step.rounds else _unreached(study, batch.runs, step.facts):
                self.log(line)
            earlier = 0
            if not step.last and (step.rounds or self.stopping) and self._save_is_due():
                if step.rounds or not saved:
                    states.save(study, workdir, batch, step.state(), step.evaluations, beginnings)
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

    def _halve(self, batch: RunBatch, asked: str) -> None:
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


def _unreached(study: Study, runs: list[Run], facts: RunFacts) -> list[str]:
    """Return a line for each point of a batch that has a server and clients that never meet it."""
    lines = []
    for point in dict.fromkeys(run.point for run in runs):
        of_point = np.array([run.point == point for run in runs])
        missing = np.sum(~np.asarray(facts.reached)[of_point], axis=1)
        if ServerConfig.of(study.points[point].experiment).pattern and missing.any():
            few, many = missing.min(), missing.max()
            number = f"{few}" if few == many else f"{few} to {many}"
            lines.append(
                f"{study.points[point].id}: {number} of {facts.reached.shape[1]} clients never meet the server"
            )
    return lines


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
    if devices.backend() == "cpu":  # which decides the form of convolutions
        here["whether the processor computes 512 bits at once"] = devices.computes_512_bits()
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
