"""SIGKILL at any moment, and at each call that writes: the same command goes on to the results of one left alone."""

import contextlib
import json
import os
import random
import re
import shutil
import signal
import time

import pytest
from forked import Started
from made_study import made

from tests.attack.harness import GROWN, KILLED, SMALL, calls_of, lose_power, results, sizes, sweep, verdict

LONG = ("--config.rounds=40", "--config.eval_every=2")  # enough evaluations that half of the kills meet one


def of_workers(folder):
    """Kill the workers of a folder whose command was killed: on a machine that fails, all end."""
    for path in folder.glob("workers/*.json"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            os.kill(json.loads(path.read_text())["process"], signal.SIGKILL)


@pytest.mark.parametrize(
    ("kind", "kills"),
    [
        pytest.param("one process", 3, marks=pytest.mark.long),
        pytest.param("one process", 200, marks=pytest.mark.faults),
        pytest.param("two workers", 50, marks=pytest.mark.faults),
        pytest.param("two commands", 80, marks=pytest.mark.faults),
    ],
)
def test_studies_that_are_killed_at_random_moments(tally, study, undisturbed, tmp_path, seed, kind, kills):
    """Each is killed until it is finished, some after they were stopped for a while."""
    reference, draw = undisturbed(*LONG)[1], random.Random(seed)
    killed, longest, folder = 0, 4.0, tmp_path / "run"
    words = sweep(study, *LONG, *["--workers=2"] * (kind == "two workers"))
    while killed < kills:
        own = 0
        while True:
            begun = time.monotonic()
            commands = [Started(tmp_path / "log", *words(folder)) for _ in range(1 + (kind == "two commands"))]
            commands[0].wait(draw.uniform(0, longest) if killed < kills else 120)
            if draw.random() < 0.3 and killed < kills:
                commands[-1].kill(signal.SIGSTOP)
                time.sleep(draw.uniform(0, 0.5))
                commands[-1].kill(signal.SIGCONT)
            for command in draw.sample(commands, len(commands)):
                command.kill()
            of_workers(folder)
            every = [command.ended() for command in commands]
            ended = next((each for each in every if each.status != KILLED), None)
            if ended and len(every) > 1 and ended.status == 0:  # its fellow was killed: the next command tidies up
                ended = Started(tmp_path / "log", *words(folder)).ended()
            if ended:
                break
            killed, own = killed + 1, own + 1
        longest = max(0.5, min(longest, 1.2 * (time.monotonic() - begun))) if not own else longest
        for _ in range(max(1, own)):
            tally.add(f"kill at a random moment of {kind}", verdict(ended, folder, reference), f"{own} kills of this")
        shutil.rmtree(folder)
    tally.check(kills)


def chosen(calls):
    """The numbers of the first and the last of the calls of each name, where numbers and digests in names are alike."""
    alike = [re.sub(r"[0-9a-f]{16}|\d+", "#", call) for call in calls]
    last = {name: number for number, name in enumerate(alike, 1)}
    first = {name: number for number, name in reversed(list(enumerate(alike, 1)))}
    return sorted({*first.values(), *last.values()})


@pytest.mark.parametrize(
    ("first", "every"), [pytest.param(30, 60, marks=pytest.mark.long), pytest.param(0, 1, marks=pytest.mark.faults)]
)
@pytest.mark.parametrize("kind", ["study", "growth", "overwriting", "merge", "report"])
def test_commands_that_are_killed_at_each_write(tally, study, undisturbed, tmp_path, seed, kind, first, every):
    """At the first and the last call of each name, and the command is started again, also after a loss of power."""
    folder, parts = tmp_path / "run", tmp_path / "parts"
    for seed, name in enumerate(("one", "two")):
        made(parts / name, sweep="network.mobility=static,dcm", seeds=1, first_seed=seed)
    words = {
        "study": sweep(study, *SMALL),
        "growth": sweep(study, *GROWN),
        "overwriting": sweep(study, *SMALL, "--overwrite"),
        "merge": lambda out: ("merge", parts / "one", parts / "two", f"--workdir={out}", "--noreport"),
        "report": lambda folder: ("report", folder),
    }[kind]
    before = {"growth": SMALL, "report": SMALL, "overwriting": GROWN}
    source = undisturbed(*before[kind])[0] if kind in before else None

    def go(die_at=0):
        shutil.rmtree(folder, ignore_errors=True)
        if source:
            shutil.copytree(source, folder)
        return sizes(folder), *calls_of(folder, tmp_path, words(folder), die_at)

    _, ended, calls = go()
    assert ended.status == 0, ended
    reference = results(folder)
    assert {"open", "write", "rename", "remove"} <= {call.split()[0] for call in calls}
    numbers = chosen(calls)[first :: every * (6 if kind == "report" else 1)]
    for number in numbers:
        for what in ("kill", "loss of power"):
            before, killed, until = go(number)
            assert killed.status == KILLED, (number, killed)
            if what != "kill":
                lose_power(folder, tmp_path, before, random.Random(seed + number))
            again = Started(tmp_path / "log", *words(folder)).ended()
            tally.add(
                f"{what} at a write of a {kind}", verdict(again, folder, reference), f"call {number}, {until[-1]}"
            )
    tally.check(min(len(numbers), 1))
