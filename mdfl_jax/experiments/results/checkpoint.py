"""Checkpoints of a study: finished batches of runs and the batches under way, so that a killed study can continue.

`progress.json` names what is valid. It is replaced atomically and last, so a kill at any instant leaves either the old
state or the new one. The files are .npz of host arrays [runs, ...], so a study may continue on other devices. The
checksums of the format show damaged bytes.
"""

import json
import shutil
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from mdfl_jax.errors import UserError
from mdfl_jax.experiments.results.files import write_json

Arrays = dict[str, np.ndarray]
_DTYPES = "dtypes"  # the array of each file that names the types of the others


class Saved(NamedTuple):
    """The content of a checkpoint directory.

    Attributes:
      finished: The names of the finished batches, in the order in which they finished.
      states: The number of evaluations of every batch under way, by name of the saved state. The evaluation before the
        first round is not counted. There are several if rounds are added to finished runs: each batch waits for them.
    """

    finished: list[str] = []  # noqa: RUF012
    states: dict[str, int] = {}  # noqa: RUF012


def state_name(number: int, evaluations: int) -> str:
    """Returns the name of the saved state of a batch under way."""
    return f"batch-{number:03d}-at-{evaluations:05d}"


def number_of(name: str) -> int:
    """Returns the number of a batch in its study, from the name of its saved result or state.

    >>> number_of("batch-012-at-00003")
    12
    """
    return int(name.split("-")[1])


def write_state(path: Path, arrays: Arrays) -> None:
    """Writes named arrays with the names of their types, since .npz does not know those of bfloat16 and its like.

    Raises:
      OSError: If the file cannot be written.
    """
    dtypes = json.dumps({key: np.dtype(value.dtype).name for key, value in arrays.items()})
    np.savez(path, **arrays, **{_DTYPES: np.array(dtypes)})  # type: ignore[arg-type]


def read_state(path: Path, broken: str, only: Sequence[str] | None = None) -> Arrays:
    """Reads the arrays of a file that `write_state` has written.

    Args:
      path: The file.
      broken: What to tell the user if it is absent or damaged.
      only: The names of the arrays to read; None: all.

    Raises:
      UserError: If it is absent or damaged, or if one of these arrays is not there.
    """
    try:
        with np.load(path) as stored:
            dtypes = json.loads(str(stored[_DTYPES]))
            return {key: stored[key].view(jnp.dtype(dtypes[key])) for key in (dtypes if only is None else only)}
    except (OSError, ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise UserError(f"{path}: {broken}") from error


class Checkpoints:
    """The checkpoint directory of a workdir."""

    def __init__(self, directory: Path):
        self.directory = directory.absolute()

    def progress(self) -> Saved:
        """Reads what is saved. Without a progress.json nothing is.

        Raises:
          UserError: If progress.json is damaged.
        """
        path = self.directory / "progress.json"
        try:
            return Saved(**json.loads(path.read_text())) if path.exists() else Saved()
        except (OSError, ValueError, TypeError) as error:
            raise self._broken(path) from error

    def save(self, finished: Mapping[int, Arrays], states: Mapping[int, tuple[int, Arrays | None]]) -> None:
        """Saves the batches finished since the last checkpoint, and replaces the states of the batches under way.

        Args:
          finished: The results of the batches finished since then, as named arrays [runs, ...], by number of the batch.
          states: The evaluations and the state of every batch under way, by number. None for a state that is saved.

        Raises:
          OSError: If a file cannot be written.
        """
        before = self.progress()
        after = Saved(list(before.finished), {})
        for number, arrays in finished.items():
            after.finished.append(f"batch-{number:03d}")
            self._write(after.finished[-1], arrays)
        for number, (evaluations, state) in states.items():
            name = state_name(number, evaluations)
            if state is not None and name not in before.states:
                self._write(name, state)
            after.states[name] = evaluations
        write_json(self.directory / "progress.json", after._asdict())
        for name in before.states.keys() - after.states.keys():
            self._file(name).unlink(missing_ok=True)

    def load(self, name: str) -> Arrays:
        """Returns the arrays saved under a name.

        Raises:
          UserError: If the file is absent or damaged.
        """
        return read_state(self._file(name), "the checkpoint cannot be read; --overwrite starts the study anew")

    def remove(self) -> None:
        """Removes the checkpoint directory."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def _write(self, name: str, arrays: Arrays) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        write_state(self._file(name), arrays)

    def _file(self, name: str) -> Path:
        return self.directory / f"{name}.npz"

    @staticmethod
    def _broken(path: Path) -> UserError:
        return UserError(f"{path}: the checkpoint cannot be read; --overwrite starts the study anew")
