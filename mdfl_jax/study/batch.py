"""Runs a batch from start to end, evaluation after evaluation. This module does not handle files or signals."""

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from mdfl_jax.config.checks import parse_save, words_of
from mdfl_jax.core import hosts
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.metric import Metric
from mdfl_jax.core.types import RunFacts
from mdfl_jax.engine.programs import Compiler, Placement, Programs, Runs
from mdfl_jax.metrics.history import Metrics, as_history, standing_still
from mdfl_jax.storage.array_files import Arrays
from mdfl_jax.study.keeping import Keeper, Kept
from mdfl_jax.study.prepare.simulation import check_lists
from mdfl_jax.study.study import Group, Run, Study

SECONDS = "wall/seconds"  # the saved seconds [2] of compiling and of running; no metric's name has a slash


class Batch(NamedTuple):
    """Runs of one group that are on the devices together."""

    group: Group
    runs: list[Run]


class BatchResult(NamedTuple):
    """The result of a batch: metrics, NumPy leaves [runs, E, ...]; facts, leaves [runs, ...]; the seconds it took."""

    metrics: Metrics
    facts: RunFacts
    compile_seconds: float
    run_seconds: float


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


def to_arrays(result: BatchResult) -> Arrays:
    """Convert a result to named arrays [runs, ...]; 'wall/seconds' is [2]."""
    seconds = np.array([result.compile_seconds, result.run_seconds])
    return {**result.metrics, **result.facts._asdict(), SECONDS: seconds}


def from_arrays(arrays: Arrays, declared: tuple[Metric, ...]) -> BatchResult:
    """Make a result from the arrays of `to_arrays`, for the metrics of the study.

    Raises:
      UserError: If a metric is missing, since another version of a program saved the arrays.
    """
    if missing := [metric.name for metric in declared if metric.name not in arrays]:
        raise UserError(f"the saved state knows no metric {missing[0]!r}; --overwrite starts the study anew")
    values = {"round": arrays["round"], **{metric.name: arrays[metric.name] for metric in declared}}
    facts = RunFacts(**{name: arrays[name] for name in RunFacts._fields})
    return BatchResult(Metrics(declared, values), facts, *(float(s) for s in arrays[SECONDS]))


class Program:
    """The program of a group for batches of one size. It is compiled when its first batch starts, which is timed.

    Of several hosts, each has this program, and the first one tells the others what it calls (`follow`).
    """

    def __init__(self, study: Study, group: Group, compiler: Compiler, size: int):
        hosts.tell("program", group.points[0], size)
        self.group, self.compiler = group, compiler
        self.hparams = dict(zip(group.points, group.hparams))
        self.starts = dict(zip(group.points, group.starts))
        self.eval_every = study.experiment.eval_every
        self.experiment, engine = study.experiment, study.experiment.engine
        self.of_points = {point: study.points[point].experiment for point in group.points}
        self.is_sampled = self.experiment.eval_clients > 0 or self.experiment.eval_samples > 0
        self.placement = Placement(group.simulation, size, engine.runs_at_once)
        self.compile_seconds: float | None = None
        self.programs: Programs | None = None

    def inputs(self, runs: list[Run]) -> tuple[list[Runs], list[Runs]]:
        """Return the inputs of runs for `advance`, and those for `start`, which may have models to start from."""
        hosts.tell("inputs", runs)
        seeds = np.concatenate([words_of(self.of_points[run.point], [run.seed]) for run in runs])
        hparams = [self.hparams[run.point] for run in runs]
        starts = [self.starts.get(run.point) for run in runs]
        given = [h._replace(start=start.models(run.seed)) for h, start, run in zip(hparams, starts, runs) if start]
        device_runs = self.placement.inputs(hparams, seeds)
        return device_runs, self.placement.inputs(given, seeds) if given else device_runs

    def compile(self, runs: list[Runs], first: list[Runs]) -> None:
        """Compile the program for the inputs of its first batch, from `inputs`."""
        hosts.tell("compile")
        begin = time.perf_counter()
        self.programs = self.compiler.programs(self.placement, runs[0], first[0])
        self.compile_seconds = time.perf_counter() - begin

    def start(self, first: list[Runs], num_runs: int) -> tuple[Any, Metrics, RunFacts]:
        """Start runs: return the state, the metrics and the facts before the first round. Call `compile` before.

        Args:
          first: The inputs of the runs, from `inputs`.
          num_runs: The number of runs.
        """
        assert self.programs is not None
        hosts.tell("start")
        hosts.meet()  # one of them may compile much longer than the others
        carry, metrics, facts = self.programs.init(self.placement.data, first)
        return carry, *(self.placement.join(found, num_runs) for found in (metrics, facts))

    def advance(self, runs: list[Runs], carry: Any, num_runs: int) -> tuple[Any, Metrics]:
        """Compute the rounds up to the next evaluation, and return the state and the metrics. Call `start` before."""
        assert self.programs is not None
        hosts.tell("advance")
        carry, metrics = self.programs.advance(self.placement.data, runs, carry)
        return carry, self.placement.join(metrics, num_runs)

    def _state(self, carry: list[Any], num_runs: int, **without: None) -> Any:
        """Return a state with NumPy leaves [runs, ...], without the clients' data and other fields."""
        return self.placement.join([part._replace(clients=None, **without) for part in carry], num_runs)

    def kept(self, carry: Any, num_runs: int) -> Any:
        """Return a state in the form that is saved, which is the same for any devices."""
        hosts.tell("kept")
        return self.group.simulation.kept(self._state(carry, num_runs), before=1)

    def models(self, carry: Any, num_runs: int) -> Any:
        """Return a state of which the models are kept, with NumPy leaves [runs, ...]."""
        hosts.tell("models")
        return self._state(carry, num_runs, network=None)

    def keeper(self, num_runs: int) -> Keeper:
        """Return a new `Keeper` of the models of a batch."""
        config = self.experiment
        save = parse_save(config.save, config.rounds, config.eval_every)
        return Keeper(save, config.judged, self.group.simulation, lambda carry: self.models(carry, num_runs))

    def restore(self, start: Any, arrays: Arrays | None, num_runs: int) -> Any:
        """Put a saved state on the devices.

        Args:
          start: The state of the same runs before the first round.
          arrays: The saved state; None on all hosts but the first, which sends it to them.
          num_runs: The number of runs.
        """
        hosts.tell("restore")
        host = self._state(start, num_runs)
        template, tree = jax.tree.flatten(self.group.simulation.kept(host, before=1))
        if arrays is not None:
            template = [_leaf(arrays, f"{i:04d}", leaf) for i, leaf in enumerate(template)]
        saved = list(map(hosts.of_first, template))
        state = self.group.simulation.restored(jax.tree.unflatten(tree, saved), host, before=1)
        parts = self.placement.split(state)
        return [part._replace(clients=own.clients) for part, own in zip(parts, start, strict=True)]


