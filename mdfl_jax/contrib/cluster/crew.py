"""Runs a study by several workers that one command starts: it shows their progress, and replaces those that are lost.

A worker is the same command once more in the same folder (`WORKER` tells it so): one of the processes that share the
runs of a folder (`mdfl_jax.study.workers`). So this module divides nothing and gathers nothing. It looks at the files
of the study as anybody may, and it is no fault if it dies: its workers save their states, and the same command goes on.

A place is where workers run: as processes of this machine, or on a cluster (`slurm`, `ray`). It starts
a worker, tells how it is, and cancels it: the worker then saves its state and ends. There is no more to a place.
Each worker runs at the end of a pipe that the process which has started it holds open. When the pipe closes, for
whatever reason, the worker saves its state and ends. So no signal has to reach it, and none outlives its place.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol, Self, TypeVar

from mdfl_jax.cli.common import end_in_words, error_in
from mdfl_jax.core import devices
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.registry import caller
from mdfl_jax.storage.study_files import METRICS_FILE, locked, run_files
from mdfl_jax.study.progress import Progress, ProgressTally
from mdfl_jax.study.runner import Interrupted
from mdfl_jax.study.signals import handled
from mdfl_jax.study.study import Study
from mdfl_jax.study.workers import CREWS, WORKER, Workers

_HOST_DEVICES = re.compile(r"--xla_force_host_platform_device_count=(\d+)")
_MEMORY = "XLA_PYTHON_CLIENT_MEM_FRACTION"
_ALONE = 0.75  # the share of a card's memory that JAX takes if nobody says otherwise


class Order(NamedTuple):
    """What a worker does: a command, in a folder, with variables beside those of the environment there."""

    command: list[str]
    folder: str
    variables: dict[str, str]


class State(NamedTuple):
    """How a worker is: its exit status, or None as long as it waits or works; and what it has said on standard error.

    The status of a worker that was lost without one is -1.
    """

    status: int | None
    said: str = ""


class Place(Protocol):
    """Where workers run. Making one checks the settings; it may start something as a context manager only.

    At its end, it ends whatever still runs, and removes what it has written.

    Attributes:
      words: What this place is, for the line of the plan.
    """

    words: str

    def start(self, number: int, order: Order) -> Any:
        """Start worker ``number``, counted from 0, and return what `poll` and `cancel` take."""

    def poll(self, job: Any) -> State:
        """Return how a worker is."""

    def cancel(self, job: Any) -> None:
        """Make a worker save its state and end."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


