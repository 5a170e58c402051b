"""The logger for MLflow, with the package mlflow. It writes a database, and needs no server and no network."""

import contextlib
import itertools
import logging
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from mdfl_jax.config.checks import LOGGERS
from mdfl_jax.config.sections import flat
from mdfl_jax.contrib.loggers.line_logger import LineLogger, LoggedRun, numbers_of
from mdfl_jax.core.errors import UserError
from mdfl_jax.study.events import Event
from mdfl_jax.study.study import Study

RUN, LAST = "mdfl_jax.run", "mdfl_jax.round"  # tags: which run it is, and its last round
_MOST = 100  # parameters that MLflow takes at once
_SECONDS = itertools.count(60)
"""How long to wait for another process. MLflow keeps what it has opened by its address, even if the file is removed, as
by --overwrite. So each logger has an address of its own."""


@dataclass
class _Opened:
    """A run of MLflow: its id, the last round that it has, and whether it goes on."""

    id: str
    last: int
    goes_on: bool


@contextlib.contextmanager
def _one_line_errors() -> Iterator[None]:
    """Make an error of MLflow, such as that of a full disk, one line."""
    from mlflow.exceptions import MlflowException

    try:
        yield
    except MlflowException as error:
        raise UserError(f"loggers has mlflow: {str(error).partition(chr(10))[0]}") from error


@LOGGERS.register("mlflow")
class MLflow(LineLogger):
    """MLflow: a run for each sweep point and seed, in an experiment named as the study, the values by round.

    All is in the SQLite database mlflow.db. A server that MLFLOW_TRACKING_URI names gets nothing. The
    parameters of a run are its resolved configuration. A tag keeps its last round, so that whoever continues it adds
    only new rounds.
    """

    package, install = "mlflow", "mdfl_jax[mlflow]"

    def __init__(self, study: Study, folder: Path, log: Callable[[str], None]):
        super().__init__(study, folder, log)
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # else it reports over the network that it is used
        self._opened: dict[str, _Opened] = {}

    @cached_property
    def _client(self) -> Any:
        from mlflow import MlflowClient

        logging.getLogger("mlflow.store.db").setLevel(logging.CRITICAL)  # of new tables, and errors at length
        self.folder.mkdir(parents=True, exist_ok=True)
        return MlflowClient(f"sqlite:///{self.folder.absolute() / 'mlflow.db'}?timeout={next(_SECONDS)}")

    @cached_property
    def _experiment(self) -> str:
        from mlflow.exceptions import MlflowException

        name, files = self.study.experiment.name, self.folder.absolute() / "artifacts"
        try:
            return self._client.create_experiment(name, artifact_location=files.as_uri())
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        return self._client.get_experiment_by_name(name).experiment_id

    def take(self, event: Event) -> None:
        """Hand the lines of an evaluation to MLflow."""
        with _one_line_errors():
            super().take(event)

    def line(self, run: LoggedRun, line: dict[str, Any]) -> None:
        """Add the values of an evaluation, unless the run has them already."""
        from mlflow.entities import Metric, RunTag

        opened = self._opened.get(run.folder) or self._opened.setdefault(run.folder, self._open(run))
        if line["round"] <= opened.last:
            return
        if not opened.goes_on:
            self._client.update_run(opened.id, status="RUNNING")
        now = int(1000 * time.time())  # only shown
        values = [Metric(key, value, now, line["round"]) for key, value in numbers_of(line)]
        self._client.log_batch(opened.id, values, tags=[RunTag(LAST, str(line["round"]))], synchronous=True)
        opened.last, opened.goes_on = line["round"], True

    def _open(self, run: LoggedRun) -> _Opened:
        from mlflow.entities import Param

        for found in self._client.search_runs([self._experiment], f"tags.`{RUN}` = '{run.folder}'", max_results=1):
            return _Opened(found.info.run_id, int(found.data.tags.get(LAST, -1)), found.info.status == "RUNNING")
        name = f"{run.point}, seed {run.seed}"
        made = self._client.create_run(self._experiment, tags={RUN: run.folder}, run_name=name).info.run_id
        params = [Param(path, str(value)) for path, value in flat(run.config).items()]
        for start in range(0, len(params), _MOST):
            self._client.log_batch(made, params=params[start : start + _MOST], synchronous=True)
        return _Opened(made, -1, True)

    def end(self, run: LoggedRun) -> None:
        """End a run of MLflow."""
        opened = self._opened.pop(run.folder, None)
        if opened and opened.goes_on:
            self._client.set_terminated(opened.id)

    def close(self) -> None:
        """Say of the runs that are under way that they were stopped. A study that is stopped continues them later."""
        for opened in self._opened.values():
            if opened.goes_on:
                self._client.set_terminated(opened.id, "KILLED")
