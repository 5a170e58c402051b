"""What happens around a study: signals in pairs, other processes, a moved or read-only workdir, a full disk, little
memory, a clock that jumps, streams that nobody reads."""

import errno
import functools
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from forked import Started

from tests.attack.harness import KILLED, calls_of, sweep, verdict

pytestmark = pytest.mark.faults
FLAGS = ("--config.rounds=40", "--config.eval_every=2")


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


def begun(folder, command):
    """Wait until a study has written its first lines."""
    metrics = folder / "metrics.jsonl"
    while not (metrics.is_file() and metrics.stat().st_size):
        assert command.is_alive(), command.ended()
        time.sleep(0.01)


@pytest.mark.parametrize(("first", "second"), [("TERM", "TERM"), ("INT", "TERM"), ("INT", "INT"), ("HUP", "TERM")])
@pytest.mark.parametrize("pause", [0.0, 0.05, 0.3])
def test_signals_in_pairs(tally, words, reference, tmp_path, first, second, pause):
    folder, pair = tmp_path / "run", (signal.Signals[f"SIG{first}"], signal.Signals[f"SIG{second}"])
    command = Started(tmp_path / "log", *words(folder))
    begun(folder, command)
    for number in pair:
        command.kill(number)
        time.sleep(pause)
    ended = command.ended()
    # 0, or the first signal's own number: all runs had ended before, so that the study handled no signal any more.
    assert ended.status in (130, *(-number for number in pair), 0), ended
    assert not re.search("Traceback|Exception ignored", ended.err)
    again = Started(tmp_path / "log", *words(folder)).ended()
    tally.add("signals in pairs", verdict(again, folder, reference), pair)
    tally.check()


def mount(folder, *options):
    if (done := subprocess.run(["mount", *options, "tmpfs", folder], capture_output=True)).returncode:
        pytest.skip(f"a tmpfs cannot be mounted here: {done.stderr.decode()}")


def test_a_disk_that_is_read_only_or_full_before_the_end(tally, undisturbed, words, reference, killed, tmp_path):
    """The room is a part of what the finished study takes; then the same command goes on with room."""
    size = sum(path.stat().st_size for path in undisturbed(*FLAGS)[0].rglob("*") if path.is_file()) // 1024
    disk = tmp_path / "disk"
    disk.mkdir()
    mount(disk, "-t", "tmpfs", "-o", "size=64m")
    try:
        for held in (False, True):
            folder = disk / f"run-{held}"
            if held:
                shutil.copytree(killed, folder)
            mount(disk, "-o", "remount,ro")
            ended = Started(tmp_path / "log", *words(folder)).ended()
            assert ended.status == 2, ended
            tally.add("a read-only workdir", verdict(ended, folder, {}), held)
            mount(disk, "-o", "remount,rw")
            ended = Started(tmp_path / "log", *words(folder)).ended()
            tally.add("a read-only workdir", verdict(ended, folder, reference), held)
            shutil.rmtree(folder)
        for part in (0.0, 0.05, 0.3, 0.6, 0.9):
            folder = disk / f"run-{part}"
            mount(disk, "-o", f"remount,size={max(16, int(part * size))}k")
            full = Started(tmp_path / "log", *words(folder)).ended()
            said = full.said().splitlines()
            assert (full.status, [line.startswith("error: ") for line in said].count(True)) == (2, 1), full
            assert str(folder) in said[-1]
            assert said[-1].endswith("make room and run the same command again")
            assert not list(folder.rglob("*.part"))
            mount(disk, "-o", "remount,size=64m")
            ended = Started(tmp_path / "log", *words(folder)).ended()
            tally.add("a full disk", verdict(ended, folder, reference), part)
            shutil.rmtree(folder)
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
    tally.check(9)


def little_memory(mib):
    """As a patch: the process may have this much more address space than it has."""
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[0])
    limit = pages * resource.getpagesize() + mib * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))


def test_a_workdir_that_is_copied_and_little_memory_lose_nothing(tally, words, reference, killed, tmp_path):
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


@pytest.mark.parametrize("seconds", [3600.0, 1e9])
def test_a_clock_that_jumps(tally, words, reference, tmp_path, seconds):
    folder, patch = tmp_path / "run", functools.partial(jumping_clock, seconds)
    ended = Started(tmp_path / "log", *words(folder), patch=patch).ended()
    tally.add("a clock that jumps", verdict(ended, folder, reference), seconds)
    tally.check()


def failing_locks(number):
    """As a patch: no file can be locked, as on some shared file systems."""
    import fcntl

    def refuse(*_):
        raise OSError(number, os.strerror(number))

    fcntl.flock = fcntl.lockf = refuse


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EIO])
def test_locks_that_fail(tally, words, reference, tmp_path, number):
    folder = tmp_path / "run"
    ended = Started(tmp_path / "log", *words(folder), patch=functools.partial(failing_locks, number)).ended()
    tally.add("locks that fail", verdict(ended, folder, reference), number)
    tally.check()


NAMES = [
    "a\nb",
    "it's",
    'a "b"',
    "$HOME",
    "`id`",
    "é",
    "日本",
    "\udcff",
    "\x1b[31m",
    "-x",
    "%s",
    "{0}",
    "a#b",
    "a;b",
    "...",
]


def test_folders_with_odd_names_paths_and_files(tally, words, reference, tmp_path):
    """Under LANG=C. A path has at most 4,095 bytes, of which the study's own files need some."""
    deep = Path(*["d" * 100] * 35)
    crowded = tmp_path / "crowded"
    crowded.mkdir()
    for k in range(100_000):
        os.close(os.open(crowded / f"notes-{k}.txt", os.O_CREAT | os.O_WRONLY))
    for name in (*NAMES, deep, Path("e" * 255), Path("f" * 300), crowded):
        folder = tmp_path / name
        ended = Started(tmp_path / "log", *words(folder), variables={"LANG": "C", "LC_ALL": "C"}).ended()
        kind = "a folder of 100,000 files" if name == crowded else "an odd name or a long path"
        for path in crowded.glob("notes-*"):
            path.unlink()
        tally.add(kind, verdict(ended, folder, reference), name)
    tally.check(len(NAMES) + 4)


def nobody():
    """As a patch: the command has the rights of nobody, who may not read one file of the folder."""
    os.setgid(65534)
    os.setuid(65534)


def test_a_file_without_permission(tally, words, reference, killed, tmp_path):
    if os.getuid():
        pytest.skip("only root can give the folder to somebody else")
    base = Path(tempfile.mkdtemp())
    try:
        for name in sorted(path.relative_to(killed) for path in killed.rglob("*") if path.is_file()):
            folder = shutil.copytree(killed, base / "run")
            for path in (base, folder, *folder.rglob("*")):
                os.chown(path, 65534, 65534)
            os.chown(folder / name, 0, 0)
            (folder / name).chmod(0)
            ended = Started(tmp_path / "log", *words(folder), patch=nobody).ended()
            tally.add("a file without permission", verdict(ended, folder, reference), name)
            shutil.rmtree(folder)
    finally:
        shutil.rmtree(base)
    tally.check(4)
