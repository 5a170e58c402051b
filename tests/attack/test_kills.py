"""SIGKILL at any moment, and at each call that writes: the same command goes on to the results of one left alone."""

import random
import re
import shutil
import time

import pytest
from forked import Started
from made_study import made

from tests.attack.harness import GROWN, KILLED, SMALL, calls_of, results, sweep, verdict

LONG = ("--config.rounds=40", "--config.eval_every=2")  # enough evaluations that half of the kills meet one


@pytest.mark.parametrize(
    "kills", [pytest.param(3, marks=pytest.mark.long), pytest.param(200, marks=pytest.mark.faults)]
)
def test_studies_that_are_killed_at_random_moments(tally, study, undisturbed, tmp_path, seed, kills):
    """Each is killed until it is finished. `make faults` kills two hundred times."""
    reference, draw = undisturbed(*LONG)[1], random.Random(seed)
    killed, longest, folder = 0, 4.0, tmp_path / "run"
    while killed < kills:
        own = 0
        while True:
            begun = time.monotonic()
            command = Started(tmp_path / "log", *sweep(study, *LONG)(folder))
            command.wait(draw.uniform(0, longest) if killed < kills else 120)
            command.kill()
            if (ended := command.ended()).status != KILLED:
                break
            killed, own = killed + 1, own + 1
        longest = max(0.5, min(longest, 1.2 * (time.monotonic() - begun))) if not own else longest
        for _ in range(max(1, own)):
            tally.add("kill at a random moment", verdict(ended, folder, reference), f"{own} kills of this study")
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
def test_commands_that_are_killed_at_each_write(tally, study, undisturbed, tmp_path, kind, first, every):
    """At the first and the last call of each name, and the command is started again."""
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
        return calls_of(folder, tmp_path, words(folder), die_at)

    ended, calls = go()
    assert ended.status == 0, ended
    reference = results(folder)
    assert {"open", "write", "rename", "remove"} <= {call.split()[0] for call in calls}
    numbers = chosen(calls)[first :: every * (6 if kind == "report" else 1)]
    for number in numbers:
        killed, until = go(number)
        assert killed.status == KILLED, (number, killed)
        again = Started(tmp_path / "log", *words(folder)).ended()
        tally.add(f"kill at a write of a {kind}", verdict(again, folder, reference), f"call {number}, {until[-1]}")
    tally.check(min(len(numbers), 1))