def shares(many: int) -> tuple[list[dict[str, str]], str]:
    """Return how workers of this machine share it.

    Args:
      many: The number of workers.

    Returns:
      For each worker the variables of its environment; and which devices they share, in words.

    Raises:
      UserError: If the machine has a TPU, whose chips one process uses.
    """
    cards, number = devices.cards(), lambda count, what: f"{count} {what}{'s' * (count != 1)}"
    if cards:
        held = [cards[k::many] or [cards[k % len(cards)]] for k in range(many)]
        found = [{"CUDA_VISIBLE_DEVICES": ",".join(mine)} for mine in held]
        on_one = -(-many // len(cards))
        if on_one > 1 and _MEMORY not in os.environ:
            found = [variables | {_MEMORY: f"{_ALONE / on_one:.2f}"} for variables in found]
        return found, number(len(cards), "card")
    flags = os.environ.get("XLA_FLAGS", "")
    given = _HOST_DEVICES.search(flags)
    all_devices = int(given[1] if given else os.environ.get("JAX_NUM_CPU_DEVICES") or devices.num_cores())
    parts = [all_devices // many + (k < all_devices % many) for k in range(many)]
    without = {"XLA_FLAGS": _HOST_DEVICES.sub("", flags)} if given else {}
    # A process with one device of the CPU rounds otherwise than one with several.
    found = [without | {"JAX_NUM_CPU_DEVICES": str(max(part, min(2, all_devices)))} for part in parts]
    return found, number(all_devices, "core")


LOST = 3  # workers that may be lost one after another without any progress between
LOOK = 0.5  # seconds from one look at the workers to the next
_PATIENCE = 60.0  # seconds that cancelled workers have to save their states


class TallyOfFiles(ProgressTally):
    """The numbers of a study that other processes run, from its files: the records of runs, and metrics.jsonl."""

    def __init__(self, study: Study, workdir: Path, clock: Callable[[], float] = time.monotonic):
        super().__init__(study, clock)
        self.workdir, self._read = workdir, 0
        self._begun: tuple[int, float] | None = None
        self._names = {(study.points[run.point].id, str(run.seed)): (run, study.name(run)) for run in study.runs}

    def look(self) -> None:
        """Look at the files."""
        for line in self._new_lines():
            found = self._names.get((str(line.get("point")), str(line.get("seed"))))
            if found and isinstance(line.get("round"), int):
                self.rounds_of[found[1]] = line["round"]
                self.note({found[0]: line})
        wanted = {name for _, name in self._names.values()}
        finished = [name for name, _ in run_files(self.workdir) if name in wanted]
        self.rounds_of |= dict.fromkeys(finished, self.study.experiment.rounds)
        self._finished = len(finished)
        if self._begun is None or self.done < self._begun[0]:  # the first look, or a lost worker's rounds count no more
            self._begun = self.done, self.clock()
        elif self.done > self._begun[0]:
            self.rate = (self.done - self._begun[0]) / max(self.clock() - self._begun[1], 1e-9)

    def _new_lines(self) -> Iterator[dict[str, Any]]:
        """Yield the lines of metrics.jsonl since the last look."""
        try:
            with open(self.workdir / METRICS_FILE, "rb") as file:
                self._read = 0 if self._read > file.seek(0, 2) else self._read  # a worker has begun it anew
                file.seek(self._read)
                new = file.read()
        except OSError:  # no worker has written a line yet
            return
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        for text in whole.splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if isinstance(line, dict):
                yield line

    def where(self) -> str:
        """Return how many runs have ended."""
        return f"{self._finished} of {self.num_runs} runs have ended"


class LocalCrew:
    """The workers of a study.

    Args:
      place: Where they run.
      many: The number of workers.
    """

    def __init__(self, place: Place, many: int):
        self.place, self.many, self.words = place, many, place.words
        self.command = [sys.executable, "-m", "mdfl_jax.cli.entry", "sweep", *sys.argv[1:]]  # the one that was started

    def __enter__(self) -> Self:
        self.place.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.place.__exit__(*error)

    def run(self, study: Study, workdir: Path, log: Callable[[str], None], shows: bool) -> None:
        """Run what is missing of a study. The place has been entered.

        Raises:
          Interrupted: On SIGINT, SIGTERM or SIGHUP. The workers have saved their states.
          UserError: What a worker says is wrong, or if too many workers were lost.
        """
        self.stopping, self.log, self.told = False, log, set[str]()
        tally = TallyOfFiles(study, workdir)
        with handled(self._stop, log), Progress(study, log, shows, tally=tally) as progress:
            self._watch(progress, tally)
        with locked(workdir):
            Workers(workdir).others()  # removes the files of those that were lost
        if self.stopping:
            raise Interrupted

    def _stop(self) -> None:
        self.stopping = True

    def _start(self, number: int) -> Any:
        variables = {WORKER: str(self.many)}
        return self.place.start(number, Order(self.command, os.getcwd(), variables))

    def _watch(self, progress: Progress, tally: TallyOfFiles) -> None:
        """Start the workers, and wait until all have ended."""
        jobs = {number: self._start(number) for number in range(self.many)}
        lost, done_before, until = 0, 0, float("inf")
        while jobs and time.monotonic() < until:
            time.sleep(LOOK)
            progress.count(tally.look)
            if self.stopping and until == float("inf"):
                until = time.monotonic() + _PATIENCE
                for job in jobs.values():
                    self.place.cancel(job)
            for number, job in list(jobs.items()):
                state = self.place.poll(job)
                self._pass_on(state)
                if state.status is None:
                    continue
                del jobs[number]
                if state.status == 0 or self.stopping:
                    continue
                if state.status == 2:
                    raise UserError(error_in(state.said) or "a worker has ended with status 2, and said nothing")
                lost = 1 if tally.done > done_before else lost + 1
                done_before = max(done_before, tally.done)
                why = f"worker {number + 1} was lost: {_why(state)}"
                if lost > LOST:
                    raise UserError(f"{why}; it is the last of {lost} that were lost without any progress between")
                self.log(f"{why}; another one takes its place")
                jobs[number] = self._start(number)

    def _pass_on(self, state: State) -> None:
        """Print what workers say while they work, each line once: that the disk is full, or where an error arose."""
        for line in state.said.splitlines() if state.status in (None, 1) else ():
            if line.strip() and not line.startswith(("mdfl_jax: ", "error: ")) and line not in self.told:
                self.told.add(line)
                self.log(line)


def _why(state: State) -> str:
    """Return in words how a worker was lost."""
    assert state.status is not None
    lines = [line.strip() for line in state.said.splitlines() if line.strip() and not line.startswith("mdfl_jax: ")]
    words = lines[-1][:300] if lines else ""
    if state.status == -1 and words:
        return words
    if state.status == 130:
        return "it was stopped from outside, and has saved its state"
    return f"it {end_in_words(state.status)}{f': {words}' if words and state.status > 0 else ''}"


P = TypeVar("P", bound=Callable[[int, Mapping[str, str], Path], Place])


def register_place(name: str) -> Callable[[P], P]:
    """Return a decorator that registers what makes a place, as `ThisMachine`, under a value of --on."""
    origin = caller()

    def add(kind: P) -> P:
        def crew(many: int, cluster: str, workdir: Path) -> LocalCrew:
            return LocalCrew(kind(many, parse_settings(cluster), workdir), many)

        CREWS.register(name, doc=kind.__doc__ or "", origin=origin)(crew)
        return kind

    return add


@register_place("here")
class ThisMachine:
    """Processes of this machine, which share its cores or its cards.

    Args:
      many: The number of workers.
      settings: Nothing, since there is nothing to set.
      workdir: The folder of the study.
    """

    def __init__(self, many: int, settings: Mapping[str, str], workdir: Path):
        self.variables, what = shares(many)
        fewer = ", several on one, by its memory" if 0 < len(devices.cards()) < many else ""
        self.words = f"{many} workers of this machine, which share {what}{fewer}"
        self._jobs: list[tuple[subprocess.Popen[bytes], IO[bytes]]] = []

    def start(self, number: int, order: Order) -> Any:
        """Start a process in a session of its own, which a terminal's Ctrl-C does not reach."""
        said = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed at the end of the place
        environment = {**os.environ, **order.variables, **self.variables[number]}
        streams: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": said}
        process = subprocess.Popen(order.command, cwd=order.folder, env=environment, start_new_session=True, **streams)
        self._jobs.append((process, said))
        return self._jobs[-1]

    def poll(self, job: Any) -> State:
        """Return how a process is."""
        process, said = job
        status = process.poll()
        return State(status, os.pread(said.fileno(), 2**20, 0).decode(errors="replace"))

    def cancel(self, job: Any) -> None:
        """Close the pipe of a process."""
        with contextlib.suppress(OSError):
            job[0].stdin.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for process, said in self._jobs:
            self.cancel((process, said))
            process.kill()
            process.wait()
            said.close()


def parse_settings(text: str) -> dict[str, str]:
    """Parse the settings of a cluster, key=value with commas between.

    Raises:
      UserError: If a part is no key=value.

    >>> parse_settings("partition=gpu, time=120")
    {'partition': 'gpu', 'time': '120'}
    """
    found = {}
    for part in filter(None, map(str.strip, text.split(","))):
        key, equals, value = map(str.strip, part.partition("="))
        if not re.fullmatch(r"\w+", key) or not equals or not value:
            raise UserError(f"--cluster={text}: {part!r} is no key=value, such as partition=gpu,time=120,cpus=4")
        found[key] = value
    return found
