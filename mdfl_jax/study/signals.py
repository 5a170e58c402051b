"""The signals that stop a study: the first saves its state, the second stops at once."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def handled(stop: Callable[[], None], log: Callable[[str], None]) -> Iterator[None]:
    """Save the state after the current evaluation on the first SIGINT, SIGTERM or SIGHUP; stop at once on the second.

    SIGHUP, that of a closed terminal, stays ignored where it is, as under nohup. Only the main thread of a process can
    handle signals. In another thread, signals are left as they are.

    Args:
      stop: Asks the study to stop after the current evaluation.
      log: A function that takes lines for the user.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked = False

    def handler(number: int, frame: Any) -> None:
        nonlocal asked
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
    handlers: dict[int, Any] = {number: signal.getsignal(number) for number in numbers}
    try:
        for number in numbers:
            signal.signal(number, handler)
        yield
    finally:
        for of, before in handlers.items():
            signal.signal(of, before)
