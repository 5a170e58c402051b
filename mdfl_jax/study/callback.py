"""The user's callback: a function on the host that sees every evaluation of a running study, and that may stop it."""

import time
from collections.abc import Callable
from typing import NamedTuple, Self, TypeAlias

import numpy as np

from mdfl_jax.metrics.history import Metrics
from mdfl_jax.study.events import Evaluated, Event
from mdfl_jax.study.study import Study


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
        found[metric.in_files] = metric.on_host(of_one)
    return found


class Callback:
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

    def __exit__(self, *error: object) -> None:
        pass
