"""The events of a running study, and the sinks that take them: metrics.jsonl and the user's function.

`Runner` emits the events. A sink is a context manager around the whole study. Other sinks are `progress.Progress` and
the loggers.
"""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeAlias

import jax
import numpy as np

from mdfl_jax.core.types import RunFacts
from mdfl_jax.metrics.history import Metrics
from mdfl_jax.results.lines import metric_lines
from mdfl_jax.results.records import RunRecord, lines_of_point
from mdfl_jax.storage.disk import Appended, dumps
from mdfl_jax.study.study import Run, RunBatch, Study


class Compiling(NamedTuple):
    """The program of a batch is about to be compiled."""

    batch: RunBatch


class Evaluated(NamedTuple):
    """New metrics of a batch are available, of one evaluation or of several.

    Attributes:
      batch: The batch.
      metrics: The new metrics, NumPy leaves [runs, evaluations, ...].
      facts: The facts of the runs, NumPy leaves [runs, ...].
      lines: The lines of these evaluations for metrics.jsonl, of each run.
      rounds: The rounds of a run since the last evaluation; 0 if these are the first metrics of this batch.
      earlier: How many of the evaluations, counted from the first, an earlier run of the study has made and saved.
    """

    batch: RunBatch
    metrics: Metrics
    facts: RunFacts
    lines: list[list[dict[str, Any]]]
    rounds: int = 0
    earlier: int = 0


class Ended(NamedTuple):
    """A batch has ended, and its records are written. Events with all its metrics came before."""

    batch: RunBatch


class Found(NamedTuple):
    """A run is there already: an earlier command has finished it, or another worker.

    Attributes:
      run: The run.
      record: What it has measured.
      is_told: Whether another worker tells of it, in its own lines and to its own loggers.
    """

    run: Run
    record: RunRecord
    is_told: bool = False


Event = Compiling | Evaluated | Ended | Found


class Sink:
    """Takes the events of a study. It is a context manager around the whole study."""

    def take(self, event: Event) -> None:
        """Take an event. A sink ignores the events that it does not use."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """End, also if the study was stopped or has failed."""


def evaluation_lines(study: Study, batch: RunBatch, metrics: Metrics, facts: RunFacts) -> list[list[dict[str, Any]]]:
    """Return the lines of metrics.jsonl for some evaluations of a batch, of each of its runs in their order."""
    found = []
    for i, run in enumerate(batch.runs):
        own, double_bits = jax.tree.map(lambda leaf, i=i: leaf[i], metrics), batch.group.double_bits(run.point)
        found.append(list(metric_lines(study.points[run.point].id, run.seed, own, facts.is_mobile[i], double_bits)))
    return found


class MetricsFile(Sink):
    """Writes metrics.jsonl while a study runs: by batch, and within a batch by evaluation and then by run.

    Several workers append to the same file. At the end of the study it is written anew, in the order of the points.

    Args:
      study, path: The study and the file.
      anew: Whether to begin it anew, as the only worker does.
    """

    def __init__(self, study: Study, path: Path, anew: bool = True):
        self.study, self.path, self.anew = study, path, anew

    def take(self, event: Event) -> None:
        """Write the lines of an evaluation in one piece, so that a killed study or a full disk leaves whole lines."""
        if isinstance(event, Evaluated):
            self._write(line for of_evaluation in zip(*event.lines) for line in of_evaluation)
        elif isinstance(event, Found) and not event.is_told:
            self._write(lines_of_point(self.study.points[event.run.point].id, event.record))

    def _write(self, lines: Iterable[dict[str, Any]]) -> None:
        self.file.write("".join(dumps(line) + "\n" for line in lines).encode())

    def __enter__(self) -> Self:
        self.file = Appended(self.path, self.anew)
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()


class EvaluationInfo(NamedTuple):
    """What a callback sees of one evaluation: the runs of one sweep point that are on the devices together.

    Attributes:
      point: The id of the sweep point.
      seeds: The seeds of the runs. A batch may have only some of the seeds of a point.
      round: The number of rounds since the start of the runs; 0 at the evaluation before the first round.
      metrics: The value of every metric at this evaluation, by its key in history.npz. An array is [runs, N] for a
        metric that has one number per client and [runs] for one that has one number per run. A metric with one value
        per round has the rounds since the last evaluation as its second axis. The arrays are copies.
      seconds: The seconds since this process has begun to run the study, compiling included.
    """

    point: str
    seeds: list[int]
    round: int
    metrics: dict[str, np.ndarray]
    seconds: float


OnEvaluation: TypeAlias = Callable[[EvaluationInfo], bool | None]


def at_evaluation(metrics: Metrics, e: int, rows: list[int]) -> dict[str, np.ndarray]:
    """Return copies of the values of one evaluation of some runs, by the key in files.

    Args:
      metrics: A history with NumPy leaves [runs, E, ...].
      e: The index of the evaluation, from 0 to E - 1.
      rows: The indices of the runs.

    Returns:
      Arrays [rows, ...]. A metric with one value a round is left out where it has none, as links before the first round
      or positions that are not recorded.
    """
    found, rounds = {}, metrics.round[0]
    for metric in metrics.declared:
        values = metrics[metric.name]
        if metric.by_round:
            end = values.shape[1] - (rounds[-1] - rounds[e])
            of_one = values[rows, end - (rounds[e] - rounds[e - 1]) if e else 0 : end]
        else:
            of_one = values[rows, e]
        if metric.by_round and not of_one.shape[1]:
            continue
        found[metric.in_files] = metric.reduction.on_host(of_one)
    return found


class Callback(Sink):
    """The sink that calls the user's function, once for each evaluation and each sweep point of a batch.

    It leaves out the evaluations that an earlier run of the same study has made.

    If the function returns True, or if it raises an exception, this sink makes the study save its state and end. After
    an exception the function is not called again. It then never sees the other points of this evaluation.

    Args:
      study: The study.
      function: The user's function.
      stop: A function that ends the study after the current evaluation, with an error or with None (`Runner.stop`).
    """

    def __init__(self, study: Study, function: OnEvaluation, stop: Callable[[BaseException | None], None]):
        self.study, self.function, self.stop = study, function, stop
        self.failed = False

    def take(self, event: Event) -> None:
        """Call the user's function with the new evaluations of a batch, in their order."""
        if not isinstance(event, Evaluated):
            return
        for e in range(event.earlier, event.metrics.round.shape[1]):
            for info in self._infos(event, e):
                if not self.failed:
                    self._call(info)

    def _infos(self, event: Evaluated, e: int) -> list[EvaluationInfo]:
        runs, seconds = event.batch.runs, time.monotonic() - self.begin
        infos = []
        for point in dict.fromkeys(run.point for run in runs):
            rows = [i for i, run in enumerate(runs) if run.point == point]
            name, seeds = self.study.points[point].id, [runs[i].seed for i in rows]
            values = at_evaluation(event.metrics, e, rows)
            infos.append(EvaluationInfo(name, seeds, int(event.metrics.round[0, e]), values, seconds))
        return infos

    def _call(self, info: EvaluationInfo) -> None:
        try:
            if self.function(info):
                self.stop(None)
        except BaseException as error:  # also sys.exit() and Ctrl-C
            self.failed = True
            self.stop(error)  # the runner saves the state first, and then raises the error

    def __enter__(self) -> Self:
        self.begin = time.monotonic()
        return self
