"""Shows the page of a study that still runs in a browser of this machine, and refreshes it when its files change.

The server listens on the loopback address only, and answers only requests that name this address or localhost as their
host: a page of another site, whose name an attacker lets point to 127.0.0.1, is refused (DNS rebinding). The page is
made again only while a browser shows it, and only after a file has changed.
"""

import json
import sys
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from mdfl_jax.core.errors import UserError

ADDRESS = "127.0.0.1"
LIVE = Path(__file__).parent / "assets" / "live.js"  # the part of the page that asks for its version
CHECK_EVERY = 1.0  # seconds between two checks whether the files have changed
WATCHED = 20.0  # seconds after its last question for which a browser counts as showing the page
REST = 5.0  # seconds between two pages, at least
SHARE = 0.2  # of the time that may be spent on making the page, which takes time from the study
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class LivePage:
    """A page that is made again when the files that it shows have changed.

    Args:
      make: A function that returns the page as HTML.
      watched: A function that returns the files that the page shows. A file may be absent.

    Attributes:
      version: The time at which the page was made, in milliseconds since 1970; 0 if it was not made yet. Unlike a
        count, it also differs from the versions of a server that ran before.
      error: Why the page could not be made the last time, in one line; "" if it could.
    """

    def __init__(self, make: Callable[[], str], watched: Callable[[], list[Path]]):
        self._make, self._watched = make, watched
        self.version, self.error, self.html = 0, "", b""
        self._seen: Any = None
        self._ready_at = self._asked_at = 0.0

    def make(self) -> None:
        """Make the page. If the study's files cannot be read just now, the page stays as it is.

        Raises:
          Exception: From ``make``, if there is no page yet.
        """
        begin, seen = time.monotonic(), self._state()
        try:
            html, version = self._make(), max(time.time_ns() // 10**6, self.version + 1)
        except Exception as error:  # the files of a running study change under the reader's hands
            if not self.version:
                raise
            before, self.error = self.error, " ".join(f"{error}".split()) or type(error).__name__
            if self.error != before:
                print(f"the page stays as it was: {self.error}", file=sys.stderr, flush=True)
        else:
            self.html, self.error, self.version = with_script(html, version).encode("utf-8"), "", version
        self._seen = seen
        now = time.monotonic()
        self._ready_at = now + max(REST, (now - begin) * (1 / SHARE - 1))

    def asked(self) -> dict[str, Any]:
        """Return what a browser that shows the page asks for: the version, and the error if there is one."""
        self._asked_at = time.monotonic()
        return {"version": self.version, "error": self.error}

    def make_if_due(self) -> bool:
        """Make the page if a browser shows it, a file has changed, and the last time is long enough ago.

        Return whether it has tried to make the page.
        """
        now = time.monotonic()
        if now - self._asked_at > WATCHED or now < self._ready_at or self._state() == self._seen:
            return False
        self.make()
        return True

    def _state(self) -> list[tuple[str, int, int]]:
        """Return the path, the time of the last change and the size of each file that is there."""
        found = []
        for path in self._watched():
            try:
                status = path.stat()
            except OSError:
                continue
            found.append((str(path), status.st_mtime_ns, status.st_size))
        return found


def with_script(html: str, version: int) -> str:
    """Return a page with the script that asks the server for its version."""
    script = f'<script data-version="{version}">{LIVE.read_text(encoding="utf-8")}</script>'
    before, end, after = html.rpartition("</body>")
    return f"{before}{script}{end}{after}" if end else html + script


class _Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD of the page and of its version, and nothing else."""

    protocol_version = "HTTP/1.1"
    server: "_Server"

    def do_GET(self) -> None:
        """Answer with the page at /, and with its version at /version."""
        host = self.headers.get("Host", "").lower()
        if host not in self.server.hosts:
            self._send(HTTPStatus.FORBIDDEN, b"this server answers requests to its own address only\n", "text/plain")
        elif self.path.partition("?")[0] == "/":
            self.server.page.asked()
            self._send(HTTPStatus.OK, self.server.page.html, "text/html; charset=utf-8")
        elif self.path == "/version":
            self._send(HTTPStatus.OK, json.dumps(self.server.page.asked()).encode(), "application/json")
        elif self.path == "/favicon.ico":
            self._send(HTTPStatus.NO_CONTENT, b"", "image/x-icon")
        else:
            self._send(HTTPStatus.NOT_FOUND, b"there is only the page / and its /version\n", "text/plain")

    do_HEAD = do_GET  # noqa: N815

    def _send(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        if status != HTTPStatus.NO_CONTENT:
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Print nothing for a request."""


class _Server(ThreadingHTTPServer):
    """A server on the loopback address, whose threads end with the process.

    Attributes:
      page: The page that it shows.
      hosts: The values of the header Host that it answers.
    """

    daemon_threads = True

    def __init__(self, page: LivePage, port: int):
        super().__init__((ADDRESS, port), _Handler)
        self.page = page
        names = {ADDRESS, "localhost"}
        without_port = names if self.server_port == 80 else set()
        self.hosts = {f"{name}:{self.server_port}" for name in names} | without_port

    def handle_error(self, *args: Any) -> None:
        """Ignore a browser that has closed its connection."""


def serve(make: Callable[[], str], watched: Callable[[], list[Path]], port: int) -> None:
    """Show a page on the loopback address until Ctrl-C, and make it again when its files change.

    The address is printed when the page is ready.

    Args:
      make: A function that returns the page as HTML. It is called in this thread.
      watched: A function that returns the files that the page shows.
      port: The port; 0 takes any free one.

    Raises:
      UserError: If the port is occupied or cannot be used, before anything is made.
      Exception: From the first call of ``make``.
    """
    page = LivePage(make, watched)
    try:
        server = _Server(page, port)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or "a port is a number from 0 to 65535"
        raise UserError(f"--serve={port}: {why[:1].lower()}{why[1:]}; 0 takes any free port") from error
    answering = threading.Thread(target=server.serve_forever, name="serve", daemon=True)
    with server:
        try:
            page.make()
            answering.start()
            print(f"http://{ADDRESS}:{server.server_port}/ shows the report and follows its files; Ctrl-C ends this",
                  flush=True)  # fmt: skip
            while True:
                time.sleep(CHECK_EVERY)
                page.make_if_due()
        except KeyboardInterrupt:
            return
        finally:
            if answering.is_alive():
                server.shutdown()
