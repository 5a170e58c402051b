"""Two commands on one workdir, of one machine or of two: the second one ends with one line."""

import json
import os
import platform
import subprocess
import sys
import threading
import time

import pytest
from mdfl_jax.study.alone import alone

from mdfl_jax.core.errors import UserError
from mdfl_jax.storage import disk
from mdfl_jax.storage.study_files import LOCK
from mdfl_jax.study import alone as module
from mdfl_jax.study import workdir as workdirs
from mdfl_jax.study.workdir import WorkdirContent

ME = f"process {os.getpid()} of {platform.node()}"


@pytest.fixture
def quick(monkeypatch):
    """The seconds of the protocol, a fiftieth of them."""
    for name in ("BEAT", "WATCH", "UNNAMED", "_POLL"):
        monkeypatch.setattr(module, name, getattr(module, name) / 50)


@pytest.fixture
def elsewhere(tmp_path, quick):
    """Writes the lock that a process of another machine has, with a number of beats."""
    folder = tmp_path / "run"
    folder.mkdir()

    def write(beats, **other):
        about = {"host": "far", "process": 12, "machine": "another", "token": "theirs", "beats": f"{beats:012}"}
        (folder / LOCK).write_text(json.dumps(about | other))
        return folder

    return write


def test_a_workdir_is_reserved_until_the_end_and_no_other_one_is(tmp_path):
    with alone(tmp_path / "run"):
        with pytest.raises(UserError, match=f"run: {ME} is writing to it$"), alone(tmp_path / "a/../run"):
            pass
        with alone(tmp_path / "other"):
            pass
    with alone(tmp_path / "run"):
        pass
    assert not list(tmp_path.iterdir())


def test_a_process_that_was_killed_has_given_it_back_at_once(tmp_path):
    code = "import os, sys; from pathlib import Path; from mdfl_jax.study.alone import alone\n"
    code += "with alone(Path(sys.argv[1])): print('there', flush=True); os.kill(os.getpid(), 9)"
    killed = subprocess.run([sys.executable, "-c", code, tmp_path / "run"], capture_output=True, text=True)
    assert killed.stdout == "there\n"
    assert (tmp_path / "run" / LOCK).exists()
    assert workdirs.inspect_workdir(tmp_path / "run", {}) == WorkdirContent()
    (tmp_path / "run").rename(tmp_path / "moved")
    begin = time.monotonic()
    with alone(tmp_path / "moved", pytest.fail):
        assert time.monotonic() - begin < module.WATCH / 2
    assert not (tmp_path / "moved" / LOCK).exists()


@pytest.mark.parametrize("written", [b"", b"{", b'{"machine": "another"}'[:12]])
def test_a_lock_whose_owner_was_killed_before_its_name_was_written(tmp_path, quick, written):
    (tmp_path / LOCK).write_bytes(written)
    with alone(tmp_path, pytest.fail):
        pass


def test_a_living_process_of_another_machine_is_seen(elsewhere, monkeypatch):
    monkeypatch.setattr(module, "WATCH", 60.0)  # the first beat ends it, however busy the machine is
    folder, over, lines = elsewhere(0), threading.Event(), []

    def live():
        beats = 0
        while not over.wait(module.BEAT):
            beats += 1
            elsewhere(beats)

    owner = threading.Thread(target=live, daemon=True)
    owner.start()
    begin = time.monotonic()
    with pytest.raises(UserError, match="process 12 of far is writing to it"), alone(folder, lines.append):
        pass
    assert time.monotonic() - begin < module.WATCH  # it is not waited for longer than for a beat
    over.set()
    owner.join()
    assert len(lines) == 1
    assert "process 12 of far has reserved it" in lines[0]
    assert json.loads((folder / LOCK).read_text())["token"] == "theirs"  # and its lock is as it was


def test_a_process_that_begins_between_our_look_and_our_lock_is_seen(elsewhere, monkeypatch):
    """Locks of files need not be seen from machine to machine: what the lock says counts."""
    folder = elsewhere(0)
    monkeypatch.setattr(module._Lock, "_watched", lambda lock: b"")  # nobody was there when it was looked at
    with pytest.raises(UserError, match="process 12 of far is writing to it"), alone(folder, pytest.fail):
        pass
    assert json.loads((folder / LOCK).read_text())["token"] == "theirs"


@pytest.mark.parametrize("step", [0, 1e6, -1e6])
def test_a_dead_process_of_another_machine_is_known_by_its_silence_whatever_time_it_is(elsewhere, monkeypatch, step):
    folder, lines, real, begin = elsewhere(7), [], time.time, time.monotonic()
    os.utime(folder / LOCK, (real() + step, real() + step))  # the clock of the other machine is wrong
    monkeypatch.setattr(time, "time", lambda: real() - step * (time.monotonic() - begin))  # and ours jumps
    with alone(folder, lines.append):
        assert time.monotonic() - begin >= module.WATCH
        assert json.loads((folder / LOCK).read_text())["process"] == os.getpid()
    assert len(lines) == 1


def test_where_the_system_has_no_locks_of_files_the_beats_tell(tmp_path, quick, monkeypatch):
    monkeypatch.setattr(module, "fcntl", None)
    with (
        alone(tmp_path / "run"),
        pytest.raises(UserError, match=f"{ME} is writing to it"),
        alone(tmp_path / "run", lambda line: None),
    ):
        pass
    with pytest.raises(KeyError), alone(tmp_path / "run", pytest.fail):  # an error of the study stays what it is
        raise KeyError


def test_a_process_that_was_halted_for_long_writes_nothing_more(elsewhere, tmp_path):
    """As after Ctrl-Z here, and a start on another machine that shares the folder."""
    folder = tmp_path / "run"
    with alone(folder):
        disk.write_text(folder / "file", "mine")
        elsewhere(0)
        with pytest.raises(UserError, match="process 12 of far is writing to it"):
            disk.write_text(folder / "file", "late")
        disk.write_text(tmp_path / "file", "not in it")
        time.sleep(3 * module.BEAT)
    assert (folder / "file").read_text() == "mine"
    assert json.loads((folder / LOCK).read_text())["token"] == "theirs"  # neither beaten nor removed
