"""Checkpoints of a study: finished batches of runs and the batches under way, so that a killed study can continue.

`progress.json` names what is valid. It is replaced atomically and last, so a kill at any instant leaves either the old
state or the new one. The files are .npz of host arrays [runs, ...], so a study may continue on other devices. Each
array has a checksum, and `progress.json` too. The checkpoint before the last one is kept as well, with
`progress-before.json`, so that a damaged file costs the rounds since then, and not the study.
"""

import contextlib
import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mdfl_jax.core.errors import UserError
from mdfl_jax.storage.checksums import Arrays, read_state, write_state
from mdfl_jax.storage.disk import dumps, write_json

_DIGEST = "digest"  # the checksum of progress.json, in it


class Saved(NamedTuple):
    """The content of a checkpoint directory.

    Attributes:
      finished: The names of the finished batches, in the order in which they finished.
      states: The number of evaluations of every batch under way, by name of the saved state. The evaluation before the
        first round is not counted. There are several if rounds are added to finished runs: each batch waits for them.
      begun: The evaluations of a batch that has just begun: above 0 if rounds are added, so that a batch whose state is
        lost cannot be run anew.
    """

    finished: list[str] = []  # noqa: RUF012
    states: dict[str, int] = {}  # noqa: RUF012
    begun: int = 0


def state_name(number: int, evaluations: int) -> str:
    """Return the name of the saved state of a batch under way."""
    return f"batch-{number:03d}-at-{evaluations:05d}"


def number_of(name: str) -> int:
    """Return the number of a batch in its study, from the name of its saved result or state.

    >>> number_of("batch-012-at-00003")
    12
    """
    return int(name.split("-")[1])


def _sealed(saved: Saved) -> dict[str, Any]:
    content = saved._asdict()
    return content | {_DIGEST: hashlib.sha256(dumps(content).encode()).hexdigest()[:16]}


class Checkpoints:
    """The checkpoint directory of a workdir.

    Args:
      directory: The directory.
      log: A function that takes a line for the user about what is damaged.
    """

    def __init__(self, directory: Path, log: Callable[[str], None] = lambda line: None):
        self.directory, self._log = directory.absolute(), log
        self._told: set[str] = set()
        self._damaged: set[str] = set()  # the names of files that are to be written again

    def progress(self) -> Saved:
        """Read progress.json, or the one before it if it is damaged. Without a progress.json nothing is saved.

        Raises:
          UserError: If both are damaged.
        """
        path = self.directory / "progress.json"
        if not path.exists():
            return Saved()
        if (found := self._read(path)) is not None:
            return found
        if (before := self._read(self._before)) is None:
            raise UserError(f"{path}: the checkpoint cannot be read; --overwrite starts the study anew")
        self._tell(f"{path} is damaged; the study goes on from the checkpoint before it")
        return before

    def save(
        self, finished: Mapping[int, Arrays], states: Mapping[int, tuple[int, Arrays | None]], begun: int | None = None
    ) -> None:
        """Save the batches finished since the last checkpoint, and the states of the batches under way.

        The states of the checkpoint before this one stay, and older ones are removed.

        Args:
          finished: The results of the batches finished since then, as named arrays [runs, ...], by number of the batch.
          states: The evaluations and the state of every batch under way, by number. None for a state that is saved.
          begun: `Saved.begun`; None: as it was.

        Raises:
          DiskError: If a file cannot be written. The checkpoint before this one is still there.
        """
        before = self.progress()
        after = Saved(list(before.finished), {}, before.begun if begun is None else begun)
        for number, arrays in finished.items():
            name = f"batch-{number:03d}"
            write_state(self._file(name), arrays)
            if name not in after.finished:  # it is there if its file was damaged and its runs were made anew
                after.finished.append(name)
        for number, (evaluations, state) in states.items():
            name = state_name(number, evaluations)
            if state is not None and (name not in before.states or name in self._damaged):
                write_state(self._file(name), state)
            after.states[name] = evaluations
        first = not (self.directory / "progress.json").exists()
        write_json(self._before, _sealed(after if first else before))
        write_json(self.directory / "progress.json", _sealed(after))
        valid = {*before.states, *after.states, *after.finished}
        for path in self.directory.glob("batch-*"):
            if path.name.removesuffix(".npz") not in valid:
                with contextlib.suppress(OSError):  # of a disk that can only be read; nothing reads this file
                    path.unlink(missing_ok=True)

    def load(self, name: str) -> Arrays:
        """Return the arrays saved under a name.

        Raises:
          UserError: If the file is absent or damaged.
        """
        return read_state(self._file(name), "the checkpoint cannot be read; --overwrite starts the study anew")

    def finished(self) -> dict[int, Arrays]:
        """Return the results of the finished batches by number, without damaged ones, which must run anew.

        The user is told of each damaged file.

            Raises:
              UserError: If a batch is damaged that began with rounds of an earlier study.
        """
        saved, found = self.progress(), dict[int, Arrays]()
        for name in saved.finished:
            try:
                found[number_of(name)] = self.load(name)
            except UserError:
                if saved.begun:
                    raise
                self._tell(f"{self._file(name)} is damaged; its runs are made anew")
        return found

    def state(self, number: int, evaluations: int) -> tuple[int, Arrays | None]:
        """Return the last state of a batch under way, with its evaluations; if it is damaged, the state before it.

        Args:
          number: The number of the batch.
          evaluations: Those of its last state.

        Returns:
          (0, None) if the batch must begin anew.

        Raises:
          UserError: If no state can be read of a batch that began with rounds of an earlier study.
        """
        last = state_name(number, evaluations)
        earlier = self._read(self._before) or Saved()
        names = {last: evaluations} | {n: e for n, e in earlier.states.items() if number_of(n) == number and n != last}
        for name, done in names.items():
            try:
                return done, self.load(name)
            except UserError:
                self._damaged.add(name)
                self._tell(f"{self._file(name)} is damaged")
        if self.progress().begun:  # the rounds before it are not those of this study
            self.load(last)
        self._tell(f"{self._file(last)}: its runs begin anew, as no state of them is whole")
        return 0, None

    def remove(self) -> None:
        """Remove the checkpoint directory."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def _tell(self, line: str) -> None:
        """Log what is damaged, once."""
        if line not in self._told:
            self._told.add(line)
            self._log(line)

    @property
    def _before(self) -> Path:
        return self.directory / "progress-before.json"

    def _read(self, path: Path) -> Saved | None:
        """Return what a progress.json says; None if it is absent or damaged."""
        try:
            content = json.loads(path.read_text())
            digest = content.pop(_DIGEST, None)
            saved = Saved(**content)
            return saved if digest == _sealed(saved)[_DIGEST] else None
        except (OSError, ValueError, TypeError, AttributeError):
            return None

    def _file(self, name: str) -> Path:
        return self.directory / f"{name}.npz"
