"""Messages between two processes over a socket: a JSON header and NumPy arrays. No received data is executed."""

import contextlib
import io
import json
import socket
import struct
import threading
import zipfile
from typing import Any, NamedTuple

import numpy as np

from mdfl_jax.experiments.results.files import dumps

Arrays = dict[str, np.ndarray]
_FRAME = struct.Struct("!8sIQ")  # mark, bytes of the header, bytes of the arrays
_MARK = b"mdfl_jax"
_HEAD_LIMIT = 2**26  # bytes; the longest header holds the configuration, some thousands of bytes


class Gone(Exception):  # noqa: N818
    """The other process is gone, or it does not follow this protocol. The text says why."""


class Message(NamedTuple):
    """A message from one process to another.

    Attributes:
      kind: The type of the message, such as 'beat' or 'result'.
      fields: A JSON tree.
      arrays: NumPy arrays by name.
    """

    kind: str
    fields: dict[str, Any]
    arrays: Arrays


class Channel:
    """One end of a connection. Several threads may send messages, but only one may receive them."""

    def __init__(self, connection: socket.socket, timeout: float):
        self._socket = connection
        self._sending = threading.Lock()
        self.timeout = timeout
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @property
    def timeout(self) -> float:
        """The seconds that the other end may take to send or to accept a single byte."""
        return self._socket.gettimeout() or 0.0

    @timeout.setter
    def timeout(self, seconds: float) -> None:
        self._socket.settimeout(seconds)

    def beat(self, fields: dict[str, Any]) -> None:
        """Sends a sign of life, unless another message is being sent, which is itself a sign of life.

        Raises:
          Gone: If it cannot be sent.
        """
        if not self._sending.locked():
            self.send("beat", fields)

    def send(self, kind: str, fields: dict[str, Any] | None = None, arrays: Arrays | None = None) -> None:
        """Sends a message.

        Args:
          kind: The type of the message.
          fields: A JSON tree.
          arrays: NumPy arrays by name, of any shape.

        Raises:
          Gone: If it cannot be sent.
        """
        head = dumps({"kind": kind, "fields": fields or {}}).encode()
        body = io.BytesIO()
        if arrays:
            np.savez(body, **arrays)  # type: ignore[arg-type]
        with self._sending:
            self._write(_FRAME.pack(_MARK, len(head), body.getbuffer().nbytes) + head)
            self._write(body.getbuffer())

    def receive(self) -> Message:
        """Waits for the next message and returns it.

        Raises:
          Gone: If none comes within the timeout, if the connection has ended, or if the data is no message.
        """
        mark, head_size, body_size = _FRAME.unpack(self._read(_FRAME.size))
        if mark != _MARK or head_size > _HEAD_LIMIT:
            raise Gone("has sent data that is no message of a study")
        try:
            head = json.loads(self._read(head_size))
            arrays: Arrays = {}
            if body_size:
                with np.load(io.BytesIO(self._read(body_size)), allow_pickle=False) as stored:
                    arrays = dict(stored)
            return Message(head["kind"], head["fields"], arrays)
        except (ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
            raise Gone("has sent data that is no message of a study") from error

    def close(self) -> None:
        """Closes the connection. Messages that were sent before still arrive."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _write(self, data: bytes | memoryview) -> None:
        left = memoryview(data)
        try:
            while left:
                left = left[self._socket.send(left) :]
        except OSError as error:
            raise self._gone(error) from error

    def _read(self, size: int) -> bytearray:
        data = bytearray(size)
        left = memoryview(data)
        try:
            while left:
                got = self._socket.recv_into(left)
                if not got:
                    raise Gone("has closed the connection")
                left = left[got:]
        except OSError as error:
            raise self._gone(error) from error
        return data

    def _gone(self, error: OSError) -> Gone:
        if isinstance(error, TimeoutError):
            return Gone(f"has given no sign of life for {self.timeout:g} s")
        return Gone("has closed the connection")
