"""Writes the page of a study that still runs again and again, until it has finished.

The page of an unfinished study loads itself anew every few seconds, so that a browser in which its file is open shows
what the study has reached. It needs no server. The finished page does not reload itself.
"""

import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path

from mdfl_jax.results.unfinished import NotYetError
from mdfl_jax.storage import disk

RELOADS = Path(__file__).parent / "assets" / "follow.js"  # the part of the page that loads it anew
CHECK_EVERY = 1.0  # seconds between two checks whether the files have changed
REST = 5.0  # seconds between two pages, at least
_SHARE = 0.2  # of the time that may be spent on making the page, which takes time from the study


def with_script(html: str) -> str:
    """Return a page with the script that loads it anew."""
    before, end, after = html.rpartition("</body>")
    return f"{before}<script>{RELOADS.read_text(encoding='utf-8')}</script>{end}{after}"


def keep_page(make: Callable[[], tuple[str, bool]], watched: Callable[[], list[Path]], path: Path) -> None:
    """Write a page when the files that it shows have changed, until it is the last one, or until Ctrl-C.

    Before there is anything to show, nothing is written: a study begins in an empty folder. If the files cannot be read
    just now, as those of a running study, the page stays as it is. A line says why in both cases.

    Args:
      make: () -> (the page as HTML, whether it is the last one).
      watched: () -> the files that the page shows. A file may be absent.
      path: the file of the page.

    Raises:
      Exception: from ``make``, before there is a page, unless it is a `NotYetError`.
      OSError: if the page cannot be written.
    """
    said, written = "", False
    try:
        while True:
            begin, seen = time.monotonic(), _state(watched())
            try:
                html, last = make()
            except Exception as error:
                if not written and not isinstance(error, NotYetError):
                    raise
                why = " ".join(f"{error}".split()) or type(error).__name__
                if why != said:
                    print(f"the page {'stays as it was' if written else 'waits'}: {why}", file=sys.stderr, flush=True)
                said = why
            else:
                path.parent.mkdir(exist_ok=True)  # of a comparison
                disk.write_text(path, html if last else with_script(html))
                if not written:
                    print(path, flush=True)
                if last:
                    return
                said, written = "", True
            time.sleep(max(REST, (time.monotonic() - begin) * (1 / _SHARE - 1)))
            while _state(watched()) == seen:
                time.sleep(CHECK_EVERY)
    except KeyboardInterrupt:
        return


def _state(files: list[Path]) -> list[tuple[Path, int, int]]:
    """Return the path, the time of the last change and the size of each file that is there."""
    with contextlib.suppress(FileNotFoundError):  # one that has just been removed has changed
        there = [(path, path.stat()) for path in files if path.exists()]
        return [(path, status.st_mtime_ns, status.st_size) for path, status in there]
    return []