def _leaf(arrays: Arrays, name: str, start: np.ndarray) -> np.ndarray:
    """Return a leaf of a saved state, [runs, ...]. Where the saved state says so, a run has the leaf of its start."""
    saved, as_at_start = arrays[f"carry/{name}"], arrays.get(f"start/{name}")
    if as_at_start is None:
        return saved
    return np.where(as_at_start.reshape(-1, *[1] * (start.ndim - 1)), start, saved)


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
    num_runs, num_evaluations = len(runs), program.group.simulation.num_evaluations
    keeper = program.keeper(num_runs)
    device_runs, first = program.inputs(runs)
    compile_seconds = 0.0
    if program.programs is None:
        waits(lambda: program.compile(device_runs, first))
        compile_seconds = program.compile_seconds or 0.0
    carry, metrics, facts = program.start(first, num_runs)
    before = BatchResult(as_history(metrics, 1), facts, compile_seconds, run_seconds=0.0)
    if saved is not None:
        before, carry = from_arrays(saved, program.group.simulation.metrics), program.restore(carry, saved, num_runs)
        before = before._replace(compile_seconds=before.compile_seconds + compile_seconds)
    begin, parts = time.perf_counter() - before.run_seconds, [before.metrics]

    def result() -> BatchResult:
        history = jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=1), *parts)
        return before._replace(metrics=history, run_seconds=time.perf_counter() - begin)

    def state() -> Arrays:
        leaves = jax.tree.leaves(program.kept(carry, num_runs))
        carried = {f"carry/{i:04d}": leaf for i, leaf in enumerate(leaves)}
        return to_arrays(result()) | carried | keeper.state()

    ended = evaluations == num_evaluations
    kept = keeper.start(carry, parts[0], saved, ended)
    yield Step(0, evaluations, ended, parts[0], facts, kept, result, state)
    for e in range(evaluations, num_evaluations):
        all_stopped = np.all(parts[-1].rounds_done[:, -1] < parts[-1].round[:, -1])  # by the stop rule
        if all_stopped and not program.is_sampled:  # after a sample, the program must make the last evaluation, of all
            parts.append(standing_still(parts[-1], program.eval_every))
        else:
            carry, metrics = program.advance(device_runs, carry, num_runs)
            parts.append(as_history(metrics, 1))
            if bound := program.group.simulation.list_bound:
                check_lists(int(parts[-1].list_places.max()), bound)
        ended = e + 1 == num_evaluations
        kept = keeper.see(carry, parts[-1], ended)
        yield Step(program.eval_every, e + 1, ended, parts[-1], facts, kept, result, state)
