"""Shows how far a running study is: a bar in a terminal or a notebook, else plain lines.

Nothing of it is in the compiled programs. The displays are refreshed at each evaluation, and once a second by a thread
of their own, so that a compilation of minutes is seen to be under way.
"""

import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol, Self

from tqdm.auto import tqdm

from mdfl_jax.study.events import Compiling, Event
from mdfl_jax.study.study import Study
from mdfl_jax.study.tally import Tally

TICK = 1.0  # seconds between two refreshments without an event
LINE_EVERY = 30.0  # seconds between two plain lines, at least
QUIET = 1.0  # seconds that a program may be compiled without a line
FORMAT = "{l_bar}{bar}| {n_fmt}/{total_fmt} rounds [{elapsed}{postfix}]"


class _Display(Protocol):
    def show(self, event: Event | None) -> None:
        """Show the tally after an event, or after a second without one (None)."""

    def close(self) -> None:
        """End the display."""


class _Bar:
    """A bar in a terminal, with a line below it for the accuracies; in a notebook, the bar has them itself."""

    def __init__(self, tally: Tally, bar: Any):
        self.tally, self.bar = tally, bar
        # Without ipywidgets a notebook has the bar of a terminal, but it cannot go back to an earlier line.
        self.is_notebook = hasattr(bar, "container") or type(sys.stderr).__module__.startswith("ipykernel")
        self.line = None if self.is_notebook else tqdm(bar_format="{desc}", position=1, leave=False, dynamic_ncols=True)

    def show(self, event: Event | None) -> None:
        """Refresh both. A notebook is not sent a message a second unless a program is compiled."""
        tally = self.tally
        if self.is_notebook and event is None and not tally.compiling:
            return
        parts = [tally.compiling or tally.speed()]
        if self.line is None:
            parts.append("" if tally.compiling else tally.values())
        else:
            self.line.set_description_str((tally.names() if tally.compiling else tally.values()), refresh=True)
        self.bar.n = tally.done
        self.bar.set_postfix_str(", ".join(filter(None, parts)), refresh=True)

    def close(self) -> None:
        """Leave the bar and remove the line, since the table has its values."""
        if self.line is not None:
            self.line.close()
        self.bar.close()


class _Lines:
    """Plain lines, for files and pipes: at an evaluation, but not more than one in half a minute."""

    def __init__(self, tally: Tally, log: Callable[[str], None], clock: Callable[[], float]):
        self.tally, self.log, self.clock = tally, log, clock
        self.said = clock()
        self.named = 0  # the program whose compilation was told

    def show(self, event: Event | None) -> None:
        """Print a line if it is time for one."""
        now, tally = self.clock(), self.tally
        if (since := tally.compiling_since) is not None:
            if self.named != tally.program and now - since >= QUIET:
                self.named = tally.program
                self._say(f"compiling program {tally.program} of {tally.programs} ({tally.names()}) ...")
            elif now - self.said >= LINE_EVERY and now - since >= LINE_EVERY:
                self._say(tally.compiling)
        elif event is not None and not isinstance(event, Compiling) and now - self.said >= LINE_EVERY and tally.speed():
            part = f"{100 * tally.done / tally.total:.0f} %"
            where = f"round {tally.round:,} of {tally.study.experiment.rounds:,}, program {tally.program} of "
            self._say(f"{part}: {where}{tally.programs}; {tally.values()}; {tally.speed()}")

    def _say(self, line: str) -> None:
        self.said = self.clock()
        self.log(line)

    def close(self) -> None:
        """Print nothing: the table follows."""


class Progress:
    """The sink that shows the progress of a study.

    Args:
      study: The study.
      log: A function that takes lines for the user, where there is neither a terminal nor a notebook.
      shown: Whether to show anything.
      clock: A function that returns seconds.
    """

    def __init__(
        self,
        study: Study,
        log: Callable[[str], None],
        shown: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.log, self.shown, self.clock = log, shown, clock
        self.tally = Tally(study, clock)
        self.display: _Display | None = None
        self.lock, self.over = threading.Lock(), threading.Event()

    def take(self, event: Event) -> None:
        """Count an event and show it."""
        if self.display is not None:
            with self.lock:
                self.tally.take(event)
                self.display.show(event)

    def __enter__(self) -> Self:
        if self.shown:
            bar = tqdm(total=self.tally.total, bar_format=FORMAT, disable=None, dynamic_ncols=True)
            self.display = _Lines(self.tally, self.log, self.clock) if bar.disable else _Bar(self.tally, bar)
            self.ticker = threading.Thread(target=self._tick, name="progress", daemon=True)
            self.ticker.start()
        return self

    def _tick(self) -> None:
        while not self.over.wait(TICK):
            with self.lock:
                if self.display is not None and not self.over.is_set():
                    self.display.show(None)

    def __exit__(self, *error: object) -> None:
        self.over.set()
        if self.display is not None:
            self.ticker.join()
            self.display.close()
