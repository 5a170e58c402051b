"""The sinks for the events of a study that write files, metrics.jsonl and kept models, and notes for the user."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Self

import numpy as np

from mdfl_jax.config.save import parse_save
from mdfl_jax.core.parts import RunFacts
from mdfl_jax.storage.disk import Appended, dumps
from mdfl_jax.storage.model_files import Header, path_of, write
from mdfl_jax.study.events import Evaluated, Event, ModelsKept
from mdfl_jax.study.lines import lines_of
from mdfl_jax.study.manifest import places
from mdfl_jax.study.study import Run, Study


class MetricsFile:
    """Writes metrics.jsonl in the order of the batches, and within a batch by evaluation and then by run."""

    def __init__(self, study: Study, path: Path):
        self.study, self.path = study, path

    def take(self, event: Event) -> None:
        """Write the lines of an evaluation in one piece, so that a killed study or a full disk leaves whole lines."""
        if isinstance(event, Evaluated):
            of_runs = lines_of(self.study, event)
            lines = (line for of_evaluation in zip(*of_runs) for line in of_evaluation)
            self.file.write("".join(dumps(line) + "\n" for line in lines).encode())

    def __enter__(self) -> Self:
        self.file = Appended(self.path)
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()


class ModelFiles:
    """Writes the models that a study keeps, each as soon as it is known that it is kept."""

    def __init__(self, study: Study, workdir: Path):
        self.study, self.workdir = study, workdir
        config = study.experiment
        self.by_round = bool(parse_save(config.save, config.rounds, config.eval_every).every)
        self.places = places(study)
        self.digest = hashlib.sha256(dumps(study.config).encode()).hexdigest()[:16]

    def take(self, event: Event) -> None:
        """Write the models of a run."""
        if isinstance(event, ModelsKept):
            run, kept = event.batch.runs[event.kept.run], event.kept
            point, name = self.study.points[run.point].id, self.study.experiment.name
            place = self.places[run.point]
            path = path_of(self.workdir, place, run.seed, kept.round if self.by_round else None)
            header = Header(self.digest, name, point, place, run.seed, kept.round, kept.accuracy)
            write(path, header, kept.tensors)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass


class Notes:
    """Prints notes for the user about the data of a batch, before its first round."""

    def __init__(self, study: Study, log: Callable[[str], None]):
        self.study, self.log = study, log

    def take(self, event: Event) -> None:
        """Log a line for each point with clients that never meet the server."""
        if isinstance(event, Evaluated) and event.first:
            for line in _unreached(self.study, event.batch.runs, event.facts):
                self.log(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass


def _unreached(study: Study, runs: list[Run], facts: RunFacts) -> list[str]:
    """Return a line for each point of a batch that has a server and clients that never meet it."""
    lines = []
    for point in dict.fromkeys(run.point for run in runs):
        of_point = np.array([run.point == point for run in runs])
        missing = np.sum(~np.asarray(facts.reached)[of_point], axis=1)
        if study.points[point].experiment.server.pattern and missing.any():
            few, many = missing.min(), missing.max()
            number = f"{few}" if few == many else f"{few} to {many}"
            lines.append(
                f"{study.points[point].id}: {number} of {facts.reached.shape[1]} clients never meet the server"
            )
    return lines
