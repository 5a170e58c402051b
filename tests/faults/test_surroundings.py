"""What happens around a study: signals in pairs, a second process, a moved or read-only workdir, little memory, a clock
that jumps, another number of devices, streams that nobody reads."""

import functools
import json
import os
import resource
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
from forked import Started

from tests.faults.harness import KILLED, results, verdict, write_calls

LONG = ("--config.rounds=400", "--config.eval_every=2")  # long enough to be found running
RUN = ("--config.rounds=40", "--config.eval_every=2")
INTERRUPTED = 130


def words_of(study, folder, *flags):
    return ("sweep", f"--config={study}", f"--workdir={folder}", "--noreport", *flags)


def begun(folder, command):
    """Waits until a study has written its first lines."""
    metrics = folder / "metrics.jsonl"
    while not (metrics.is_file() and metrics.stat().st_size):
        assert command.process.is_alive(), command.ended()
        time.sleep(0.01)


def killed_in_the_middle(study, folder, tmp_path, *flags, devices=2):
    """A study that was killed when the second batch had a state in the checkpoint."""
    told = tmp_path / "calls"
    at = "rename checkpoints/batch-001-at-00003.npz"
    whole = tmp_path / "to-count"
    patch = functools.partial(write_calls, whole, told, 0)
    assert Started(tmp_path / "log", *words_of(study, whole, *flags), devices=devices, patch=patch).ended().status == 0
    number = 1 + told.read_text().splitlines().index(at)
    patch = functools.partial(write_calls, folder, told, number + 8)
    ended = Started(tmp_path / "log", *words_of(study, folder, *flags), devices=devices, patch=patch).ended()
    assert ended.status == KILLED
    return whole


@pytest.mark.faults
@pytest.mark.parametrize("pause", [0.0, 0.05, 0.3])
@pytest.mark.parametrize(
    "pair", [("SIGTERM", "SIGTERM"), ("SIGINT", "SIGTERM"), ("SIGINT", "SIGINT"), ("SIGHUP", "SIGTERM")]
)
def test_signals_in_pairs(tally, study, undisturbed, tmp_path, pair, pause):
    reference, folder = undisturbed(*RUN)[1], tmp_path / "run"
    words = words_of(study, folder, *RUN)
    command = Started(tmp_path / "log", *words)
    begun(folder, command)
    for name in pair:
        command.kill(getattr(signal, name))
        time.sleep(pause)
    ended = command.ended()
    second = -getattr(signal, pair[1])
    assert ended.status in (INTERRUPTED, second, 0), ended  # 0: it had ended before
    assert "Traceback" not in ended.err
    assert "Exception ignored" not in ended.err
    tally.add("signals in pairs", verdict(Started(tmp_path / "log", *words).ended(), folder, reference), pair)
    tally.check()


@pytest.mark.faults
def test_a_second_process_is_refused_and_the_first_goes_on(tally, study, undisturbed, tmp_path):
    reference, folder = undisturbed(*RUN)[1], tmp_path / "run"
    words = words_of(study, folder, *RUN)
    first = Started(tmp_path / "log", *words)
    begun(folder, first)
    os.kill(first.process.pid, signal.SIGSTOP)  # it is there, however long the second takes to start
    second = Started(tmp_path / "log", *words).ended()
    os.kill(first.process.pid, signal.SIGCONT)
    assert second.status == 2, second
    assert str(first.process.pid) in second.said()
    assert second.said().count("\n") == 1
    tally.add("a second process", verdict(first.ended(), folder, reference))
    tally.check()


@pytest.mark.faults
def test_several_processes_that_start_at_once(tally, study, undisturbed, tmp_path):
    reference, folder = undisturbed(*RUN)[1], tmp_path / "run"
    several = [Started(tmp_path / f"log-{k}", *words_of(study, folder, *RUN)) for k in range(4)]
    ended = [command.ended() for command in several]
    assert sorted({each.status for each in ended}) in ([0], [0, 2]), ended
    for each in ended:
        tally.add("processes that start at once", verdict(each, folder, reference))
    tally.check(4)


@pytest.mark.faults
def test_a_workdir_that_was_renamed_or_copied(tally, study, tmp_path):
    whole = results(killed_in_the_middle(study, tmp_path / "run", tmp_path, *RUN))
    copied = shutil.copytree(tmp_path / "run", tmp_path / "a copy")
    moved = (tmp_path / "run").rename(tmp_path / "elsewhere")
    for folder in (copied, moved):
        ended = Started(tmp_path / "log", *words_of(study, folder, *RUN)).ended()
        tally.add("a renamed workdir", verdict(ended, folder, whole), folder)
    tally.check(2)


