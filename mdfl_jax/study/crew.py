"""Runs a study by several workers that one command starts: it shows their progress, and replaces those that are lost.

A worker is the same command once more (`WORKER` tells it so): one of the processes that share the runs of a folder
(`mdfl_jax.study.workers`). So this module divides nothing and gathers nothing. It looks at the files of the study as
anybody may, and it is no fault if it dies: its workers save their states, and the same command goes on.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mdfl_jax.core.errors import UserError
from mdfl_jax.storage.study_files import locked
from mdfl_jax.study.places import Order, Place, State
from mdfl_jax.study.progress import Looked, Progress, TallyOfFiles
from mdfl_jax.study.runner import Interrupted
from mdfl_jax.study.signals import handled
from mdfl_jax.study.study import Study
from mdfl_jax.study.workers import Workers

WORKER = "MDFL_JAX_WORKER"  # the variable of a worker: how many there are, and `Place.beside`
MOST = 1000  # workers
LOST = 3  # workers that may be lost one after another without any progress between
LOOK = 0.5  # seconds from one look at the workers to the next
PATIENCE = 60.0  # seconds that cancelled workers have to save their states


class Crew:
    """The workers of a study.

    Args:
      place: Where they run.
      many: The number of workers.
      command: The command of each.
    """

    def __init__(self, place: Place, many: int, command: list[str]):
        self.place, self.many, self.command = place, many, command

    def run(self, study: Study, workdir: Path, log: Callable[[str], None], shows: bool) -> None:
        """Run what is missing of a study. The place has been entered.

        Args:
          study: The study.
          workdir: Its folder.
          log: A function that takes lines for the user.
          shows: Whether to show the progress.

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
        variables = {WORKER: f"{self.many}:{self.place.beside}"}
        return self.place.start(number, Order(self.command, os.getcwd(), variables))

    def _watch(self, progress: Progress, tally: TallyOfFiles) -> None:
        """Start the workers, and wait until all have ended."""
        jobs = {number: self._start(number) for number in range(self.many)}
        lost, done_before, until = 0, 0, float("inf")
        while jobs and time.monotonic() < until:
            time.sleep(LOOK)
            progress.take(Looked())
            if self.stopping and until == float("inf"):
                until = time.monotonic() + PATIENCE
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


def error_in(said: str) -> str:
    """Return the last error line of a command that has ended with status 2; "" if it has said none."""
    lines = [line for line in said.splitlines() if line.startswith("error: ")]
    return lines[-1].removeprefix("error: ") if lines else ""


def end_in_words(status: int) -> str:
    """Return in words with which status a process ended, or by which signal."""
    if status >= 0:
        return f"ended with status {status}"
    memory = ", as where the machine's memory does not suffice" if status == -signal.SIGKILL else ""
    return f"was ended by {signal.Signals(-status).name}{memory}"


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


def command() -> list[str]:
    """Return the command of a worker: the one that was started."""
    program = ["mdfl_jax.cli.entry", "sweep"] if sys.argv[0].startswith("mdfl ") else ["launch.sweep"]
    return [sys.executable, "-m", *program, *sys.argv[1:]]


def as_worker() -> tuple[int, int] | None:
    """Return how many workers there are and `Place.beside`, if this process is one of them; else None.

    A worker ends as by SIGTERM when its standard input ends, since then nobody waits for it any more.
    """
    if WORKER not in os.environ:
        return None
    many, beside = os.environ[WORKER].split(":")

    def until_the_end() -> None:
        while os.read(0, 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=until_the_end, name="pipe", daemon=True).start()
    return int(many), int(beside)
