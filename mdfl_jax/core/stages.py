"""Lines for a user who waits: a stage of a command that takes more than a second is named on standard error.

This module imports only the standard library, so that a command can name its stage before it imports JAX. Lines are
printed only within `telling`. So functions of the package name their stages everywhere, and print nothing when a user's
program calls them.

>>> import time
>>> with telling(print, patience=0.05), stage("loading data"):
...     time.sleep(0.4)
loading data ...
"""

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator

_PATIENCE = 1.0  # seconds of silence that a stage may last


class _Teller:
    """Prints the innermost open stage, once, if it lasts longer than the patience.

    Args:
      say: a function that takes a line.
      patience: seconds.
    """

    def __init__(self, say: Callable[[str], None], patience: float):
        self.say, self.patience = say, patience
        self.lock = threading.Lock()
        self.stages: list[list[str]] = []  # for each open stage a list with its text, empty after the text was printed
        self.timer = threading.Timer(0, str)

    def enter(self, text: str) -> None:
        """Begin a stage inside the open stages."""
        with self.lock:
            self.stages.append([text])
            self._wait()

    def leave(self) -> None:
        """End the innermost stage. The patience of the stage around it begins again."""
        with self.lock:
            self.stages.pop()
            self._wait()

    def _wait(self) -> None:
        self.timer.cancel()
        if self.stages and self.stages[-1]:
            self.timer = threading.Timer(self.patience, self._tell, [self.stages[-1]])
            self.timer.daemon = True
            self.timer.start()

    def _tell(self, stage: list[str]) -> None:
        with self.lock:
            if stage and self.stages and self.stages[-1] is stage:  # it may have ended while this timer waited
                self.say(f"{stage.pop()} ...")


_teller: _Teller | None = None


def to_stderr(line: str) -> None:
    """Print a line about a stage on standard error."""
    print(f"mdfl_jax: {line}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def telling(say: Callable[[str], None] = to_stderr, patience: float = _PATIENCE) -> Iterator[None]:
    """Print the stages within this context that last longer than ``patience`` seconds. Contexts must not be nested.

    Args:
      say: a function that takes a line.
      patience: the seconds.
    """
    global _teller
    _teller = _Teller(say, patience)
    try:
        yield
    finally:
        while _teller.stages:  # no timer outlives the context
            _teller.leave()
        _teller = None


def hush() -> None:
    """Print no more stages in this context, as in a process that prints only errors."""
    if _teller is not None:
        _teller.say = lambda line: None


@contextlib.contextmanager
def stage(text: str) -> Iterator[None]:
    """Name the stage within this context. It may also be used as a decorator.

    Args:
      text: the stage in words, such as "loading data digits".
    """
    teller = _teller
    if teller is None:
        yield
        return
    teller.enter(text)
    try:
        yield
    finally:
        if teller.stages:
            teller.leave()
