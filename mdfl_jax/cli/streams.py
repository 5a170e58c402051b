"""Standard output and error that outlive their reader: ``mdfl sweep ... | head -1``, a closed terminal, ``>&-``.

A study that runs for hours should not end because nobody reads its lines any more. So what cannot be written is
dropped, the command goes on, and its exit status is `CLOSED`, that of a process that SIGPIPE ended, if it would have
been 0. The same holds for output into a file on a full disk, which a line on standard error then says.

A name in a file of others may hold characters that control a terminal, or that change the order of what is read. They
are written as escapes.
"""

import errno
import os
import sys
from typing import Any, TextIO, cast

from mdfl_jax.core.errors import visible

CLOSED = 128 + 13


class _Patient:
    """A text stream that drops what its reader no longer takes."""

    def __init__(self, stream: TextIO):
        self._stream, self.is_gone = stream, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text, or drop it."""
        self._attempt(lambda: self._stream.write(visible(text)))
        return len(text)

    def flush(self) -> None:
        """Write what is buffered, or drop it."""
        self._attempt(self._stream.flush)

    def _attempt(self, do: Any) -> None:
        try:
            do()
        except OSError as error:
            self.is_gone = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())  # also what libraries write from C
            if error.errno not in (errno.EPIPE, errno.EIO, errno.EBADF) and sys.stderr is not self:
                why = f"standard output cannot be written: {error.strerror}"
                print(f"{why}; the command goes on without it", file=sys.stderr)


def install() -> None:
    """Make standard output and error patient. Those that were closed from the beginning lead into nothing.

    Else a file that is opened later would get the number of standard output, and with it what libraries print.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name) or open(os.devnull, "w")  # noqa: SIM115 - it stays until the process ends
        if not isinstance(stream, _Patient):
            setattr(sys, name, cast(TextIO, _Patient(stream)))


def status(of_command: int) -> int:
    """Flush both streams, and return the exit status: `CLOSED` in place of 0 if a stream has lost its reader."""
    patient = [stream for stream in (sys.stdout, sys.stderr) if isinstance(stream, _Patient)]
    for stream in patient:
        stream.flush()
    return of_command or (CLOSED if any(stream.is_gone for stream in patient) else 0)
