"""How far a running study is: counted by `ProgressTally` and shown by `Progress`.

The display is a bar in a terminal or a notebook, else plain lines. Nothing of it is in the compiled programs. It is
refreshed at each evaluation, and once a second by a thread of its own, so that a compilation of minutes is seen to be
under way.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Self

import numpy as np
from tqdm.auto import tqdm

from mdfl_jax.core.outcomes import judged_key
from mdfl_jax.metrics import BUILT_IN
from mdfl_jax.study.events import Compiling, Ended, Evaluated, Event, Found, Sink
from mdfl_jax.study.study import Run, Study

_FEW = 6  # points whose values are all shown; of more points, only the best one and the baseline are


def few_of(ids: Sequence[str]) -> str:
    """Return the ids of points in words, shortened if they are many."""
    return "; ".join(ids[:_FEW]) + (f"; and {len(ids) - _FEW} more" if len(ids) > _FEW else "")


class ProgressTally:
    """The numbers that a display of the progress shows. It takes the events of a study.

    Rounds are counted over all runs: 4 runs of 100 rounds have 400. Rounds that an earlier process has done count as
    done, but not for the speed.

    Attributes:
      total: The rounds of all runs.
      round: The last evaluated round of the runs that are on the devices.
      at_once: How many runs these are.
      programs: The number of compiled programs.
      program: The number of the present program, counted from 1; 0 before the first.
      compiling_since: The time at which the compilation under way has begun, or None.
      rounds_of: The rounds that each run has done, by the name of the run.
      rate: The rounds per second of the present program, or of the one before while there are none; NaN at first.
    """

    def __init__(self, study: Study, clock: Callable[[], float] = time.monotonic):
        self.study, self.clock = study, clock
        self.groups = study.groups
        self.programs, self.program, self.round, self.at_once = len(self.groups), 0, 0, 0
        self.num_runs = len({study.name(run) for run in study.runs})
        self.total = study.experiment.rounds * self.num_runs
        self.compiling_since: float | None = None
        self.compile_seconds: list[float] = []
        self.rounds_of: dict[str, int] = {}
        self._here = (0, 0.0)  # rounds and seconds of the present program in this process
        self.rate = math.nan
        self._since = clock()
        self.shown = ""  # what says how good the models are: a name of `_keys`
        self._values: dict[Run, float] = {}
        keys = {metric.name: metric.in_files for metric in BUILT_IN}
        self._keys = {"accuracy": judged_key(vars(study.experiment))}
        self._keys |= {"objective": keys["objective"], "loss": keys["mean_model_loss"]}

    def take(self, event: Event) -> None:
        """Count an event."""
        match event:
            case Compiling(batch):
                self.program = 1 + next(k for k, group in enumerate(self.groups) if group is batch.group)
                self.compiling_since, self._here = self.clock(), (0, 0.0)
            case Evaluated():
                self._evaluated(event)
            case Ended(batch):
                self.rounds_of |= dict.fromkeys(map(self.study.name, batch.runs), self.study.experiment.rounds)
            case Found(run):
                self.rounds_of[self.study.name(run)] = self.study.experiment.rounds

    def _evaluated(self, event: Evaluated) -> None:
        now, runs = self.clock(), event.batch.runs
        if not event.rounds and self.compiling_since is not None:
            self.compile_seconds.append(now - self.compiling_since)
            self.compiling_since = None
        if event.rounds:
            rounds, seconds = self._here
            self._here = rounds + event.rounds * len(runs), seconds + now - self._since
            self.rate = self._here[0] / max(self._here[1], 1e-9)
        self._since = now
        self.round, self.at_once = int(event.metrics.round[0, -1]), len(runs)
        self.rounds_of |= dict.fromkeys(map(self.study.name, runs), self.round)
        self.note({run: of_run[-1] for run, of_run in zip(runs, event.lines)})

    def note(self, lines: Mapping[Run, Mapping[str, Any]]) -> None:
        """Note the value of the latest lines of some runs that says how good the models are.

        It is the accuracy. A task without one has an objective or a loss.
        """
        number = lambda value: float(value) if isinstance(value, int | float) else math.nan  # noqa: E731
        for name, key in self._keys.items():
            values = {run: number(line.get(key)) for run, line in lines.items()}
            if not all(map(math.isnan, values.values())) or name == self.shown:  # else all of these runs have diverged
                self._values = values if name != self.shown else self._values | values
                self.shown = name
                break

    @property
    def done(self) -> int:
        """The rounds that are done, of all runs."""
        return sum(self.rounds_of.values())

    @property
    def seconds_left(self) -> float:
        """The estimated seconds until the end, with the compilations that are still to come; NaN if unknown."""
        to_compile = self.programs - self.program
        compiling = to_compile * float(np.mean(self.compile_seconds)) if to_compile and self.compile_seconds else 0.0
        return (self.total - self.done) / self.rate + compiling

    @property
    def compiling(self) -> str:
        """Which program is being compiled, and for how long; '' while none is."""
        if self.compiling_since is None:
            return ""
        return f"compiling program {self.program} of {self.programs}: {self.clock() - self.compiling_since:.0f} s"

    def where(self) -> str:
        """Return in words where the study is."""
        runs = f"{self.at_once} of {self.num_runs} run{'s' if self.num_runs > 1 else ''}"
        at = f"round {self.round:,} of {self.study.experiment.rounds:,}"
        return f"{runs} at {at}, program {self.program} of {self.programs}"

    def names(self) -> str:
        """Return the points of the present program, shortened if they are many."""
        return few_of([self.study.points[p].id for p in self.groups[self.program - 1].points] if self.program else [])

    def speed(self) -> str:
        """Return the rounds per second and the time left in words; '' before the first round."""
        if math.isnan(self.rate):
            return ""
        each = f"{self.rate:,.0f} rounds/s" if self.rate >= 10 else f"{self.rate:.2g} rounds/s"
        return f"{each}, {duration(self.seconds_left)} left"

    def values(self) -> str:
        """Return the latest accuracy of each point in words, or of the best one and the baseline of many points."""
        of_points: dict[int, list[float]] = {}
        for run, value in sorted(self._values.items()):
            of_points.setdefault(run.point, []).extend([] if math.isnan(value) else [value])
        found = {point: float(np.mean(values)) if values else math.nan for point, values in of_points.items()}
        if not found:
            return ""
        if len(self.study.points) <= _FEW:
            listed = ", ".join(self._value(point, value) for point, value in found.items())
        else:
            listed = "; ".join(self._of_many(found))
        return f"{self.shown}{' (%)' if self.shown == 'accuracy' else ''}: {listed}"

    def _of_many(self, found: dict[int, float]) -> Iterator[str]:
        known = {point: value for point, value in found.items() if not math.isnan(value)}
        if known:
            best = (max if self.shown == "accuracy" else min)(known, key=lambda point: known[point])
            yield f"best {self._value(best, known[best])}"
        for point in dict.fromkeys(p for p in self.study.baselines if p is not None):
            if point in found:
                yield f"baseline {self._value(point, found[point])}"
                break
        yield f"{len(found)} of {len(self.study.points)} points"

    def _value(self, point: int, value: float) -> str:
        text = f"{100 * value:.1f}" if self.shown == "accuracy" else f"{value:.4g}"
        text = "diverged" if math.isnan(value) else text
        return f"{self.study.points[point].id} {text}"


def duration(seconds: float) -> str:
    """Return a duration in words, in its two largest units.

    >>> [duration(seconds) for seconds in (0.4, 80, 3_720, 200_000)]
    ['0 s', '1 min 20 s', '1 h 2 min', '2 d 7 h']
    """
    left, parts = round(seconds), []
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, left = divmod(left, size)
        parts.append(f"{count} {unit}" if count else "")
    first = next((i for i, part in enumerate(parts) if part), len(parts) - 1)
    return " ".join(filter(None, parts[first : first + 2])) or "0 s"


TICK = 1.0  # seconds between two refreshments without an event
LINE_EVERY = 30.0  # seconds between two plain lines, at least
QUIET = 1.0  # seconds that a program may be compiled without a line
_FORMAT = "{l_bar}{bar}| {n_fmt}/{total_fmt} rounds [{elapsed}{postfix}]"


class _Bar:
    """A bar in a terminal or in a notebook, with the accuracies behind it."""

    def __init__(self, tally: ProgressTally, bar: Any):
        self.tally, self.bar = tally, bar

    def show(self, has_news: bool) -> None:
        """Refresh the bar."""
        tally = self.tally
        self.bar.n = tally.done
        told = [tally.compiling] if tally.compiling else filter(None, (tally.speed(), tally.values()))
        self.bar.set_postfix_str(", ".join(told), refresh=True)

    def close(self) -> None:
        """Leave the bar."""
        self.bar.close()


class _Lines:
    """Plain lines, for files and pipes: at an evaluation, but not more than one in half a minute."""

    def __init__(self, tally: ProgressTally, log: Callable[[str], None], clock: Callable[[], float]):
        self.tally, self.log, self.clock = tally, log, clock
        self.said = clock()
        self.named = 0  # the program whose compilation was told

    def show(self, has_news: bool) -> None:
        """Print a line if it is time for one."""
        now, tally = self.clock(), self.tally
        if (since := tally.compiling_since) is not None:
            if self.named != tally.program and now - since >= QUIET:
                self.named = tally.program
                self._say(f"compiling program {tally.program} of {tally.programs} ({tally.names()}) ...")
            elif now - self.said >= LINE_EVERY and now - since >= LINE_EVERY:
                self._say(tally.compiling)
        elif has_news and now - self.said >= LINE_EVERY and tally.speed():
            part = f"{100 * tally.done / tally.total:.0f} %"
            self._say(f"{part}: {'; '.join(filter(None, (tally.where(), tally.values(), tally.speed())))}")

    def _say(self, line: str) -> None:
        self.said = self.clock()
        self.log(line)

    def close(self) -> None:
        """Print nothing: the table follows."""


class Progress(Sink):
    """The sink that shows the progress of a study.

    Args:
      study: The study.
      log: A function that takes lines for the user, where there is neither a terminal nor a notebook.
      shown: Whether to show anything.
      clock: A function that returns seconds.
      tally: What counts; None: a `ProgressTally` of the events.
    """

    def __init__(
        self,
        study: Study,
        log: Callable[[str], None],
        shown: bool = True,
        clock: Callable[[], float] = time.monotonic,
        tally: ProgressTally | None = None,
    ):
        self.log, self.shown, self.clock = log, shown, clock
        self.tally = tally or ProgressTally(study, clock)
        self.display: _Bar | _Lines | None = None
        self.lock, self.over = threading.Lock(), threading.Event()

    def take(self, event: Event) -> None:
        """Count an event and show it."""
        self.count(partial(self.tally.take, event))

    def count(self, count: Callable[[], None]) -> None:
        """Call what counts, and show the tally."""
        if self.display is not None:
            with self.lock:
                count()
                self.display.show(True)

    def __enter__(self) -> Self:
        if self.shown:
            bar = tqdm(total=self.tally.total, bar_format=_FORMAT, disable=None, dynamic_ncols=True)
            self.display = _Lines(self.tally, self.log, self.clock) if bar.disable else _Bar(self.tally, bar)
            self.ticker = threading.Thread(target=self._tick, name="progress", daemon=True)
            self.ticker.start()
        return self

    def _tick(self) -> None:
        while not self.over.wait(TICK):
            with self.lock:
                if self.display is not None and not self.over.is_set():
                    self.display.show(False)

    def __exit__(self, *error: object) -> None:
        self.over.set()
        if self.display is not None:
            self.ticker.join()
            self.display.close()
