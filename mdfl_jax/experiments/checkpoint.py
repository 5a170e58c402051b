"""Checkpoints of a study: finished batches of runs, and the one under way, so that a killed study can go on.

`progress.json` names what is valid; it is replaced atomically, last, so a kill at any instant leaves either the old
state or the new one. Arrays are written by orbax, as host arrays [runs, ...], so a study may go on over other devices.
"""

import json
import logging
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mdfl_jax.errors import UserError
from mdfl_jax.experiments.results import write_json

Arrays = dict[str, np.ndarray]


class Progress(NamedTuple):
    """What a checkpoint directory holds.

    Attributes:
      finished: names of the finished batches, in order.
      current: name of the state of the batch under way, or None.
      evaluations: how many evaluations that state has behind it, the one before the first round not counted.
    """

    finished: list[str] = []  # noqa: RUF012
    current: str | None = None
    evaluations: int = 0


class Checkpoints:
    """The checkpoint directory of a workdir."""

    def __init__(self, directory: Path):
        self.directory = directory.absolute()

    def progress(self) -> Progress:
        """What is there; nothing at all where there is no progress.json.

        Raises:
          UserError: where it is damaged.
        """
        path = self.directory / "progress.json"
        try:
            return Progress(**json.loads(path.read_text())) if path.exists() else Progress()
        except (OSError, ValueError, TypeError) as error:
            raise self._broken(path) from error

    def save(self, finished: Sequence[Arrays], current: Arrays | None, evaluations: int) -> None:
        """Saves the batches finished since the last checkpoint, and in place of its last state the batch under way.

        Args:
          finished: results of each batch finished since.
          current: state of the batch under way, if any.
          evaluations: how many evaluations that state has behind it.
        """
        before = self.progress()
        names = [f"batch-{len(before.finished) + i:03d}" for i in range(len(finished))]
        for name, arrays in zip(names, finished):
            self._write(name, arrays)
        after = Progress(before.finished + names)
        if current is not None:
            name = f"batch-{len(after.finished):03d}-at-{evaluations:05d}"
            self._write(name, current)
            after = after._replace(current=name, evaluations=evaluations)
        write_json(self.directory / "progress.json", after._asdict())
        if before.current and before.current != after.current:
            shutil.rmtree(self.directory / before.current, ignore_errors=True)

    def load(self, name: str) -> Arrays:
        """What was saved under a name; arrays without elements are not among it.

        Raises:
          UserError: where it is damaged.
        """
        try:
            return self._checkpointer().restore(self.directory / name)
        except Exception as error:  # orbax and tensorstore have many for a file that is absent or damaged
            raise self._broken(self.directory / name) from error

    def remove(self) -> None:
        """Removes everything."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def _write(self, name: str, arrays: Arrays) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        kept = {key: value for key, value in arrays.items() if value.size}  # orbax refuses empty arrays
        self._checkpointer().save(self.directory / name, kept, force=True)

    @staticmethod
    def _broken(path: Path) -> UserError:
        return UserError(f"{path}: the checkpoint cannot be read; --overwrite starts the study anew")

    @staticmethod
    def _checkpointer() -> Any:
        # Imported here: orbax takes a second to import, and most studies end before their first checkpoint.
        import orbax.checkpoint as ocp

        logging.getLogger("absl").setLevel(logging.ERROR)
        return ocp.PyTreeCheckpointer()
