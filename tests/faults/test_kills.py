"""SIGKILL at any moment, and at each call that writes: the same command goes on to the results of one left alone."""

import functools
import random
import re
import shutil
import time

import pytest
from forked import Started
from made_study import made

from tests.faults.harness import KILLED, results, verdict, write_calls

LONG = ("--config.rounds=40", "--config.eval_every=2")  # enough evaluations that half of the kills meet one
SMALL = ("--config.seeds=1", "--config.engine.runs_per_batch=1")
GROWN = ("--config.seeds=2", "--config.rounds=6", "--config.engine.runs_per_batch=1")


def kill_at_random(tally, study, undisturbed, tmp_path, draw, kills):
    """Kills studies, each until it is finished, and judges each that was."""
    reference, killed, number = undisturbed(*LONG)[1], 0, 0
    longest = 4.0
    while killed < kills:
        folder, own, begun, after = tmp_path / f"run-{number}", 0, 0.0, 0.0
        number += 1
        words = ("sweep", f"--config={study}", f"--workdir={folder}", "--noreport", *LONG)
        while True:
            begun, after = time.monotonic(), draw.uniform(0, longest)
            command = Started(tmp_path / "log", *words)
            command.process.join(after if killed < kills else 120)
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


@pytest.mark.long
def test_a_study_that_is_killed_at_random_moments(tally, study, undisturbed, tmp_path, seed):
    kill_at_random(tally, study, undisturbed, tmp_path, random.Random(seed), 3)
    tally.check(3)


@pytest.mark.faults
@pytest.mark.parametrize("part", range(8))
def test_two_hundred_random_kills(tally, study, undisturbed, tmp_path, seed, part):
    kill_at_random(tally, study, undisturbed, tmp_path, random.Random(f"{seed}-{part}"), 25)
    tally.check(25)


def chosen(calls):
    """The numbers of the first and the last of the calls of each name, where numbers and digests in names are alike.

    In an extension, those of its parts are the calls of any study; the first of every sixth name is taken.
    """
    alike = [re.sub(r"[0-9a-f]{16}|\d+", "#", call) for call in calls]
    last = {name: number for number, name in enumerate(alike, 1)}
    first = {name: number for number, name in reversed(list(enumerate(alike, 1)))}
    inner = [name for name in last if re.search(r" extension/(rounds|runs)/", name)]
    own = last.keys() - set(inner)
    return sorted({numbers[name] for numbers in (first, last) for name in own} | {first[name] for name in inner[::6]})


def kill_at_calls(tally, kind, tmp_path, words, prepare=lambda folder: None, every=1, first=0):
    """Kills a command at its calls that write, and starts it again.

    Args:
      tally, kind: Where and as what the verdicts are counted.
      tmp_path: A folder.
      words: A function that makes the command's words from the workdir.
      prepare: A function that fills the workdir before the command.
      every, first: Which of the chosen calls are killed.
    """
    folder, told = tmp_path / "run", tmp_path / "calls"

    def go(die_at=0):
        shutil.rmtree(folder, ignore_errors=True)
        prepare(folder)
        patch = functools.partial(write_calls, folder, told, die_at)
        return Started(tmp_path / "log", *words(folder), patch=patch).ended()

    assert go().status == 0
    reference, calls = results(folder), told.read_text().splitlines()
    for number in chosen(calls)[first::every]:
        killed = go(number)
        assert killed.status == KILLED, (number, killed)
        assert told.read_text().splitlines()[-1] == calls[number - 1]
        ended = Started(tmp_path / "log", *words(folder)).ended()
        tally.add(kind, verdict(ended, folder, reference), f"call {number} of {len(calls)}, {calls[number - 1]}")
    return calls


def sweep(study, *flags):
    return lambda folder: ("sweep", f"--config={study}", f"--workdir={folder}", "--noreport", *flags)


def merge(parts):
    return lambda folder: ("merge", *parts, f"--workdir={folder}", "--overwrite", "--noreport")


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """Two parts of a study, and all of an earlier one."""
    base, sweep = tmp_path_factory.mktemp("parts"), {"sweep": "network.mobility=static,dcm", "seeds": 2}
    made(base / "one", [(0, 0), (0, 1)], **sweep)
    made(base / "two", [(1, 0), (1, 1)], **sweep)
    made(base / "earlier", seeds=1)
    return base


def earlier(parts):
    return lambda folder: shutil.copytree(parts / "earlier", folder)


@pytest.mark.faults
@pytest.mark.parametrize("part", range(4))
def test_a_study_that_is_killed_at_each_write(tally, study, tmp_path, part):
    calls = kill_at_calls(tally, "kill at a write of a study", tmp_path, sweep(study, *SMALL), every=4, first=part)
    assert {"open", "write", "rename", "remove", "mkdir", "rmdir"} <= {call.split()[0] for call in calls}
    tally.check(10)


@pytest.mark.long
def test_a_study_that_is_killed_at_some_writes(tally, study, tmp_path):
    kill_at_calls(tally, "kill at a write of a study", tmp_path, sweep(study, *SMALL), every=40, first=30)
    tally.check(2)


@pytest.mark.faults
@pytest.mark.parametrize("part", range(4))
def test_an_extension_that_is_killed_at_each_write(tally, study, undisturbed, tmp_path, part):
    before = undisturbed(*SMALL)[0]
    words = sweep(study, *GROWN, "--extend")
    kind = "kill at a write of an extension"
    calls = kill_at_calls(
        tally, kind, tmp_path, words, lambda folder: shutil.copytree(before, folder), every=4, first=part
    )
    assert {"extension/plan.json", "publishing", "history.npz"} <= {call.split()[1] for call in calls}
    tally.check(10)


@pytest.mark.faults
def test_a_merge_that_is_killed_at_each_write(tally, parts, tmp_path):
    words = merge([parts / "one", parts / "two"])
    kill_at_calls(tally, "kill at a write of a merge", tmp_path, words, earlier(parts))
    tally.check(30)


@pytest.mark.long
def test_a_merge_that_is_killed_at_some_writes(tally, parts, tmp_path):
    words = merge([parts / "one", parts / "two"])
    kill_at_calls(tally, "kill at a write of a merge", tmp_path, words, earlier(parts), every=12, first=5)
    tally.check(3)


@pytest.mark.faults
def test_a_report_that_is_killed_at_each_write(tally, undisturbed, tmp_path):
    before, kind = undisturbed(*SMALL)[0], "kill at a write of a report"
    words = lambda folder: ("report", folder)  # noqa: E731
    kill_at_calls(tally, kind, tmp_path, words, lambda folder: shutil.copytree(before, folder), every=6)
    tally.check(5)
