"""SLURM, by the package submitit."""

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from mdfl_jax.contrib.cluster.crew import Order, State, register_place, shares
from mdfl_jax.contrib.cluster.workers import function_of, in_a_line, package, settings_of
from mdfl_jax.core.errors import UserError
from mdfl_jax.storage.study_files import WORKERS

_MINUTES = 60  # of a job, if the user sets none: a worker whose time is over saves its state, and another one goes on


@register_place("slurm")
class Slurm:
    """Jobs of SLURM, submitted by submitit; with the setting executor=local, processes that submitit starts here.

    Args:
      many: The number of workers.
      settings: The parameters of submitit, by name.
      workdir: The folder of the study, which all machines of the cluster see.
    """

    def __init__(self, many: int, settings: Mapping[str, str], workdir: Path):
        self.submitit, self.folder = package("slurm", "submitit"), workdir.absolute() / WORKERS / "submitit"
        self.settings = {"name": "mdfl_jax", "timeout_min": _MINUTES, **settings_of(settings, 0)}
        self.kind = kind = str(self.settings.pop("executor", "slurm"))
        if kind == "slurm" and not shutil.which("sbatch"):
            raise UserError(
                "--on=slurm: there is no SLURM here, since no command sbatch is found; --cluster=executor=local starts "
                "processes of this machine in its place"
            )
        self.is_local = kind == "local"
        self.variables = shares(many)[0] if self.is_local else [{}]
        self.words = f"{many} job{'s' * (many > 1)} of {'submitit on this machine' if self.is_local else 'SLURM'}"

    def __enter__(self) -> Self:
        try:
            self.executor = self.submitit.AutoExecutor(folder=self.folder, cluster=self.kind)
            self.executor.update_parameters(**self.settings)
        except Exception as error:  # submitit raises many types for what is wrong in the settings
            self.__exit__()
            raise UserError(f"--on=slurm, --cluster: {in_a_line(error)}") from error
        return self

    def __exit__(self, *error: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # a worker has a file there
            self.folder.parent.rmdir()

    def start(self, number: int, order: Order) -> Any:
        """Submit a job."""
        order.variables.update(self.variables[number % len(self.variables)])
        with _silent_children() if self.is_local else contextlib.nullcontext():
            return self.executor.submit(function_of(order))

    def poll(self, job: Any) -> State:
        """Return how a job is."""
        if not job.done():
            return State(None)
        if not job.paths.result_pickle.exists() and (self.is_local or "CANCEL" in job.state):
            return State(-1, "its job was ended")  # of another job, submitit waits for this file
        try:
            return State(*job.result())
        except Exception as error:  # the job was killed or cancelled, or its time was over
            return State(-1, in_a_line(error))

    def cancel(self, job: Any) -> None:
        """Cancel a job. SLURM and submitit give it the time to save its state."""
        job.cancel(check=False)


@contextlib.contextmanager
def _silent_children() -> Iterator[None]:
    """Let processes that are started meanwhile say nothing: submitit's own one ends with a traceback when cancelled."""
    sys.stderr.flush()
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)
