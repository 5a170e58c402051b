"""The logger for Weights & Biases, with the package wandb. With WANDB_MODE=offline it needs no account."""

import contextlib
import json
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

from mdfl_jax.config.checks import LOGGERS
from mdfl_jax.contrib.loggers.line_logger import LineLogger, LoggedRun, measured_numbers
from mdfl_jax.core.errors import UserError
from mdfl_jax.storage.disk import write_json
from mdfl_jax.study.study import Study

PROJECT = "mdfl_jax"  # unless WANDB_PROJECT names another one


@contextlib.contextmanager
def _one_line_errors() -> Iterator[None]:
    """Make a mistake of the user that wandb has found one line."""
    import wandb

    try:
        yield
    except wandb.errors.Error as error:
        hint = "with WANDB_MODE=offline no account and no network are needed"
        raise UserError(f"loggers has wandb: {str(error).rstrip('.')}; {hint}") from error


@LOGGERS.register("wandb")
class WeightsAndBiases(LineLogger):
    """Weights & Biases: a run for each sweep point and seed, grouped by the study, the values by round.

    The mode, the project and the account are those of wandb's own settings (WANDB_MODE, WANDB_PROJECT, ...). A file
    POINT/seed-0.json keeps the id of a run and its last round, so that whoever continues it adds only new rounds.
    """

    package, install = "wandb", "mdfl_jax[wandb]"

    def __init__(self, study: Study, folder: Path, log: Callable[[str], None]):
        import wandb

        super().__init__(study, folder, log)
        self._wandb, self._open, self._announced = wandb, dict[str, Any](), False
        self._known: dict[str, dict[str, Any]] = {}

    def __enter__(self) -> Self:
        """Ask for the account now, if one is needed, and not after the first compilation.

        Raises:
          UserError: If there is no account, and nobody who could be asked for one.
        """
        if self._wandb.setup().settings.mode == "online":
            with _one_line_errors():
                self._wandb.login()
        return super().__enter__()

    def line(self, run: LoggedRun, line: dict[str, Any]) -> None:
        """Add the values of an evaluation, unless the run has them already."""
        known = self._known.get(run.folder) or self._known.setdefault(run.folder, self._remembered(run))
        if line["round"] <= known["round"]:
            return
        opened = self._open.get(run.folder) or self._begin(run, known)
        opened.log(dict(measured_numbers(line)), step=line["round"])
        known["round"] = line["round"]

    def _remembered(self, run: LoggedRun) -> dict[str, Any]:
        path = self._file(run.folder)
        return json.loads(path.read_text()) if path.exists() else {"id": None, "round": -1}

    def _file(self, folder: str) -> Path:
        return self.folder / f"{folder}.json"

    def _begin(self, run: LoggedRun, known: dict[str, Any]) -> Any:
        wandb = self._wandb
        self.folder.mkdir(parents=True, exist_ok=True)
        known["id"] = known["id"] or secrets.token_hex(4)
        with _one_line_errors():
            opened = wandb.init(
                project=os.environ.get("WANDB_PROJECT") or PROJECT,
                group=os.environ.get("WANDB_RUN_GROUP") or run.study,
                job_type=run.point,
                name=f"{run.point}, seed {run.seed}",
                id=known["id"],
                config=run.config,
                dir=str(self.folder),
                reinit="create_new",
                resume="allow" if known["round"] >= 0 else None,
                settings=wandb.Settings(silent=True, console="off"),
            )
        self._open[run.folder] = opened
        if not self._announced and not opened.disabled:
            self._announced = True
            where = opened.url or f"offline, in {self.folder}: `wandb sync` sends it"
            self.log(f"wandb: group {opened.group} of the project {opened.project}: {where}")
        return opened

    def flush(self) -> None:
        """Keep the last round of each run that goes on."""
        for folder in self._open:
            write_json(self._file(folder), self._known[folder])

    def end(self, run: LoggedRun) -> None:
        """End a run of wandb."""
        if opened := self._open.pop(run.folder, None):
            opened.finish()

    def close(self) -> None:
        """End the runs that are under way. A study that is stopped continues them later."""
        for opened in self._open.values():
            opened.finish()
