"""SIGKILL at any moment, and at each call that writes: the same command goes on to the results of one left alone."""

import random
import re
import shutil
import time

import pytest
from forked import Started
from made_study import made

from tests.faults.harness import KILLED, calls_of, results, sweep, verdict

LONG = ("--config.rounds=40", "--config.eval_every=2")  # enough evaluations that half of the kills meet one
SMALL = ("--config.seeds=1", "--config.engine.runs_per_batch=1")
GROWN = ("--config.seeds=2", "--config.rounds=6", "--config.engine.runs_per_batch=1")


@pytest.mark.parametrize("kills", [pytest.param(3, marks=pytest.mark.long), pytest.param(25, marks=pytest.mark.faults)])
@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.faults) for part in range(1, 8))])
def test_studies_that_are_killed_at_random_moments(tally, study, undisturbed, tmp_path, seed, part, kills):
    """Each is killed until it is finished. `make faults` kills two hundred times."""
    if part and kills < 25:
        pytest.skip("the few kills are of the first part")
    reference, draw = undisturbed(*LONG)[1], random.Random(f"{seed}-{part}")
    killed, number, longest = 0, 0, 4.0
    while killed < kills:
        folder, own = tmp_path / f"run-{number}", 0
        number += 1
        while True:
            begun = time.monotonic()
            command = Started(tmp_path / "log", *sweep(study, *LONG)(folder))
            command.wait(draw.uniform(0, longest) if killed < kills else 120)
            command.kill()
            if (ended := command.ended()).status != KILLED:
                break
            killed, own = killed + 1, own + 1
        longest = max(0.5, min(longest, 1.2 * (time.monotonic() - begun))) if not own else longest
        if (found := verdict(ended, folder, reference)) != "equal":
            found = f"{found} (kills of this study: {own})"
        for _ in range(max(1, own)):
            tally.add("kill at a random moment", found, folder)
        shutil.rmtree(folder)
    tally.check(kills)


def chosen(calls):
    """The numbers of the first and the last of the calls of each name, where numbers and digests in names are alike."""
    alike = [re.sub(r"[0-9a-f]{16}|\d+", "#", call) for call in calls]
    last = {name: number for number, name in enumerate(alike, 1)}
    first = {name: number for number, name in reversed(list(enumerate(alike, 1)))}
    return sorted({*first.values(), *last.values()})


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """Two parts of a study, and all of an earlier one."""
    base, swept = tmp_path_factory.mktemp("parts"), {"sweep": "network.mobility=static,dcm", "seeds": 2}
    made(base / "one", [(0, 0), (0, 1)], **swept)
    made(base / "two", [(1, 0), (1, 1)], **swept)
    made(base / "earlier", seeds=1)
    return base


COMMANDS = ("study", "growth", "overwriting", "merge", "report")


PARTS = [
    pytest.param(30, 60, marks=pytest.mark.long),
    *(pytest.param(k, 4, marks=pytest.mark.faults) for k in range(4)),
]


@pytest.mark.parametrize(("first", "every"), PARTS)
@pytest.mark.parametrize("kind", COMMANDS)
def test_commands_that_are_killed_at_each_write(tally, study, undisturbed, parts, tmp_path, kind, first, every):
    """At the first and the last call of each name, and the command is started again."""
    before = {"growth": SMALL, "report": SMALL, "overwriting": GROWN}
    words = {
        "study": sweep(study, *SMALL),
        "growth": sweep(study, *GROWN),
        "overwriting": sweep(study, *SMALL, "--overwrite"),
        "merge": lambda out: ("merge", parts / "one", parts / "two", f"--workdir={out}", "--overwrite", "--noreport"),
        "report": lambda folder: ("report", folder),
    }[kind]
    source = undisturbed(*before[kind])[0] if kind in before else parts / "earlier" if kind == "merge" else None
    folder = tmp_path / "run"

    def go(die_at=0):
        shutil.rmtree(folder, ignore_errors=True)
        if source:
            shutil.copytree(source, folder)
        return calls_of(folder, tmp_path, words(folder), die_at)

    ended, calls = go()
    assert ended.status == 0, ended
    reference = results(folder)
    assert {"open", "write", "rename", "remove"} <= {call.split()[0] for call in calls}
    numbers = chosen(calls)[first::every] if kind != "report" else chosen(calls)[first :: 6 * every]
    for number in numbers:
        killed, until = go(number)
        assert killed.status == KILLED, (number, killed)
        again = Started(tmp_path / "log", *words(folder)).ended()
        tally.add(f"kill at a write of a {kind}", verdict(again, folder, reference), f"call {number}, {until[-1]}")
    tally.check(min(len(numbers), 1))
