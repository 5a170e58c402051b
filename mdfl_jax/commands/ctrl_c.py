"""Tells Ctrl-C from a KeyboardInterrupt that a user's file raises."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any, NoReturn


class CtrlC(KeyboardInterrupt):
    """Raised by Ctrl-C within `told_apart`, and by nothing in a user's file."""


@contextlib.contextmanager
def told_apart() -> Iterator[None]:
    """Lets Ctrl-C raise `CtrlC`, where it would raise KeyboardInterrupt otherwise."""

    def interrupt(*_: Any) -> NoReturn:
        raise CtrlC

    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
