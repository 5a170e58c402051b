"""Ctrl-C: told from a KeyboardInterrupt that a user's file raises, never lost, and never told as a traceback."""

import _thread
import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any, NoReturn

_AGAIN = 0.02  # seconds


class CtrlC(KeyboardInterrupt):
    """Raised by Ctrl-C within `told_apart`, and by nothing in a user's file."""


@contextlib.contextmanager
def told_apart() -> Iterator[None]:
    """Let Ctrl-C raise `CtrlC`, where it would raise KeyboardInterrupt otherwise."""

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


@contextlib.contextmanager
def raised_where_it_can_be() -> Iterator[None]:
    """Raise a KeyboardInterrupt again that met Python where none can be raised, as in the callbacks of the collector.

    Python would say "Exception ignored in ...", with a traceback, and go on as if there had been no second Ctrl-C.
    """
    before = sys.unraisablehook

    def told(unraisable: Any) -> None:
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            before(unraisable)
            return
        again = threading.Timer(_AGAIN, _thread.interrupt_main)  # not from here, where it could not be raised either
        again.daemon = True
        again.start()

    sys.unraisablehook = told
    try:
        yield
    finally:
        sys.unraisablehook = before


@contextlib.contextmanager
def not_masked() -> Iterator[None]:
    """Raise a KeyboardInterrupt in place of an error that arose because of it, as of a half-written archive."""
    try:
        yield
    except Exception as error:
        behind: BaseException | None = error
        while behind and not isinstance(behind, KeyboardInterrupt):
            behind = behind.__context__
        if behind:
            raise behind from None
        raise


def ends_the_process() -> None:
    """Let the system end the process at a Ctrl-C from here on: a command has said its last word."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_DFL)