@pytest.mark.faults
@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1), (2, 4)])
def test_another_number_of_devices(tally, study, tmp_path, before, after):
    """Counts are exact. Sums of floats may be taken in another order."""
    folder = tmp_path / "run"
    whole = killed_in_the_middle(study, folder, tmp_path, *RUN, devices=before)
    ended = Started(tmp_path / "log", *words_of(study, folder, *RUN), devices=after).ended()
    assert ended.status == 0, ended
    assert "Traceback" not in ended.err
    with np.load(folder / "history.npz") as found, np.load(whole / "history.npz") as wanted:
        assert found.files == wanted.files
        for key in wanted.files:
            if wanted[key].dtype.kind == "f":
                np.testing.assert_allclose(found[key], wanted[key], rtol=1e-3, atol=0.02, err_msg=key)
            else:
                np.testing.assert_array_equal(found[key], wanted[key], err_msg=key)
    tally.add("another number of devices", "equal")


@pytest.mark.faults
@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
@pytest.mark.parametrize("held", [False, True])
def test_a_read_only_workdir(tally, study, tmp_path, held):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", disk], capture_output=True).returncode:
        pytest.skip("a tmpfs cannot be mounted here")
    try:
        folder = disk / "run"
        if held:
            killed_in_the_middle(study, folder, tmp_path, *RUN)
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        ended = Started(tmp_path / "log", *words_of(study, folder, *RUN)).ended()
        assert ended.status == 2, ended
        tally.add("a read-only workdir", verdict(ended, folder, {}))
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
        assert Started(tmp_path / "log", *words_of(study, folder, *RUN)).ended().status == 0
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
    tally.check()


def little_memory(mib):
    """As a patch: the process may have this much more address space than it has."""
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[0])
    limit = pages * resource.getpagesize() + mib * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))


@pytest.mark.faults
def test_little_memory_loses_nothing(tally, study, tmp_path):
    """The backend ends the process where threads cannot be made; the same command goes on with memory."""
    folder = tmp_path / "run"
    whole = results(killed_in_the_middle(study, folder, tmp_path, *RUN))
    for mib in (30, 100, 300, 600):
        Started(tmp_path / "log", *words_of(study, folder, *RUN), patch=functools.partial(little_memory, mib)).ended()
        copy = shutil.copytree(folder, tmp_path / f"after-{mib}")
        ended = Started(tmp_path / "log", *words_of(study, copy, *RUN)).ended()
        tally.add("little memory", verdict(ended, copy, whole), mib)
    tally.check(4)


def jumping_clock(seconds):
    """As a patch: the time of day jumps by so much at each look, back and forth."""
    real, looks = time.time, iter(range(10**9))
    time.time = lambda: real() + (seconds if next(looks) % 2 else -seconds)


@pytest.mark.faults
@pytest.mark.parametrize("seconds", [3600.0, 1e9])
def test_a_clock_that_jumps(tally, study, undisturbed, tmp_path, seconds):
    folder = tmp_path / "run"
    patch = functools.partial(jumping_clock, seconds)
    ended = Started(tmp_path / "log", *words_of(study, folder, *RUN), patch=patch).ended()
    tally.add("a clock that jumps", verdict(ended, folder, undisturbed(*RUN)[1]), seconds)
    tally.check()


@pytest.mark.faults
@pytest.mark.parametrize("streams", [(1,), (2,), (1, 2)])
def test_streams_that_nobody_reads(tally, study, undisturbed, tmp_path, streams):
    folder = tmp_path / "run"
    patch = functools.partial(to_nobody, streams)
    ended = Started(tmp_path / "log", *words_of(study, folder, *RUN), patch=patch).ended()
    assert ended.status in (0, 141)
    tally.add("streams that nobody reads", verdict(ended._replace(status=0), folder, undisturbed(*RUN)[1]), streams)
    tally.check()


def to_nobody(streams):
    """As a patch: these streams are pipes whose reader has left."""
    for number in streams:
        read, write = os.pipe()
        os.dup2(write, number)
        os.close(read)
        os.close(write)


@pytest.mark.faults
def test_the_manifest_says_that_a_killed_study_is_not_finished(study, tmp_path):
    killed_in_the_middle(study, tmp_path / "run", tmp_path, *RUN)
    assert json.loads((tmp_path / "run" / "config.json").read_text())["status"] == "running"
