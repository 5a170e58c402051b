"""The sinks for the events of a study: metrics.jsonl, the files of models, the progress bar, and notes for the user."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Self

import jax
from tqdm.auto import tqdm

from mdfl_jax.errors import UserError
from mdfl_jax.experiments.config.save import parse_save
from mdfl_jax.experiments.results.files import dumps, metric_lines
from mdfl_jax.experiments.results.ordered_lines import OrderedLines
from mdfl_jax.experiments.run.batch import unreached
from mdfl_jax.experiments.run.events import Compiling, Elsewhere, Ended, Evaluated, Event, ModelsKept
from mdfl_jax.experiments.run.study import Study
from mdfl_jax.model_files import Header, path_of, write


class MetricsFile:
    """Writes metrics.jsonl in the order of the batches, and within a batch by evaluation and then by run."""

    def __init__(self, study: Study, path: Path):
        self.study, self.path = study, path

    def take(self, event: Event) -> None:
        """Writes the lines of an evaluation in one piece, so that a killed study leaves whole lines."""
        if isinstance(event, Evaluated):
            self.lines.write(event.batch.number, self._text(event))
        elif isinstance(event, Ended):
            self.lines.end(event.batch.number)

    def _text(self, event: Evaluated) -> str:
        of_runs = [
            metric_lines(
                self.study.points[run.point].id,
                run.seed,
                jax.tree.map(lambda leaf, i=i: leaf[i], event.metrics),
                event.facts.is_mobile[i],
                event.batch.group.double_bits(run.point),
            )
            for i, run in enumerate(event.batch.runs)
        ]
        return "".join(dumps(line) + "\n" for of_evaluation in zip(*of_runs) for line in of_evaluation)

    def __enter__(self) -> Self:
        self.file = self.path.open("w")
        self.lines = OrderedLines(self.file)
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()


class ModelFiles:
    """Writes the models that a study keeps, each as soon as it is known that it is kept."""

    def __init__(self, study: Study, workdir: Path):
        self.study, self.workdir = study, workdir
        config = study.experiment
        self.by_round = bool(parse_save(config.save, config.rounds, config.eval_every).every)
        self.digest = hashlib.sha256(dumps(study.config).encode()).hexdigest()[:16]

    def take(self, event: Event) -> None:
        """Writes the models of a run."""
        if isinstance(event, ModelsKept):
            run, kept = event.batch.runs[event.kept.run], event.kept
            point, name = self.study.points[run.point].id, self.study.experiment.name
            path = path_of(self.workdir, run.point, run.seed, kept.round if self.by_round else None)
            header = Header(self.digest, name, point, run.point, run.seed, kept.round, kept.accuracy)
            try:
                write(path, header, kept.tensors)
            except OSError as error:
                raise UserError(f"{path}: the models cannot be written: {error.strerror or error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass


class ProgressBar:
    """Shows the rounds done of all runs, in this and in other processes, in a terminal or in a notebook.

    Args:
      study: The study.
      shown: Whether to show the bar. Outside of a terminal and a notebook nothing is shown.
    """

    def __init__(self, study: Study, shown: bool = True):
        self.shown = shown
        self.rounds = study.experiment.rounds
        self.total = self.rounds * len(study.points) * len(study.seeds)
        self.ended = self.elsewhere = 0
        self.under_way: dict[int, int] = {}

    def take(self, event: Event) -> None:
        """Updates the bar."""
        match event:
            case Compiling():
                self.bar.set_postfix_str("compiling", refresh=True)
            case Evaluated(batch, _, _, rounds, first):
                if first:
                    self.bar.unpause()
                    self.bar.set_postfix_str("")
                self.under_way[batch.number] = self.under_way.get(batch.number, 0) + rounds * len(batch.runs)
            case Ended(batch, _):
                self.under_way.pop(batch.number, None)
                self.ended += self.rounds * len(batch.runs)
            case Elsewhere(rounds):
                self.elsewhere = rounds
        self.bar.n = self.ended + sum(self.under_way.values()) + self.elsewhere
        self.bar.update(0)

    def __enter__(self) -> Self:
        self.bar = tqdm(total=self.total, unit="round", disable=None if self.shown else True, smoothing=0.05)
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.close()


class Notes:
    """Prints notes for the user about the data of a batch, before its first round."""

    def __init__(self, study: Study, log: Callable[[str], None]):
        self.study, self.log = study, log

    def take(self, event: Event) -> None:
        """Logs a line for each point with clients that never meet the server."""
        if isinstance(event, Evaluated) and event.first:
            for line in unreached(self.study, event.batch.runs, event.facts):
                self.log(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass
