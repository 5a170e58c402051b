"""The first signal asks a study to stop, the second is as it was; no Ctrl-C is lost or told as a traceback."""

import gc
import signal
import sys
import time
import zipfile

import pytest

from mdfl_jax.cli import common
from mdfl_jax.study.signals import handled


@pytest.fixture
def stopped():
    """A list that gets an entry for each request to stop."""
    return []


def test_a_signal_stops_the_runner_and_the_second_one_is_as_before(stopped):
    """The handler only sets a flag, which is safe at any instruction."""
    lines, second = [], []
    before = signal.signal(signal.SIGTERM, lambda number, frame: second.append(number))
    try:
        with handled(lambda: stopped.append(True), lines.append):
            signal.raise_signal(signal.SIGTERM)
            assert (len(stopped), second) == (1, [])
            signal.raise_signal(signal.SIGTERM)
            assert (len(stopped), second) == (1, [signal.SIGTERM])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert [line.partition(",")[0] for line in lines] == ["stopping after this evaluation"]


def test_a_terminal_that_closes_says_so_twice_and_is_one_signal(stopped):
    second = []
    before = signal.signal(signal.SIGHUP, lambda number, frame: second.append(number))
    try:
        with handled(lambda: stopped.append(True), lambda line: None):
            for _ in range(2):
                signal.raise_signal(signal.SIGHUP)
        assert (len(stopped), second) == (1, [])
        signal.raise_signal(signal.SIGHUP)
        assert second == [signal.SIGHUP]  # afterwards it is as before
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_second_ctrl_c_within_the_collector_is_raised_after_it(stopped, monkeypatch):
    """Nothing can be raised in the collector's callbacks: Python would print a traceback, and the study would go on."""
    met = []

    def in_the_collector(phase, info):
        if not met:
            met.append(phase)
            signal.raise_signal(signal.SIGINT)

    def twice():
        with handled(lambda: stopped.append(True), lambda line: None):
            signal.raise_signal(signal.SIGINT)
            gc.collect()
            begun = time.monotonic()
            while time.monotonic() < begun + 10:  # a signal's handler is called between two instructions
                pass

    told = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    gc.callbacks.append(in_the_collector)
    try:
        with pytest.raises(KeyboardInterrupt):
            twice()
    finally:
        gc.callbacks.remove(in_the_collector)
    assert (len(stopped), len(met)) == (1, 1)
    assert told == []
    assert sys.unraisablehook == told.append


def test_an_error_because_of_a_ctrl_c_is_that_ctrl_c(tmp_path, capsys):
    """A second Ctrl-C that meets a file of arrays which is being written: the archive cannot be closed."""

    def main():
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive, archive.open("x", "w"):
            signal.raise_signal(signal.SIGINT)
            archive.close()

    assert common.call(main) == 130
    assert capsys.readouterr().err == "stopped\n"


def test_other_errors_that_cannot_be_raised_are_told_as_before(monkeypatch):
    class Broken:
        def __del__(self):
            raise ValueError("of an object")

    told = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: told.append(str(unraisable.exc_value)))
    with handled(lambda: None, lambda line: None):
        broken = Broken()
        del broken
    assert told == ["of an object"]
