"""Lines for a user who waits: a stage of a command that takes more than a second is named on standard error.

This module imports only the standard library, so that a command can say what it does before it imports JAX. Nothing is
printed unless a command has asked for it with `telling`. So functions of the package name their stages everywhere, and
stay silent when a user's program calls them.

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
    """Tells the innermost stage that is under way, once, if it lasts longer than the patience.

    Args:
      say: a function that takes a line.
      patience: seconds.
    """

    def __init__(self, say: Callable[[str], None], patience: float):
        self.say, self.patience = say, patience
        self.lock = threading.Lock()
        self.stages: list[list[str]] = []  # the text of each, in a list that is empty once the text was told
        self.timer = threading.Timer(0, str)

    def enter(self, text: str) -> None:
        """Begin a stage inside of those that are under way."""
        with self.lock:
            self.stages.append([text])
            self._wait()

    def leave(self) -> None:
        """End the innermost stage. The stage around it has the whole patience again."""
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
    """Tell the stages within this context that last longer than ``patience`` seconds. It is entered once at a time.

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
    """Tell no more stages in this context, as in a process that must print nothing but errors."""
    if _teller is not None:
        _teller.say = lambda line: None


@contextlib.contextmanager
def stage(text: str) -> Iterator[None]:
    """Name what is done within this context. It may be used as a decorator too.

    Args:
      text: what is done, as in "loading data digits".
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
