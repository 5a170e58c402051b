"""A full disk: one line, what is finished stays, and the same command goes on; or the run waits for room."""

import errno
import os
from pathlib import Path

import pytest
from studies import assert_same
from tiny import run_study, tiny_config

from mdfl_jax.storage import disk
from mdfl_jax.storage.disk import write_json
from mdfl_jax.study import make_study

STUDY = {"sweep": "network.mobility=static,random_movement", "engine.runs_per_batch": 2, "save": "final"}
STUDY |= {"loggers": "tensorboard"}
MANY = 10**6


class Full:
    """A disk on which a file gets its error as soon as it is to be complete, or while it is written."""

    def __init__(self, monkeypatch):
        self.left, self.number, self.seen, self.make_room_after = MANY, errno.ENOSPC, [], MANY
        real = disk.attempt

        def attempt(path, act, needs=0):
            def failing():
                self.seen.append(path)
                self.left -= 1
                if self.left < 0 and path.suffix in ("", ".lock"):  # a folder or a lock
                    self.fail()
                elif self.left < 0:
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
        if len(self.seen) >= self.make_room_after:
            self.left = MANY
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


@pytest.mark.long
def test_wherever_the_disk_is_full_the_line_names_the_file_and_the_study_goes_on(study, whole, full, tmp_path):
    """A write of each kind of file of a study fails, one after another."""
    run_study(study, tmp_path / "counted")
    kinds = [(path.suffix, path.parent.name, path.name.startswith("config")) for path in full.seen]
    assert {suffix for suffix, *_ in kinds} >= {".json", ".jsonl", ".npz", ".safetensors"}
    assert {folder for _, folder, _ in kinds} >= {"runs", "models", "workers", "counted"}
    for at in map(kinds.index, dict.fromkeys(kinds)):
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


def test_other_errors_of_a_disk_are_one_line_too(tmp_path, full):
    full.left = 0
    for number, words in (
        (errno.EDQUOT, "the quota is used up"),
        (errno.EROFS, "read-only file system"),
        (errno.EIO, "input/output error"),
        (errno.EFBIG, "file too large"),
    ):
        full.number = number
        choice = "stop" if number == errno.EDQUOT else "wait"  # only room is waited for
        refused = pytest.raises(disk.DiskError, match=rf"a.json cannot be written: {words}")
        with disk.on_full_disk(choice, pytest.fail), refused:
            write_json(tmp_path / "a.json", {})
        assert not list(tmp_path.iterdir())


def test_what_waits_for_room_says_so_once_and_goes_on(full, tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "RETRY", 0.01)
    full.left, full.make_room_after, lines = 0, 3, []
    with disk.on_full_disk("wait", lines.append):
        write_json(tmp_path / "a.json", {})
    assert (tmp_path / "a.json").read_text() == "{}\n"
    assert len(full.seen) == 4
    assert [line.rpartition("; ")[2] for line in lines] == ["waiting for room ...", "going on"]


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
