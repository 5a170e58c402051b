"""The processes that share one study: process 0 leads, the others follow, each on its own devices.

The batches of runs are divided among the processes, but a simulation never is, so no collectives are needed. A socket
from every follower to process 0 carries plans, results and signs of life. It also shows when a process is gone: at
once if the other end closes the connection, else after a timeout.
"""

import contextlib
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Self

from mdfl_jax.errors import UserError
from mdfl_jax.experiments.processes.channel import Arrays, Channel, Gone, Message

_GOES_ON = "what was saved stays, and the same command goes on from it"


class Interrupted(Exception):  # noqa: N818
    """The user stopped the study. Its state is saved, and the same command continues it."""


class HostLost(Exception):  # noqa: N818
    """A process of the study is gone. What was saved stays, and the same command continues from it."""


def abandon(line: str, status: int = 1) -> None:
    """Prints a line and ends this process at once, since Python cannot interrupt a compiled program."""
    with contextlib.suppress(OSError, ValueError):  # nobody reads it any more
        print(line, file=sys.stderr, flush=True)
    os._exit(status)


class _Process:
    """The part that process 0 and the followers share: a thread that sends signs of life."""

    def __init__(self, index: int, count: int, timeout: float):
        self.index, self.count, self.timeout = index, count, timeout
        self.stopping = False  # set by signal handlers, which must not send: a thread sends it to the others
        self.closed = False

    def beat(self) -> None:
        raise NotImplementedError

    def close(self, status: int = 0, line: str = "") -> None:
        raise NotImplementedError

    def _beats(self) -> None:
        while not self.closed:
            self.beat()
            time.sleep(min(0.5, self.timeout / 4))

    def _thread(self, target: Callable[..., None], *args: Any) -> None:
        threading.Thread(target=target, args=args, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None:
            self.close()
        elif isinstance(error, UserError):
            self.close(2, str(error))
        elif isinstance(error, KeyboardInterrupt | Interrupted):
            self.close(130, "stopped")
        else:
            self.close(1, str(error) if isinstance(error, HostLost) else f"{type(error).__name__}: {error}")


class Lead(_Process):
    """Process 0. ``Lead()`` stands for a study with no other process.

    Attributes:
      names: The names of the followers' machines, by process.
      devices: The devices of the followers, by process.
      rounds: The rounds that each follower has done of its unfinished batch, added up over the runs.
      lost: The error for the first follower that is gone, or None.
      patience: The seconds that all processes then have to end an evaluation and save.
    """

    def __init__(self, count: int = 1, timeout: float = 30.0):
        super().__init__(0, count, timeout)
        self.names: dict[int, str] = {}
        self.devices: dict[int, list[str]] = {}
        self.rounds: dict[int, int] = {}
        self.lost: HostLost | None = None
        self.patience = timeout
        self._channels: dict[int, Channel] = {}
        self._inbox: queue.Queue[tuple[int, Message]] = queue.Queue()
        self._at_rest: set[int] = set()
        self._watchdog: threading.Timer | None = None
        if count > 1:
            self._thread(self._beats)

    def add(self, index: int, name: str, devices: list[str], channel: Channel) -> None:
        """Adds a follower, and starts a thread that receives its messages."""
        self.names[index], self.devices[index], self.rounds[index] = name, devices, 0
        channel.timeout = self.timeout
        self._channels[index] = channel
        self._thread(self._listen, index, channel)

    @property
    def ending(self) -> bool:
        """Whether the study must be saved and ended, because a process received a signal or is gone."""
        return self.stopping or self.lost is not None

    def send(self, index: int, kind: str, fields: dict[str, Any] | None = None, arrays: Arrays | None = None) -> None:
        """Sends a message to a follower. A follower that cannot be reached counts as gone."""
        if (channel := self._channels.get(index)) is None:
            return  # gone already, which `lost` says
        try:
            channel.send(kind, fields, arrays)
        except Gone as gone:
            self._lose(index, str(gone))

    def messages(self, wait: float = 0.0) -> list[tuple[int, Message]]:
        """Returns new messages of the followers, as (process, message). Waits up to ``wait`` seconds for the first."""
        found = []
        with contextlib.suppress(queue.Empty):
            found.append(self._inbox.get(wait > 0, wait or None))
            while True:
                found.append(self._inbox.get_nowait())
        return found

    def resting(self) -> bool:
        """Whether every remaining follower has stopped and has sent all that it had under way."""
        if self._watchdog:
            self._watchdog.cancel()  # this process is not computing, so it can stop by itself
        return self._at_rest >= self._channels.keys()

    def beat(self) -> None:
        """Sends the followers a sign of life, which also says whether to stop."""
        for index, channel in list(self._channels.items()):
            try:
                channel.beat({"stop": self.ending})
            except Gone as gone:
                self._lose(index, str(gone))

    def close(self, status: int = 0, line: str = "") -> None:
        """Makes the followers end with this status. If the status is not 0, they print the line as an error."""
        if self.closed:
            return
        self.closed = True
        if self._watchdog:
            self._watchdog.cancel()
        for channel in list(self._channels.values()):
            with contextlib.suppress(Gone):
                channel.send("bye", {"status": status, "line": line})
        until = time.monotonic() + min(self.timeout, 5.0)
        while self._channels and time.monotonic() < until:  # they close first: closing here could lose the message
            time.sleep(0.01)
        for channel in list(self._channels.values()):
            channel.close()

    def _listen(self, index: int, channel: Channel) -> None:
        try:
            while True:
                message = channel.receive()
                if message.kind == "beat":
                    self.rounds[index] = message.fields["rounds"]
                    self.stopping |= message.fields["stop"]
                elif message.kind == "bye":
                    raise Gone(f"has ended: {message.fields['line']}")
                else:
                    self._inbox.put((index, message))
                    if message.kind == "rest":
                        self._at_rest.add(index)
        except Gone as gone:
            self._lose(index, str(gone))

    def _lose(self, index: int, why: str) -> None:
        channel = self._channels.pop(index, None)
        if channel is None:
            return
        channel.close()
        if self.closed or (index in self._at_rest and not self.ending):  # its work was finished
            return
        who = f"process {index} ({self.names[index]})"
        self.lost = self.lost or HostLost(f"{who} is gone: it {why}; {_GOES_ON}")
        if self._watchdog is None:
            self._watchdog = threading.Timer(self.patience, abandon, [f"error: {self.lost}"])
            self._watchdog.daemon = True
            self._watchdog.start()


class Follower(_Process):
    """A process other than 0. It runs the batches that it is given, and writes no file."""

    def __init__(self, index: int, count: int, timeout: float, channel: Channel):
        super().__init__(index, count, timeout)
        self.rounds = 0
        self.ending = False  # process 0 said to save and end
        self._channel = channel
        self._inbox: queue.Queue[Message] = queue.Queue()
        self._over = threading.Event()
        channel.timeout = timeout
        self._thread(self._beats)
        self._thread(self._listen)

    def send(self, kind: str, fields: dict[str, Any] | None = None, arrays: Arrays | None = None) -> None:
        """Sends a message to process 0. If process 0 cannot be reached, this process ends."""
        try:
            self._channel.send(kind, fields, arrays)
        except Gone as gone:
            self._leave(str(gone))

    def receive(self) -> Message | None:
        """Waits for the next message of process 0 that is no sign of life. Returns None once the study is over."""
        while not self._over.is_set() or not self._inbox.empty():
            with contextlib.suppress(queue.Empty):
                return self._inbox.get(timeout=0.2)  # short, so that Python can handle signals
        return None

    def rest(self) -> None:
        """Tells process 0 that this process will send nothing more, and waits for the end of the study."""
        self.send("rest")
        while not self._over.wait(0.2):
            pass

    def beat(self) -> None:
        """Sends a sign of life, with the rounds done and whether this process received a signal to stop."""
        self.send("beat", {"rounds": self.rounds, "stop": self.stopping})

    def close(self, status: int = 0, line: str = "") -> None:
        """Closes the connection. If the status is not 0, process 0 is told the reason first."""
        if self.closed:
            return
        self.closed = True
        if status:
            with contextlib.suppress(Gone):
                self._channel.send("bye", {"status": status, "line": line})
        self._channel.close()

    def _listen(self) -> None:
        try:
            while True:
                message = self._channel.receive()
                if message.kind == "bye":
                    break
                if message.kind == "beat":
                    self.ending |= message.fields["stop"]
                else:
                    self._inbox.put(message)
        except Gone as gone:
            self._leave(str(gone))
            return
        status, line = message.fields["status"], message.fields["line"]
        if status and not self.closed:
            self.closed = True
            abandon("stopped" if status == 130 else f"error: process 0: {' '.join(line.split())}", status)
        self.closed = True
        self._channel.close()
        self._over.set()

    def _leave(self, why: str) -> None:
        if not self.closed:
            self.closed = True
            abandon(f"error: process 0 is gone: it {why}; {_GOES_ON}")
