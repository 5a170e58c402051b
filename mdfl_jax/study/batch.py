"""Runs a batch from start to end, evaluation after evaluation, and takes the models that a study keeps.

This module does not handle files or signals. The compiled programs know nothing of kept models (the field `save`): the
state of the algorithms is copied to the host, and the models are taken from it there. With ``save=best`` the best
models so far stay on the host until the batch ends, and are a part of its saved state, so that a killed study continues
with the same ones.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from mdfl_jax.config.checks import Save, parse_save, words_of
from mdfl_jax.core import hosts
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.metric import Metric
from mdfl_jax.core.types import RunFacts
from mdfl_jax.engine.programs import Compiler, Placement, Programs
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.metrics.history import Metrics, as_history, standing_still
from mdfl_jax.results.lines import accuracy_of
from mdfl_jax.storage.array_files import Arrays
from mdfl_jax.storage.model_files import CLIENTS, GLOBAL, named
from mdfl_jax.study.study import Group, Run, Study, check_lists

SECONDS = "wall/seconds"  # the saved seconds [2] of compiling and of running; no metric's name has a slash
_BEST = "best/"  # the arrays of a saved state that belong to the best models


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


class Kept(NamedTuple):
    """The models of one run after one round, which must be written to a file.

    Attributes:
      run: The index of the run in its batch.
      round: The rounds that the run has done.
      accuracy: The accuracy of the run at this evaluation (`accuracy_of`).
      tensors: The arrays by their names in the file (`mdfl_jax.storage.model_files`).
    """

    run: int
    round: int
    accuracy: float
    tensors: Arrays


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


def tensors_of(simulation: Simulation, carry: Any) -> Arrays:
    """Return the tensors of a file: the models of the N clients and the global model, if there is one.

    Args:
      simulation: The simulation.
      carry: The state of one run, with NumPy leaves in its field ``algorithm``.
    """
    try:
        on_host: Any = jax.default_device(jax.devices("cpu")[0])
    except RuntimeError:  # JAX was told to know no CPU
        on_host = contextlib.nullcontext()
    with on_host:
        clients, own = simulation.models(carry)
    found = named(clients, CLIENTS)
    if own is not None:
        found |= named(jax.tree.map(lambda x: x[0], own), GLOBAL)
    return {name: np.asarray(leaf) for name, leaf in found.items()}


class Keeper:
    """Finds out at each evaluation of a batch which models must be written.

    Args:
      save: Which models are kept.
      judged: Whose accuracy is the accuracy of a run: "clients" or "global".
      simulation: The simulation of the batch.
      models: A function that returns the state on the devices with NumPy leaves [runs, ...], without the fields
        ``clients`` and ``network``.
    """

    def __init__(self, save: Save, judged: str, simulation: Simulation, models: Callable[[], Any]):
        self.save, self.judged, self.simulation, self.models = save, judged, simulation, models
        self.best: dict[int, Kept] = {}

    def start(self, metrics: Metrics, saved: Arrays | None, last: bool) -> list[Kept]:
        """Take note of the evaluation before the first round, or of the saved state from which a batch continues.

        Args:
          metrics: The metrics until now, NumPy leaves [runs, E, ...].
          saved: The saved state from which the batch continues, if it does.
          last: Whether the batch has ended.
        """
        if self.save.when == "best" and saved is not None:
            self.best = _from_state(saved)
            return list(self.best.values()) if last else []
        return self.see(metrics, last) if self.save.when != "every" else []

    def see(self, metrics: Metrics, last: bool) -> list[Kept]:
        """Return the models that must be written after an evaluation.

        Args:
          metrics: The metrics of this evaluation, NumPy leaves [runs, 1, ...].
          last: Whether the batch has ended.
        """
        match self.save.when:
            case "final" if last:
                return self._take(metrics, all_rows(metrics))
            case "every" if metrics.round[0, -1] % self.save.every == 0:
                return self._take(metrics, all_rows(metrics))
            case "best":
                now = accuracy_of(metrics, self.judged)[:, -1]
                # A comparison with NaN is false: a diverged evaluation never replaces another one.
                better = [i for i, value in enumerate(now) if i not in self.best or value > self._until_now(i)]
                self.best |= {kept.run: kept for kept in self._take(metrics, better)}
                return list(self.best.values()) if last else []
        return []

    def state(self) -> Arrays:
        """Return the best models so far as arrays of the batch's saved state."""
        if not self.best:
            return {}
        runs = [self.best[i] for i in range(len(self.best))]
        facts = np.array([[kept.round, kept.accuracy] for kept in runs], np.float64)
        tensors = {name: np.stack([kept.tensors[name] for kept in runs]) for name in runs[0].tensors}
        return {_BEST + "facts": facts} | {f"{_BEST}tensors/{name}": tensor for name, tensor in tensors.items()}

    def _until_now(self, run: int) -> float:
        value = self.best[run].accuracy
        return value if value == value else -np.inf

    def _take(self, metrics: Metrics, rows: list[int]) -> list[Kept]:
        if not rows:
            return []
        state = self.models()
        now, at_round = accuracy_of(metrics, self.judged)[:, -1], int(metrics.round[0, -1])
        of_run = lambda i: jax.tree.map(lambda leaf: leaf[i], state)  # noqa: E731
        return [Kept(i, at_round, float(now[i]), tensors_of(self.simulation, of_run(i))) for i in rows]


