"""A full disk: one line, what is finished stays, and the same command goes on; or the run waits for room."""

import contextlib
import errno
import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest
from studies import assert_same
from tiny import run_study, tiny_config

from mdfl_jax.storage import array_files, disk
from mdfl_jax.storage.disk import write_arrays, write_json
from mdfl_jax.study import make_study

STUDY = {"sweep": "network.mobility=static,random_movement", "engine.runs_per_batch": 2, "save": "final"}
STUDY |= {"loggers": "tensorboard"}
MANY = 10**6


class Full:
    """A disk on which a file gets its error as soon as it is to be complete, or while it is written."""

    def __init__(self, monkeypatch):
        self.left, self.number, self.wanted, self.seen = MANY, errno.ENOSPC, "", []
        real = disk.attempt

        def attempt(path, act, needs=0):
            def failing():
                if self.wanted in str(path):
                    self.seen.append(path)
                    self.left -= 1
                    if self.left < 0:
                        act_partly(act)
                act()

            real(path, failing, needs)

        def act_partly(act):
            """The act, whose last step fails: the parts that it has written must not stay."""
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Path, "replace", self.fail)
                act()
            self.fail()

        monkeypatch.setattr(disk, "attempt", attempt)

    def fail(self, *_):
        raise OSError(self.number, os.strerror(self.number))


@pytest.fixture
def full(monkeypatch):
    return Full(monkeypatch)


@pytest.fixture(scope="module")
def study():
    return make_study(tiny_config(**STUDY))


@pytest.fixture(scope="module")
def whole(study, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    run_study(study, folder)
    return folder


@pytest.mark.parametrize(
    "every", [pytest.param(False, marks=pytest.mark.long), pytest.param(True, marks=pytest.mark.faults)]
)
def test_wherever_the_disk_is_full_the_line_names_the_file_and_the_study_goes_on(study, whole, full, tmp_path, every):
    """A write of each kind of file of a study fails, one after another; or every write."""
    run_study(study, tmp_path / "counted")
    kinds = [(path.suffix, path.parent.name, path.name.startswith("config")) for path in full.seen]
    folders = ("runs", "models", "workers", "counted")
    assert {suffix for suffix, *_ in kinds} >= {".json", ".jsonl", ".npz", ".safetensors"}
    assert {folder for _, folder, _ in kinds} >= {*folders}
    for at in range(len(kinds)) if every else map(kinds.index, dict.fromkeys(kinds)):
        folder = tmp_path / str(at)
        full.left, full.seen[:] = at, []
        with pytest.raises(disk.DiskError) as raised:
            run_study(study, folder)
        failed = full.seen[at]
        assert str(raised.value).startswith(f"{failed} cannot be written: the disk is full (")
        assert "free); make room, and the same command goes on" in str(raised.value)
        assert "\n" not in str(raised.value)
        assert not list(folder.rglob("*.part"))
        full.left = MANY
        run_study(study, folder)
        assert_same(folder, whole, states="runs" not in str(failed))


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EDQUOT, "the quota is used up"),
        (errno.EROFS, "read-only file system"),
        (errno.EIO, "input/output error"),
        (errno.EFBIG, "file too large"),
    ],
)
def test_other_errors_of_a_disk_are_one_line_too(tmp_path, full, number, words):
    full.number, full.left = number, 0
    choice = "stop" if number == errno.EDQUOT else "wait"  # only room is waited for
    refused = pytest.raises(disk.DiskError, match=rf"a.json cannot be written: {words}")
    with disk.on_full_disk(choice, pytest.fail), refused:
        write_json(tmp_path / "a.json", {})
    assert not list(tmp_path.iterdir())


@pytest.fixture
def soon(monkeypatch):
    monkeypatch.setattr(disk, "RETRY", 0.01)


@pytest.mark.long
def test_a_run_that_waits_says_so_once_and_goes_on(whole, full, tmp_path, monkeypatch, soon):
    study, lines = make_study(tiny_config(**STUDY, **{"engine.on_full_disk": "wait"})), []
    full.wanted, full.left = "/runs/", 0
    tries = []
    full_fail = full.fail

    def fail(*_):
        tries.append(1)
        if len(tries) >= 3:
            full.left = MANY
        full_fail()

    monkeypatch.setattr(full, "fail", fail)
    monkeypatch.setattr("mdfl_jax.study.run.print_to_stderr", lines.append)
    run_study(study, tmp_path)
    assert len(tries) == 3
    assert (tmp_path / "history.npz").read_bytes() == (whole / "history.npz").read_bytes()
    (waits, goes_on) = [line for line in lines if "/runs/" in line]
    assert waits.endswith("waiting for room ...")
    assert goes_on.endswith(" is written; going on")


