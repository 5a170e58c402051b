"""The command `mdfl`: ``mdfl sweep digits`` and so on, one subcommand for each of `mdfl_jax.cli.commands`."""

import contextlib
import importlib
import os
import sys

from mdfl_jax import __version__
from mdfl_jax.cli import streams
from mdfl_jax.cli.commands import OF_CONTRIB, commands, module_of
from mdfl_jax.core import stages
from mdfl_jax.core.errors import of_environment, unknown_name

COMMANDS = commands()
SHORT = ("cite", "info", "new")  # commands that take no longer than their imports, and so do not tell what they do


def main() -> None:
    """Run the subcommand that the command line names. The rest of the command line belongs to it."""
    word = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if word in ("--help", "-h", "-help", "--helpfull", "help"):
        lines = ["usage: mdfl COMMAND [ARGUMENTS]", "", *(f"  {name:8}{what}" for name, what in COMMANDS.items())]
        print("\n".join([*lines, "", "mdfl COMMAND --help lists the flags of a command; mdfl --version"]))
        sys.exit(0)
    if word == "--version":
        print(f"mdfl_jax {__version__}")
        sys.exit(0)
    _check(word)
    del sys.argv[1]
    if (folder := _current_folder()) not in sys.path:
        sys.path.insert(0, folder)  # as python -m does, so that config files can import their neighbours
    start(word)


def _check(name: str) -> None:
    """Refuse a command that is not there, such as one of a folder of contrib that was left out."""
    if name not in COMMANDS:
        print(f"error: {unknown_name('command', name, COMMANDS)}{OF_CONTRIB.lacks()}", file=sys.stderr)
        sys.exit(2)


def _current_folder() -> str:
    """Return the current folder. If it was removed, say so in one line and exit with status 2."""
    try:
        return os.getcwd()
    except OSError as error:
        print(f"error: the current folder cannot be used: {error.strerror}; change to another one", file=sys.stderr)
        sys.exit(2)


def start(name: str) -> None:
    """Run a command. What takes more than a second is named on standard error, the imports of the command too.

    Args:
      name: the name of the command, one of `COMMANDS`.
    """
    _check(name)
    sys.argv[0] = f"mdfl {name}"  # also if launch/ has started it: what is recorded and printed is this command
    streams.install()
    _current_folder()
    os.environ["MPLBACKEND"] = "agg"  # figures are files, whatever the environment says
    with contextlib.nullcontext() if name in SHORT else stages.telling():
        try:
            with stages.stage(f"starting {name}"):
                from mdfl_jax.cli import common

                command = importlib.import_module(module_of(name))
        except ModuleNotFoundError as error:
            if str(error.name).partition(".")[0] == "mdfl_jax":
                raise
            lacks = f"the Python {sys.executable} lacks the package {error.name}"
            print(f"error: {lacks}; after make demo: source .venv/bin/activate; else: pip install .", file=sys.stderr)
            sys.exit(2)
        except ValueError as error:
            if not (line := of_environment(error)):
                raise
            print(f"error: {line}", file=sys.stderr)
            sys.exit(2)
        common.run_command(command.main, command.WORDS, command.DOES)


if __name__ == "__main__":
    main()