def all_rows(metrics: Metrics) -> list[int]:
    """Return the indices of all runs of a batch."""
    return list(range(len(metrics.round)))


def _from_state(saved: Arrays) -> dict[int, Kept]:
    """Return the best models so far from the arrays of `Keeper.state`, by the index of the run."""
    first = _BEST + "tensors/"
    tensors = {name.removeprefix(first): tensor for name, tensor in saved.items() if name.startswith(first)}
    return {
        i: Kept(i, int(at_round), float(accuracy), {name: tensor[i] for name, tensor in tensors.items()})
        for i, (at_round, accuracy) in enumerate(saved[_BEST + "facts"])
    }


class Program:
    """The program of a group for batches of one size, and the state of the batch that runs.

    It is compiled when its first batch starts, which is timed. Of several hosts, each has this program, and the first
    one tells the others each call (`mdfl_jax.study.runner.follow`).
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
        self.runs = self.placement.inputs(hparams, seeds)
        self.first = self.placement.inputs(given, seeds) if given else self.runs

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
        return self.group.simulation.kept(self._state(), before=1)

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
        host = self._state()
        template, tree = jax.tree.flatten(self.group.simulation.kept(host, before=1))
        if arrays is not None:
            template = [_leaf(arrays, f"{i:04d}", leaf) for i, leaf in enumerate(template)]
        saved = list(map(hosts.of_first, template))
        state = self.group.simulation.restored(jax.tree.unflatten(tree, saved), host, before=1)
        parts = self.placement.split(state)
        self.carry = [part._replace(clients=own.clients) for part, own in zip(parts, self.carry, strict=True)]


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
    simulation, experiment = program.group.simulation, program.experiment
    save = parse_save(experiment.save, experiment.rounds, experiment.eval_every)
    keeper = Keeper(save, experiment.judged, simulation, program.models)
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
        return to_arrays(result()) | carried | keeper.state()

    ended = evaluations == simulation.num_evaluations
    kept = keeper.start(parts[0], saved, ended)
    yield Step(0, evaluations, ended, parts[0], facts, kept, result, state)
    for e in range(evaluations, simulation.num_evaluations):
        all_stopped = np.all(parts[-1].rounds_done[:, -1] < parts[-1].round[:, -1])  # by the stop rule
        if all_stopped and not program.is_sampled:  # after a sample, the program must make the last evaluation, of all
            parts.append(standing_still(parts[-1], experiment.eval_every))
        else:
            parts.append(as_history(program.advance(), 1))
            if bound := simulation.list_bound:
                check_lists(int(parts[-1].list_places.max()), bound)
        ended = e + 1 == simulation.num_evaluations
        kept = keeper.see(parts[-1], ended)
        yield Step(experiment.eval_every, e + 1, ended, parts[-1], facts, kept, result, state)
