"""Checkpoints of a study: finished batches of runs and the batches under way, so that a killed study can continue.

`progress.json` names what is valid. It is replaced atomically and last, so a kill at any instant leaves either the old
state or the new one. Orbax writes host arrays [runs, ...], so a study may continue on other devices.
"""

import json
import logging
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from mdfl_jax.errors import UserError
from mdfl_jax.experiments.processes.channel import Arrays
from mdfl_jax.experiments.results.files import write_json


class Progress(NamedTuple):
    """The content of a checkpoint directory.

    Attributes:
      finished: The names of the finished batches, in the order in which they finished.
      current: The name of the saved state of the batch under way, or None.
      evaluations: The number of evaluations before that state, without the one before the first round.
      others: The same number for further batches that were under way (in other processes), by name of the state.
    """

    finished: list[str] = []  # noqa: RUF012
    current: str | None = None
    evaluations: int = 0
    others: dict[str, int] = {}  # noqa: RUF012

    @property
    def states(self) -> dict[str, int]:
        """The number of evaluations of every batch under way, by name of the saved state."""
        return ({self.current: self.evaluations} if self.current else {}) | self.others


def state_name(number: int, evaluations: int) -> str:
    """Returns the name of the saved state of a batch under way."""
    return f"batch-{number:03d}-at-{evaluations:05d}"


def number_of(name: str) -> int:
    """Returns the number of a batch in its study, from the name of its saved result or state.

    >>> number_of("batch-012-at-00003")
    12
    """
    return int(name.split("-")[1])


class Checkpoints:
    """The checkpoint directory of a workdir."""

    def __init__(self, directory: Path):
        self.directory = directory.absolute()

    def progress(self) -> Progress:
        """Reads what is saved. Without a progress.json nothing is.

        Raises:
          UserError: If progress.json is damaged.
        """
        path = self.directory / "progress.json"
        try:
            return Progress(**json.loads(path.read_text())) if path.exists() else Progress()
        except (OSError, ValueError, TypeError) as error:
            raise self._broken(path) from error

    def save(
        self,
        finished: Sequence[Arrays],
        current: Arrays | None,
        evaluations: int,
        numbers: Sequence[int] = (),
        others: Mapping[int, tuple[int, Arrays | None]] | None = None,
    ) -> None:
        """Saves the batches finished since the last checkpoint, and replaces the states of the batches under way.

        Args:
          finished: The results of the batches finished since then, as named arrays [runs, ...].
          current: The state of the batch under way, if any, as named arrays.
          evaluations: The number of evaluations before that state.
          numbers: The numbers of these batches, that under way last. If empty, they follow the finished batches.
          others: The evaluations and states of further batches under way, by number. A state that is saved is None.
        """
        before = self.progress()
        numbers = numbers or range(len(before.finished), len(before.finished) + len(finished) + 1)
        names = [f"batch-{number:03d}" for number in numbers[: len(finished)]]
        for name, arrays in zip(names, finished):
            self._write(name, arrays)
        after = Progress(before.finished + names, others={})
        for number, (done, state) in (others or {}).items():
            name = state_name(number, done)
            if state is not None and name not in before.states:
                self._write(name, state)
            after.others[name] = done
        if current is not None:
            name = state_name(numbers[len(finished)], evaluations)
            self._write(name, current)
            after = after._replace(current=name, evaluations=evaluations)
        write_json(self.directory / "progress.json", after._asdict())
        for name in before.states.keys() - after.states.keys():
            self._drop(name)

    def load(self, name: str) -> Arrays:
        """Returns the arrays saved under a name. Arrays without elements are missing, since they are not saved.

        Raises:
          UserError: If the file is absent or damaged.
        """
        try:
            if (path := self._plain(name)).exists():
                with np.load(path) as stored:
                    return dict(stored)
            return self._checkpointer().restore(self.directory / name)
        except Exception as error:  # an absent or damaged file raises many types in orbax and tensorstore
            raise self._broken(self.directory / name) from error

    def remove(self) -> None:
        """Removes the checkpoint directory."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def _write(self, name: str, arrays: Arrays) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        kept = {key: value for key, value in arrays.items() if value.size}  # orbax refuses empty arrays
        self._drop(name)
        if jax.process_count() > 1:  # orbax would make all processes of a TPU pod or cluster save together
            np.savez(self._plain(name), **kept)  # type: ignore[arg-type]
        else:
            self._checkpointer().save(self.directory / name, kept, force=True)

    def _drop(self, name: str) -> None:
        shutil.rmtree(self.directory / name, ignore_errors=True)
        self._plain(name).unlink(missing_ok=True)

    def _plain(self, name: str) -> Path:
        return self.directory / f"{name}.npz"

    @staticmethod
    def _broken(path: Path) -> UserError:
        return UserError(f"{path}: the checkpoint cannot be read; --overwrite starts the study anew")

    @staticmethod
    def _checkpointer() -> Any:
        # Imported here: orbax takes a second to import, and most studies end before their first checkpoint.
        import orbax.checkpoint as ocp

        logging.getLogger("absl").setLevel(logging.ERROR)
        # Only one process saves and reads, even if JAX knows of others.
        here = jax.process_index()
        alone = ocp.options.MultiprocessingOptions(here, {here}, barrier_sync_key_prefix="mdfl_jax")
        handler = ocp.PyTreeCheckpointHandler(multiprocessing_options=alone)
        return ocp.Checkpointer(handler, multiprocessing_options=alone)
