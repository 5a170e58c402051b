"""What all loggers share: the lines of metrics.jsonl, handed to the logger one by one, run by run."""

import dataclasses
import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from mdfl_jax.config.sections import effective
from mdfl_jax.results.records import lines_of_point
from mdfl_jax.storage.disk import plain
from mdfl_jax.study.events import Ended, Evaluated, Event, Found, Sink
from mdfl_jax.study.study import Run, Study

_LONGEST = 100  # letters of a folder's name
WORDS = ("schema", "point", "seed", "round")  # entries of a line that are no measured values


class LoggedRun(NamedTuple):
    """One run, that is a sweep point under one seed, as a logger sees it.

    Attributes:
      study: The name of the study.
      point: The id of the sweep point.
      seed: The seed.
      folder: A name of this run that is unique in the study and can be that of a folder, 'POINT/seed-0'.
      overrides: The values by which the point differs from others, by path.
      config: The resolved configuration of the point, with the numbers of its members.
    """

    study: str
    point: str
    seed: int
    folder: str
    overrides: dict[str, Any]
    config: dict[str, Any]


class LineLogger(Sink):
    """A sink that hands each line of metrics.jsonl to `line`. A logger is a subclass of it.

    A study that continues hands the lines of the evaluations that an earlier process has made again, before the new
    ones. So a logger that begins its file anew writes each line once, and a logger that keeps what it has must leave
    out the rounds that it knows. Only if rounds are added to a finished study, the first line is not that of round 0,
    but the last one of before.

    Args:
      study: The study.
      folder: The folder for the files of this logger. The logger makes it when it needs it.
      log: A function that takes lines for the user.

    Attributes:
      package: The package that the logger imports, or "" if mdfl_jax has all that it needs. It is imported when a
        study uses the logger, not before.
      install: What pip must install if the package is missing, such as "mdfl_jax[wandb]"; "": what `package` says.
    """

    package: ClassVar[str] = ""
    install: ClassVar[str] = ""

    def __init__(self, study: Study, folder: Path, log: Callable[[str], None]):
        self.study, self.folder, self.log = study, folder, log
        self._folders = folder_names([point.id for point in study.points])
        self._runs: dict[Run, LoggedRun] = {}

    def line(self, run: LoggedRun, line: dict[str, Any]) -> None:
        """Take a line of metrics.jsonl as a dictionary. The lines of a run come in the order of the rounds."""
        raise NotImplementedError

    def flush(self) -> None:
        """Write what has been taken so far. It is called after the lines of each evaluation."""

    def end(self, run: LoggedRun) -> None:
        """End a run, which has no further lines."""

    def close(self) -> None:
        """End the logger, also if the study was stopped or has failed. Some runs may not have ended."""

    def take(self, event: Event) -> None:
        """Hand the lines of an evaluation to the logger, evaluation after evaluation."""
        if isinstance(event, Evaluated):
            runs = [self._run(run) for run in event.batch.runs]
            for of_evaluation in zip(*event.lines):
                for run, line in zip(runs, of_evaluation):
                    self.line(run, plain(line))
            self.flush()
        elif isinstance(event, Ended):
            for of_batch in event.batch.runs:
                self.end(self._run(of_batch))
        elif isinstance(event, Found) and not event.is_told:
            run = self._run(event.run)
            for line in lines_of_point(run.point, event.record):
                self.line(run, plain(line))
            self.flush()
            self.end(run)

    def _run(self, run: Run) -> LoggedRun:
        if run not in self._runs:
            self._runs[run] = self._new(run)
        return self._runs[run]

    def _new(self, run: Run) -> LoggedRun:
        point = self.study.points[run.point]
        config = plain(dataclasses.asdict(point.experiment))
        for path, value in effective(point.experiment).items():
            section, name = path.split(".")
            config[section][name] = plain(value)
        folder = f"{self._folders[run.point]}/seed-{run.seed}"
        name = self.study.experiment.name
        return LoggedRun(name, point.id, run.seed, folder, plain(point.overrides), config | {"seed": run.seed})

    def __exit__(self, *error: object) -> None:
        self.close()


def measured_numbers(line: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the measured values of a line that are finite numbers, with their keys in metrics.jsonl."""
    for key, value in line.items():
        if key not in WORDS and isinstance(value, int | float) and math.isfinite(value):
            yield key, value


def folder_names(ids: Sequence[str]) -> list[str]:
    """Return names of folders for the ids of sweep points, as similar to the ids as possible, and all different.

    >>> folder_names(["dcm, alpha=0.1", "a/b", "a_b"])
    ['dcm,_alpha=0.1', 'a_b', 'a_b-2']
    """
    found: list[str] = []
    for text in ids:
        name = wanted = re.sub(r"[^\w.,=+-]+", "_", text)[:_LONGEST].strip(".") or "point"
        tries = 1
        while name in found:
            tries += 1
            name = f"{wanted}-{tries}"
        found.append(name)
    return found
