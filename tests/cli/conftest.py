"""Commands in this process: parsed and run as `mdfl` does, without absl's own start."""

import sys

import pytest
from absl import flags

from mdfl_jax.cli import common


@pytest.fixture
def call(monkeypatch, capfd):
    """Runs a command, given by its module and its arguments: (exit status, standard output, standard error)."""

    def run(command, *args):
        argv = [f"mdfl {command.__name__.rpartition('.')[2]}", *map(str, args)]
        monkeypatch.setattr(sys, "argv", argv)
        capfd.readouterr()
        try:
            status = common.call(lambda: common.parse_flags(argv, command.WORDS) and command.main())
        except SystemExit as ended:
            status = ended.code
        finally:
            flags.FLAGS.unparse_flags()
            for name in flags.FLAGS:
                if flags.FLAGS[name].present:
                    flags.FLAGS[name].unparse()
        return (status, *capfd.readouterr())

    return run


@pytest.fixture
def mistake(call):
    """Runs a command with arguments that are wrong; returns its line, checked to be all that it printed."""

    def told(command, *args):
        status, out, err = call(command, *args)
        assert (status, out) == (2, "")
        assert err.startswith("error: ")
        assert err.count("\n") == 1
        return err

    return told
