"""The first signal asks a study to stop, the second is as it was; an error that follows from Ctrl-C is no traceback."""

import ctypes
import signal
import zipfile

import pytest
from forked import Started
from small import TINY

from mdfl_jax.cli import common
from mdfl_jax.study.signals import handled


@pytest.mark.long
def test_a_ctrl_c_while_a_program_is_compiled_ends_the_command_at_once(tmp_path):
    """The compiler is one that takes an hour. What is there stays, and the same command would go on."""
    (tmp_path / "tiny.py").write_text(TINY)
    words = [f"--config={tmp_path / 'tiny.py'}", f"--workdir={tmp_path / 'run'}", "--noreport"]
    command = Started(tmp_path / "said", "sweep", *words, patch=compile_for_an_hour)
    command.until(lambda: "compiling program 1 of 1" in command.err.read_text())
    command.kill(signal.SIGINT)
    ended = command.ended()  # long before the compiler
    left = f"stopped; the same command, without --overwrite, goes on where {tmp_path / 'run'} was left"
    assert (ended.status, ended.said().splitlines()[-1]) == (130, left)


def compile_for_an_hour():
    from mdfl_jax.study.runner import Program

    signal.signal(signal.SIGINT, signal.default_int_handler)
    Program.compile = lambda self: ctypes.CDLL(None).sleep(3600)


@pytest.fixture(autouse=True)
def _as_before():
    """Ctrl-C is heeded, which a process that was started in the background may ignore."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_signal_stops_the_runner_and_the_second_one_is_as_before():
    """The handler only sets a flag. A terminal that closes says so twice and is one signal."""
    for number, at_second in ((signal.SIGTERM, [signal.SIGTERM]), (signal.SIGHUP, [])):
        stopped, lines, second = [], [], []
        signal.signal(number, lambda number, frame, second=second: second.append(number))
        with handled(lambda stopped=stopped: stopped.append(True), lines.append):
            signal.raise_signal(number)
            assert (len(stopped), second) == (1, [])
            signal.raise_signal(number)
        assert (len(stopped), second) == (1, at_second)
        assert [line.partition(",")[0] for line in lines] == ["stopping after this evaluation"]
        signal.raise_signal(number)
        assert second == [*at_second, number]  # afterwards it is as before


def test_an_error_because_of_a_ctrl_c_is_that_ctrl_c(tmp_path, capsys):
    """A second Ctrl-C that meets a file of arrays which is being written: the archive cannot be closed."""

    def main():
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive, archive.open("x", "w"):
            signal.raise_signal(signal.SIGINT)
            archive.close()

    assert common.call(main) == 130
    assert capsys.readouterr().err == "stopped\n"
