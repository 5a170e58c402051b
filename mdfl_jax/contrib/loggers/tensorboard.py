"""The logger for TensorBoard. It writes event files with the package tensorboardX, which needs no TensorFlow.

Of the package it has the events and their checksums. Its own writer hands them to a thread: on a full disk that thread
dies, and the study waits for it for ever.
"""

import json
import platform
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mdfl_jax.config.checks import LOGGERS
from mdfl_jax.contrib.loggers.line_logger import LineLogger, LoggedRun, measured_numbers
from mdfl_jax.storage.disk import Appended
from mdfl_jax.study.study import Study

_EVENTS = "events.out.tfevents."  # TensorBoard reads the files of a folder in the order of their names


class _EventFile:
    """A file of events. Each is written with its length and their checksums, when the file is flushed.

    Args:
      folder: The folder, which is made if it is absent.
      first_round: The first round; the steps from it on that earlier files of the folder have are not shown.
    """

    def __init__(self, folder: Path, first_round: int):
        there = [path.name.removeprefix(_EVENTS).partition(".")[0] for path in folder.glob(_EVENTS + "*")]
        number = 1 + max((int(found) for found in there if found.isdecimal()), default=0)
        name = f"{_EVENTS}{number:010}.{platform.node()}"
        self._file, self._waiting = Appended(folder / name), [b""]
        self._add(file_version="brain.Event:2", step=first_round)
        if first_round:
            from tensorboardX.proto.event_pb2 import SessionLog

            self._add(session_log=SessionLog(status=SessionLog.START), step=first_round)

    def add(self, summary: Any, step: int = 0) -> None:
        """Add a summary."""
        self._add(summary=summary, step=step)

    def _add(self, **event: Any) -> None:
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.record_writer import masked_crc32c

        content = Event(wall_time=time.time(), **event).SerializeToString()  # only shown
        length = struct.pack("<Q", len(content))
        self._waiting += [length, struct.pack("<I", masked_crc32c(length))]
        self._waiting += [content, struct.pack("<I", masked_crc32c(content))]

    def flush(self) -> None:
        """Write the events that wait, all or none.

        Raises:
          DiskError: If they cannot be written.
        """
        self._file.write(b"".join(self._waiting))
        self._waiting.clear()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@LOGGERS.register("tensorboard")
class TensorBoard(LineLogger):
    """Event files for TensorBoard: a folder for each sweep point and seed, the values by round.

    The values have single precision, as in all event files. The configuration of a run is its text "config", and the
    values of the swept fields are its hyperparameters. A run that continues is written anew from its first evaluation,
    so that no step is there twice. If rounds are added to a finished run, a further file takes the place of its last
    step (TensorBoard's "purge step").
    """

    package, install = "tensorboardX", "mdfl_jax[tensorboard]"

    def __init__(self, study: Study, folder: Path, log: Callable[[str], None]):
        super().__init__(study, folder, log)
        self._files = dict[str, _EventFile]()

    def line(self, run: LoggedRun, line: dict[str, Any]) -> None:
        """Add the values of an evaluation."""
        from tensorboardX.summary import scalar

        file = self._files.get(run.folder) or self._begin(run, line["round"])
        for key, value in measured_numbers(line):
            file.add(scalar(key, value), line["round"])

    def _begin(self, run: LoggedRun, first_round: int) -> _EventFile:
        from tensorboardX.summary import hparams, text

        folder = self.folder / run.folder
        for earlier in () if first_round else folder.glob(_EVENTS + "*"):
            earlier.unlink()
        file = self._files[run.folder] = _EventFile(folder, first_round)
        file.add(text("config", f"```json\n{json.dumps(run.config, indent=2)}\n```"))
        for summary in hparams({**run.overrides, "seed": run.seed}, {"accuracy": None, "loss": None}):
            file.add(summary)
        return file

    def flush(self) -> None:
        """Write the values to the files, so that a killed study has them."""
        for file in self._files.values():
            file.flush()

    def end(self, run: LoggedRun) -> None:
        """Close the file of a run."""
        if file := self._files.pop(run.folder, None):
            file.close()

    def close(self) -> None:
        """Close the files that are open."""
        for file in self._files.values():
            file.close()
