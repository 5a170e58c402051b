"""The signals that stop a study: the first saves its state, the second stops at once. Also while XLA compiles."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

_T = TypeVar("_T")
_TICK = 0.1  # seconds after which a stop is noticed while a program is compiled
_COMPILING = "compiling"  # the name of a thread that does so


@contextlib.contextmanager
def handled(stop: Callable[[], None], log: Callable[[str], None], is_worker: bool = False) -> Iterator[None]:
    """Save the state after the current evaluation on the first SIGINT, SIGTERM or SIGHUP; stop at once on the second.

    SIGHUP, that of a closed terminal, stays ignored where it is, as under nohup. Only the main thread of a process can
    handle signals. In another thread, signals are left as they are.

    Args:
      stop: Asks the study to stop after the current evaluation.
      log: A function that takes lines for the user.
      is_worker: Whether another process has started this one. Then several signals are no sign of impatience, and
        SIGUSR2 stops the study too: so submitit warns of the end of the time.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked = False

    def handler(number: int, frame: Any) -> None:
        nonlocal asked
        if asked and is_worker:
            return
        if asked:  # as it was before; not put back at the first one, as both may be waiting to be handled
            signal.signal(number, before := handlers[number])
            before(number, frame) if callable(before) else signal.raise_signal(number)
            return
        asked = True
        log("stopping after this evaluation, and saving the state (once more: stop at once, without saving) ...")
        stop()
        if hangup in handlers:  # the system and the shell both send it, and it is no sign of impatience
            signal.signal(hangup, signal.SIG_IGN)

    numbers = [signal.SIGINT, signal.SIGTERM]
    if (hangup := getattr(signal, "SIGHUP", None)) and signal.getsignal(hangup) is not signal.SIG_IGN:  # not on Windows
        numbers.append(hangup)
    if is_worker and hasattr(signal, "SIGUSR2"):
        numbers.append(signal.SIGUSR2)
    handlers: dict[int, Any] = {number: signal.getsignal(number) for number in numbers}
    try:
        for number in numbers:
            signal.signal(number, handler)
        yield
    finally:
        for of, before in handlers.items():
            signal.signal(of, before)


def apart(act: Callable[[], _T], is_stopping: Callable[[], bool] = lambda: False) -> _T | None:
    """Call a function that compiles, in a thread of its own, since a compiler heeds no signal.

    Args:
      act: The function. Where a study is stopped meanwhile, it goes on until the process ends (`end_without_compiler`).
      is_stopping: Tells whether the study is to stop.

    Returns:
      What the function returns; None if the study was stopped before.

    Raises:
      Exception: What the function raises.
    """
    found: list[_T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            found.append(act())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name=_COMPILING, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_TICK)
        if is_stopping():
            return None
    if errors:
        raise errors[0]
    return found[0]


def end_at_ctrl_c() -> None:
    """Let a Ctrl-C that no study handles end the process at once, with the word "stopped" and status 130.

    A KeyboardInterrupt would be raised wherever the process is, also in a callback of the interpreter, which can only
    print it. What was being written is none of a study until it is whole.
    """

    def end(number: int, frame: Any) -> None:
        for text, stream in (("", sys.stdout), ("stopped\n", sys.stderr)):
            with contextlib.suppress(OSError, RuntimeError, ValueError):  # closed, or just being written
                stream.write(text)
                stream.flush()
        os._exit(130)

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where it is ignored
        signal.signal(signal.SIGINT, end)


def end_without_compiler(status: int) -> None:
    """End the process at once if a program is still compiled (`apart`): the usual end would wait for the compiler."""
    if any(thread.name == _COMPILING for thread in threading.enumerate()):
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(status)