def test_a_signal_ends_the_waiting(full, tmp_path, soon, monkeypatch):
    study = make_study(tiny_config(**STUDY, **{"engine.on_full_disk": "wait"}))
    full.wanted, full.left, lines = "metrics.jsonl", 0, []

    def log(line):
        lines.append(line)
        if "waiting for room" in line:
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM)).start()

    # The file is opened before the first round, where the signals are those of a running study already.
    refused = pytest.raises(disk.DiskError, match=r"metrics.jsonl cannot be written: the disk is full")
    monkeypatch.setattr("mdfl_jax.study.run.print_to_stderr", log)
    with refused:
        run_study(study, tmp_path, log=log)
    assert ["waiting for room" in line for line in lines] == [True, False]
    assert lines[1].startswith("stopping after this evaluation")


def test_an_appended_piece_is_there_whole_or_not_at_all(tmp_path, monkeypatch):
    file, real, room = disk.Appended(tmp_path / "lines"), os.write, [MANY]

    def write(number, content):
        if not room[0]:
            raise OSError(errno.ENOSPC, "no room")
        taken = real(number, content[: room[0]])
        room[0] -= taken
        return taken

    monkeypatch.setattr(os, "write", write)
    file.write(b"one\n")
    room[0] = 2
    with pytest.raises(disk.DiskError, match="lines cannot be written: the disk is full"):
        file.write(b"two\n")
    assert (tmp_path / "lines").read_text() == "one\n"
    room[0] = MANY
    file.write(b"two\n")
    file.close()
    assert (tmp_path / "lines").read_text() == "one\ntwo\n"


# On a real disk of some kilobytes.


@pytest.fixture
def small_disk(tmp_path):
    """Mounts a file system of a size; where that is not permitted, the test is left out."""
    with contextlib.ExitStack() as stack:

        def mounted(size, *options):
            folder = tmp_path / "disk"
            folder.mkdir(exist_ok=True)
            words = ["mount", "-t", "tmpfs", "-o", ",".join([f"size={size}", *options]), "tmpfs", str(folder)]
            try:
                done = subprocess.run(words, capture_output=True, text=True)
            except OSError as error:
                pytest.skip(f"mounting is not possible here: {error}")
            if done.returncode:
                pytest.skip(f"mounting is not permitted here: {done.stderr.strip()}")
            stack.callback(subprocess.run, ["umount", "-l", str(folder)], check=True)
            return folder

        yield mounted


def fill(folder, left):
    """Fills a disk up to some bytes; returns the file that does."""
    found = os.statvfs(folder)
    path = folder / "filling"
    path.write_bytes(bytes(found.f_bavail * found.f_frsize - left))
    return path


@pytest.mark.parametrize(
    "write",
    [
        lambda path, x: write_arrays(path, {"a": x, "b": x}),
        lambda path, x: array_files.write(path, "test", {}, {"a": x}, compress=False),
        lambda path, x: write_json(path, x.tolist()),
    ],
)
def test_a_writer_on_a_disk_without_room(small_disk, write):
    import numpy as np

    folder = small_disk("1m")
    write(folder / "file", np.arange(3.0))
    before = (folder / "file").read_bytes()
    filling = fill(folder, 8192)
    with pytest.raises(disk.DiskError, match=r"file cannot be written: the disk is full \(.*0.01 MiB free\)"):
        write(folder / "file", np.random.default_rng(0).random(100_000))
    assert (folder / "file").read_bytes() == before
    assert {path.name for path in folder.iterdir()} == {"file", "filling"}
    filling.unlink()


def test_a_disk_for_no_further_file(small_disk):
    folder = small_disk("1m", "nr_inodes=2")
    (folder / "one").touch()
    with pytest.raises(disk.DiskError, match="no further file free"):
        write_json(folder / "two", {})
