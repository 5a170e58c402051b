"""What happens around a study: signals in pairs, other processes, a moved or read-only workdir, a full disk, little
memory, a clock that jumps, streams that nobody reads."""

import functools
import os
import resource
import shutil
import signal
import subprocess
import time

import pytest
from forked import Started

from tests.faults.harness import KILLED, calls_of, sweep, verdict

pytestmark = pytest.mark.faults
FLAGS = ("--config.rounds=40", "--config.eval_every=2")
INTERRUPTED = 130


@pytest.fixture
def words(study):
    return sweep(study, *FLAGS)


@pytest.fixture
def reference(undisturbed):
    return undisturbed(*FLAGS)[1]


@pytest.fixture
def killed(words, tmp_path):
    """A study that was killed when some runs had ended, and others had saved a state."""
    folder = tmp_path / "run"
    _, calls = calls_of(tmp_path / "to-count", tmp_path, words(tmp_path / "to-count"))
    at = [k for k, call in enumerate(calls, 1) if call.startswith("rename runs/") and ".state" in call]
    ended, _ = calls_of(folder, tmp_path, words(folder), at[3 * len(at) // 4])
    assert ended.status == KILLED
    assert '"status": "running"' in (folder / "config.json").read_text()
    return folder


@pytest.fixture
def disk(tmp_path):
    """An empty disk whose size, or whether it is read only, can be changed."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(*options):
        done = subprocess.run(["mount", *options, "tmpfs", folder], capture_output=True)
        if done.returncode:
            pytest.skip("a tmpfs cannot be mounted here")

    mount("-t", "tmpfs", "-o", "size=64m")
    yield folder, lambda options: mount("-o", f"remount,{options}")
    subprocess.run(["umount", "-l", folder], check=True)


def begun(folder, command):
    """Wait until a study has written its first lines."""
    metrics = folder / "metrics.jsonl"
    while not (metrics.is_file() and metrics.stat().st_size):
        assert command.is_alive(), command.ended()
        time.sleep(0.01)


@pytest.mark.parametrize("pause", [0.0, 0.05, 0.3])
@pytest.mark.parametrize(
    "pair", [("SIGTERM", "SIGTERM"), ("SIGINT", "SIGTERM"), ("SIGINT", "SIGINT"), ("SIGHUP", "SIGTERM")]
)
def test_signals_in_pairs(tally, words, reference, tmp_path, pair, pause):
    folder = tmp_path / "run"
    command = Started(tmp_path / "log", *words(folder))
    begun(folder, command)
    for name in pair:
        command.kill(getattr(signal, name))
        time.sleep(pause)
    ended = command.ended()
    # 0, or the first signal's own number: all runs had ended before, so that the study handled no signal any more.
    assert ended.status in (INTERRUPTED, *(-getattr(signal, name) for name in pair), 0), ended
    assert "Traceback" not in ended.err
    assert "Exception ignored" not in ended.err
    again = Started(tmp_path / "log", *words(folder)).ended()
    tally.add("signals in pairs", verdict(again, folder, reference), pair)
    tally.check()


def test_several_processes_that_start_at_once_and_of_which_one_is_killed(tally, words, reference, tmp_path):
    folder = tmp_path / "run"
    several = [Started(tmp_path / f"log-{k}", *words(folder)) for k in range(4)]
    begun(folder, several[0])
    several[0].kill()
    ended = [command.ended() for command in several[1:]]
    for each in ended:
        tally.add("processes that start at once", verdict(each, folder, reference))
    tally.check(3)


def test_a_workdir_that_was_renamed_or_copied(tally, words, reference, killed, tmp_path):
    copied = shutil.copytree(killed, tmp_path / "a copy")
    moved = killed.rename(tmp_path / "elsewhere")
    for folder in (copied, moved):
        ended = Started(tmp_path / "log", *words(folder)).ended()
        tally.add("a renamed workdir", verdict(ended, folder, reference), folder)
    tally.check(2)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
@pytest.mark.parametrize("held", [False, True])
def test_a_read_only_workdir(tally, words, reference, disk, killed, tmp_path, held):
    folder, remount = disk[0] / "run", disk[1]
    if held:
        shutil.copytree(killed, folder)
    remount("ro")
    ended = Started(tmp_path / "log", *words(folder)).ended()
    assert ended.status == 2, ended
    tally.add("a read-only workdir", verdict(ended, folder, {}))
    remount("rw")
    tally.add("a read-only workdir", verdict(Started(tmp_path / "log", *words(folder)).ended(), folder, reference))
    tally.check(2)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
@pytest.mark.parametrize("part", [0.0, 0.05, 0.3, 0.6, 0.9])
def test_a_disk_that_is_full_before_the_end(tally, undisturbed, words, reference, disk, tmp_path, part):
    """The room is a part of what the finished study takes; then the same command goes on with room."""
    size = sum(path.stat().st_size for path in undisturbed(*FLAGS)[0].rglob("*") if path.is_file()) // 1024
    folder, remount = disk[0] / "run", disk[1]
    remount(f"size={max(16, int(part * size))}k")
    full = Started(tmp_path / "log", *words(folder)).ended()
    assert full.status == 2, full
    said = full.said().splitlines()
    assert len([line for line in said if line.startswith("error: ")]) == 1, full
    assert str(folder) in said[-1]
    remount("size=64m")
    ended = Started(tmp_path / "log", *words(folder)).ended()
    tally.add("a full disk", verdict(ended, folder, reference), part)
    tally.check()


def little_memory(mib):
    """As a patch: the process may have this much more address space than it has."""
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[0])
    limit = pages * resource.getpagesize() + mib * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))


def test_little_memory_loses_nothing(tally, words, reference, killed, tmp_path):
    """The backend ends the process where threads cannot be made; the same command goes on with memory."""
    for mib in (30, 100, 300, 600):
        Started(tmp_path / "log", *words(killed), patch=functools.partial(little_memory, mib)).ended()
        copy = shutil.copytree(killed, tmp_path / f"after-{mib}")
        ended = Started(tmp_path / "log", *words(copy)).ended()
        tally.add("little memory", verdict(ended, copy, reference), mib)
    tally.check(4)


def jumping_clock(seconds):
    """As a patch: the time of day jumps by so much at each look, back and forth."""
    real, looks = time.time, iter(range(10**9))
    time.time = lambda: real() + (seconds if next(looks) % 2 else -seconds)


def to_nobody(streams):
    """As a patch: these streams are pipes whose reader has left."""
    for number in streams:
        read, write = os.pipe()
        os.dup2(write, number)
        os.close(read)
        os.close(write)


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        *(("a clock that jumps", functools.partial(jumping_clock, seconds)) for seconds in (3600.0, 1e9)),
        *(("streams that nobody reads", functools.partial(to_nobody, streams)) for streams in ((1,), (2,), (1, 2))),
    ],
)
def test_a_clock_that_jumps_and_streams_that_nobody_reads(tally, words, reference, tmp_path, kind, patch):
    folder = tmp_path / "run"
    ended = Started(tmp_path / "log", *words(folder), patch=patch).ended()
    assert ended.status in (0, 141)
    tally.add(kind, verdict(ended._replace(status=0), folder, reference), patch.args)
    tally.check()
