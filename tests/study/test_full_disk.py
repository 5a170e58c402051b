"""A full disk: one line, what is finished stays, and the same command goes on."""

import contextlib
import errno
import os
from pathlib import Path

import pytest
from studies import assert_same, study_of
from tiny import run_study

from mdfl_jax.storage import disk
from mdfl_jax.storage.disk import write_json

STUDY = {"sweep": "network.mobility=static,random_movement", "engine.runs_per_batch": 2, "save": "final"}
STUDY |= {"loggers": "tensorboard"}
MANY = 10**6


class Full:
    """A disk that is full after so many further writes: what is written then stays incomplete."""

    def __init__(self, monkeypatch):
        self.left, self.number, self.seen = MANY, errno.ENOSPC, []
        real = disk.writing

        @contextlib.contextmanager
        def writing(path, needs=0):
            self.seen.append(path)
            self.left -= 1
            with real(path, needs), pytest.MonkeyPatch.context() as patch:
                is_full = self.left < 0
                if is_full and path.suffix in ("", ".lock"):  # a folder or a lock
                    self.fail()
                if is_full:  # the last step of a new file, the first one of an appended piece
                    patch.setattr(Path, "replace", self.fail)
                    patch.setattr(os, "write", self.fail)
                yield
                if is_full:
                    self.fail()

        monkeypatch.setattr(disk, "writing", writing)

    def fail(self, *_):
        raise OSError(self.number, os.strerror(self.number))


def test_a_process_that_is_killed_while_it_writes_leaves_the_old_file_and_a_part_that_is_known(tmp_path, monkeypatch):
    write_json(tmp_path / "a.json", 1)

    def killed(*_, **__):
        raise SystemExit

    with monkeypatch.context() as patch:
        for act in ("replace", "unlink"):  # as of a process that is gone
            patch.setattr(Path, act, killed)
        with pytest.raises(SystemExit):
            write_json(tmp_path / "a.json", 2)
    assert (tmp_path / "a.json").read_text().strip() == "1"
    assert [disk.is_part(file) for file in tmp_path.iterdir() if file.name != "a.json"] == [True]


@pytest.fixture
def full(monkeypatch):
    return Full(monkeypatch)


@pytest.fixture(scope="module")
def study():
    return study_of(**STUDY)


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
        assert "free); make room and run the same command again" in str(raised.value)
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
        with pytest.raises(disk.DiskError, match=rf"a.json cannot be written: {words}"):
            write_json(tmp_path / "a.json", {})
        assert not list(tmp_path.iterdir())


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
