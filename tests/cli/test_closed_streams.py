"""Nobody reads the output any more: the command ends as it would, without a traceback, and writes its files."""

import contextlib
import functools
import json
import os
import pty
import signal
import subprocess
import sys

import pytest
from forked import Started, programs
from shell import ROOT, without_stages
from small import TINY

from mdfl_jax.cli import streams

CLOSED = 141


@pytest.fixture
def arguments(tmp_path):
    config = tmp_path / "tiny.py"
    config.write_text(TINY)
    return [f"--config={config}", f"--workdir={tmp_path / 'run'}", "--noreport"]


def shell(line, *arguments):
    """Runs a line of bash in which "$@" is a command with its arguments; returns its statuses and standard error."""
    statuses = f'{line}; echo "${{PIPESTATUS[*]}}" > /dev/fd/3'
    command = ["bash", "-c", statuses, "bash", programs() / "python", *arguments]
    read, write = os.pipe()
    environment = os.environ | {"PYTHONPATH": str(ROOT)}

    def third():
        os.dup2(write, 3)

    done = subprocess.run(command, cwd=ROOT, env=environment, text=True, capture_output=True, timeout=300,
                          preexec_fn=third, pass_fds=(write, 3) if write != 3 else (3,))  # fmt: skip
    os.close(write)
    with os.fdopen(read) as file:
        statuses = file.read().split()
    return [int(status) for status in statuses], done.stderr


def finished(folder):
    return json.loads((folder / "run" / "config.json").read_text())["status"] == "finished"


def test_a_stream_whose_reader_has_gone_drops_what_it_is_given(monkeypatch, capsys):
    read, write = os.pipe()
    os.close(read)
    monkeypatch.setattr(sys, "stdout", open(write, "w"))  # noqa: SIM115
    streams.install()
    print("line", flush=True)
    print("line")
    assert (streams.status(0), streams.status(2)) == (CLOSED, 2)
    assert capsys.readouterr().err == ""


NO_ROOM = "standard output cannot be written: No space left on device; the command goes on without it\n"


def test_a_list_and_a_mistake_that_nobody_reads_or_that_find_no_room(arguments):
    listed, wrong = ("-m", "launch.info", "--list"), ("-m", "launch.sweep", *arguments, "--config.rounds=-1")
    (status, of_head), err = shell('"$@" | head -n 1', *listed)
    assert status in (0, CLOSED)  # 0 if the pipe took all of it before its reader left
    assert (of_head, err) == (0, "")
    assert shell('"$@" > /dev/full', *listed) == ([CLOSED], NO_ROOM)
    assert shell('"$@" 2>&1 | true', *wrong)[0][0] == 2


@pytest.mark.long
@pytest.mark.parametrize(
    ("line", "statuses", "said"),
    [
        ('"$@" 2>&1 | head -n 1', [CLOSED, 0], ""),  # nobody reads its lines
        ('"$@" > /dev/full', [CLOSED], NO_ROOM),
        ('"$@" <&- >&- 2>&-', [0], ""),
    ],
)
def test_a_study_that_cannot_say_a_thing_is_finished_and_its_files_hold_nothing_else(
    arguments, tmp_path, line, statuses, said
):
    found, err = shell(line, "-m", "launch.sweep", *arguments)
    assert (found, without_stages(err)) == (statuses, said)
    assert finished(tmp_path)
    assert all(json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())


def test_a_file_does_not_get_the_number_of_a_closed_stream(tmp_path):
    """Else what a library prints from C would be written into it."""
    code = "from mdfl_jax.cli import streams; streams.install(); import os, sys\n"
    code += "file = open(sys.argv[1], 'w'); os.write(1, b'printed'); os.write(2, b'printed'); file.write('mine')"
    (status,), _ = shell('"$@" <&- >&- 2>&-', "-c", code, tmp_path / "file")
    assert status == 0
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.long
@pytest.mark.parametrize("ignored", [True, False])
def test_a_closed_terminal_stops_a_study_with_its_state_saved_and_does_not_under_nohup(arguments, tmp_path, ignored):
    terminal, its = pty.openpty()
    rounds = ("40", "4") if ignored else ("2000000", "20")
    words = [*arguments, f"--config.rounds={rounds[0]}", f"--config.eval_every={rounds[1]}"]
    answer = functools.partial(signal.signal, signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
    command = Started(tmp_path / "said", "sweep", *words, patch=answer, stream=its)
    os.close(its)
    os.set_blocking(terminal, False)
    metrics, seen = tmp_path / "run" / "metrics.jsonl", b""

    def has_results():
        nonlocal seen
        with contextlib.suppress(BlockingIOError):
            seen += os.read(terminal, 1000)
        return metrics.is_file() and metrics.stat().st_size

    command.until(has_results)
    os.close(terminal)  # all writing fails from here on
    for _ in range(2):  # the system sends one, and the shell too
        command.kill(signal.SIGHUP)
    status = command.ended().status
    assert b"Traceback" not in seen
    if ignored:
        assert status == CLOSED
        assert finished(tmp_path)
    else:
        assert status == 130
        assert list((tmp_path / "run" / "runs").glob("*.safetensors"))
