"""What the commands share: the flags of a study, errors of one line, the compilation cache and the host devices."""

import functools
import logging
import os
import re
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from absl import app, flags

from mdfl_jax.cli import streams
from mdfl_jax.config.presets import SCALES
from mdfl_jax.core import own_files, program_cache, stages
from mdfl_jax.core.errors import SHRINK, UserError, errors_about, nearest, of_environment, out_of_memory
from mdfl_jax.storage import disk
from mdfl_jax.storage.given import CODE, import_given, read_text
from mdfl_jax.study import signals

if TYPE_CHECKING:
    from ml_collections import ConfigDict

    from mdfl_jax.results.results import Results

LONGEST = 300  # characters of a word in an error line; of a longer one the beginning and the end are shown


def fail(error: Exception | str) -> NoReturn:
    """Print a user's mistake as one line on standard error and exit with status 2."""
    words = str(error).split()
    line = " ".join(word if len(word) <= LONGEST else f"{word[:100]}...{word[-100:]}" for word in words)
    print(f"error: {line}", file=sys.stderr)
    sys.exit(2)


def error_in(said: str) -> str:
    """Return the last error line of a command that has ended with status 2; "" if it has said none."""
    lines = [line for line in said.splitlines() if line.startswith("error: ")]
    return lines[-1].removeprefix("error: ") if lines else ""


def end_in_words(status: int) -> str:
    """Return in words with which status a process ended, or by which signal."""
    if status >= 0:
        return f"ended with status {status}"
    memory = ", as where the machine's memory does not suffice" if status == -signal.SIGKILL else ""
    return f"was ended by {signal.Signals(-status).name}{memory}"


@functools.cache  # a process, such as that of the tests, may import several commands
def study_flags() -> None:
    """Define the flags of a study, from which `config_of_flags` makes its configuration."""
    flags.DEFINE_string("config", None, "Config file of the study, or the name of a shipped study.")
    flags.DEFINE_multi_string("set", [], "KEY=VALUE changes a field of the config file; written --config.KEY=VALUE.")
    scale_flag()
    use_flag()


@functools.cache
def scale_flag() -> flags.FlagHolder:
    """Define --scale, an argument of the config file."""
    return flags.DEFINE_enum("scale", None, SCALES, "Scale of a preset, as in --config=configs/madfl.py:t2.")


@functools.cache
def use_flag() -> flags.FlagHolder:
    """Define --use=FILE, which may be given several times."""
    return flags.DEFINE_multi_string("use", [], "Python file that registers entries of your own.")


def flag_value(flag: str) -> Any:
    """Return the value of a flag that a command may have defined here."""
    return flags.FLAGS[flag].value


def fields_given() -> dict[str, str]:
    """Return the fields of --config.KEY=VALUE with their values as texts."""
    return {key: value for key, _, value in (text.partition("=") for text in flag_value("set"))}


def fields_of_user(config: str) -> set[str] | None:
    """Return the fields that the user has set: those of the command line; None, for all, with a config file of hers."""
    from mdfl_jax.config import resolve  # imports JAX
    from mdfl_jax.core.sweep_text import split_axes

    if Path(resolve.find_config(config).partition(":")[0]).resolve().parent != resolve.folder():
        return None
    given = fields_given()
    return {*given, *(path for paths in split_axes(given.get("sweep", "")) for path in paths)}


def import_own_files() -> None:
    """Import the files of --use and of --config.use, which register members."""
    files = list(flag_value("use"))
    if "set" in flags.FLAGS:
        from mdfl_jax.config.resolve import used_files  # imports JAX

        files += used_files(fields_given().get("use", ""))
    for path in files:
        import_given(path)


def config_of_flags(quick: bool = False) -> "ConfigDict":
    """Return the configuration of --config=FILE with the fields of --config.KEY=VALUE.

    Args:
      quick: whether the configuration of the file is cut to what takes seconds, before the fields are set.

    Raises:
      UserError: if no file is given, if a file raises an error, or for an unknown key or a wrong value.
    """
    from mdfl_jax.config import presets, resolve  # imports JAX, which not every command needs
    from mdfl_jax.config.resolve import add_used_files

    given, scale = flag_value("config"), flag_value("scale")
    if given is None:
        raise UserError(
            (f"--scale={scale} is for --config=FILE, which is not given here; " if scale else "")
            + "--config=FILE is missing, for example --config=configs/digits.py; or name a shipped study as the first "
            f"word: {', '.join(resolve.study_names())}"
        )
    path = resolve.find_config(given)
    with stages.stage(f"reading {path}"):
        try:
            import_own_files()
            config = resolve.read_file(f"{path}{'' if ':' in path else ':'},scale={scale}" if scale else path)
        except UserError:
            raise
        except BaseException as error:  # a config file may raise anything; `call` recognises a Ctrl-C
            if scale and "takes 0 positional arguments" in str(error):  # the scale is the first one
                raise UserError(f"--scale={scale}: {path} has no presets") from error
            said = f"{own_files.place(error) or path}: {type(error).__name__}: {error}".rstrip(": ")
            raise UserError(said) from error
        config = presets.quick(config) if quick else config
        for key, value in fields_given().items():
            resolve.set_field(config, key, value)
        add_used_files(config, flag_value("use"))
        return config


def parse_flags(argv: Sequence[str], words: Sequence[str] = ()) -> list[str]:
    """Parse the command line. Every mistake becomes one line and exit status 2.

    Args:
      argv: the name of the command and its arguments.
      words: the flags whose values are the words of the command line, in their order. The last one takes all words
        that are left if it can be given several times.
    """
    known = flags.FLAGS
    known.set_gnu_getopt(True)  # words may stand before flags
    logging.getLogger("absl").setLevel(logging.ERROR)  # absl's warnings would add lines
    try:
        _check_flag_files(argv[1:])
        arguments = known.read_flags_from_files(list(argv[1:]), force_gnu=True)
        rest = known([argv[0], *(_as_settings(arguments) if "set" in known else arguments)])[1:]
        for flag in (known[name] for name in words):
            if not rest or (flag.present and not isinstance(flag, flags.MultiFlag)):
                break
            taken, rest = (rest, []) if isinstance(flag, flags.MultiFlag) else (rest[0], rest[1:])
            flag.parse(taken)
            flag.using_default_value = False
    except SystemExit:  # absl has printed the help, and would end with status 1
        sys.exit(0)
    except UserError as error:
        fail(str(error))
    except flags.UnrecognizedFlagError as error:
        fail(_unknown_flag(error))
    except flags.Error as error:
        fail(re.sub(r"\('Non-boolean argument to boolean flag', .*\)", "it must be true or false", str(error)))
    if rest:
        fail(f"unexpected argument {rest[0]!r}; settings are given as --name=value")
    return [argv[0]]


def _check_flag_files(arguments: Iterable[str]) -> None:
    """Check the files of --flagfile, and those that they name, before absl opens them."""
    seen, waiting = set[str](), list(arguments)[::-1]
    while waiting:
        if given := re.fullmatch(r"--?flagfile(?:=(.*))?", waiting.pop().strip(), re.DOTALL):
            path = os.path.expanduser(given[1] if given[1] is not None else waiting.pop() if waiting else "")
            if path and path not in seen:
                seen.add(path)
                with errors_about(f"--flagfile={path}"):
                    waiting += read_text(path, CODE).splitlines()


def _unknown_flag(error: flags.UnrecognizedFlagError) -> str:
    """Return the line for a flag that a command lacks. A field of the study may be meant, as with --rounds=3."""
    fields = list[str]()
    if "set" in flags.FLAGS:
        from mdfl_jax.config.resolve import all_fields  # imports JAX

        fields = [f"config.{path}" for path in all_fields()]
    near = nearest(error.flagname, [*flags.FLAGS, *fields])
    meant = f" (did you mean {error.flagvalue.replace(error.flagname, near, 1)}?)" if near else ""
    return f"unknown flag {error.flagvalue}{meant}; --help lists the flags"


def _as_settings(arguments: Iterable[str]) -> list[str]:
    """Replace --config.KEY=VALUE by --set=KEY=VALUE, also where the value is the next argument."""
    found, rest = list[str](), iter(arguments)
    for argument in rest:
        if given := re.fullmatch(r"--?config\.([^=]*)(?:=(.*))?", argument, re.DOTALL):
            argument = f"--set={given[1]}={next(rest, '') if given[2] is None else given[2]}"
        found.append(argument)
    return found


def call(main: Callable[[], int]) -> int:
    """Call a command's main and return its exit status.

    A `UserError`, a lack of memory or an error in a user's file becomes one line and exit status 2. An interrupt by the
    user gives status 130. If nobody reads the output any more, the command goes on, with status 141 at its end
    (`streams`).
    """
    try:
        return streams.status(main())
    except BaseException as error:
        if _is_interrupt(error):
            print("stopped", file=sys.stderr)
            return 130
        if isinstance(error, UserError):
            fail(error)
        if isinstance(error, ValueError) and (line := of_environment(error)):
            fail(line)
        if (asked := out_of_memory(error)) is not None:
            fail(f"not enough memory{f': {asked} were asked for' if asked else ''}; {SHRINK}")
        if isinstance(error, OSError) and error.errno in disk.FAILED:
            fail(f"{error.filename or 'a file'} cannot be written or read: {error.strerror}")
        if isinstance(error, Exception) and (where := own_files.place(error)):
            fail(f"{where}: {own_files.error_words(error)}")
        raise


def _is_interrupt(error: BaseException | None) -> bool:
    """Tell whether an error is a Ctrl-C, or arose because of one, as that of a half-written archive."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def run_command(main: Callable[[], int], words: Sequence[str] = (), does: str = "") -> None:
    """Run the main of a command under absl.

    Args:
      main: the function. The docstring of its module is printed by --help.
      words: as in `parse_flags`.
      does: what the command does; it is printed if that takes more than a second.
    """
    streams.install()
    signals.end_at_ctrl_c()
    # These loggers report missing backends and found fonts, which are of no use to the user.
    for chatty in ("jax._src.xla_bridge", "jax._src.distributed", "matplotlib.font_manager"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    for told in ("jax._src.callback", "jax._src.debugging"):  # print the traceback of an error that is told at the end
        logging.getLogger(told).setLevel(logging.CRITICAL)
    command, start = sys.modules[main.__module__], sys.modules["__main__"]
    if command is not start:  # absl looks for the flags and the text of --help in the module that was started
        start.__doc__ = command.__doc__
        shared = [flags.FLAGS[name] for name in ("config", "set", "scale", "use") if name in flags.FLAGS]
        for flag in (*flags.FLAGS.get_key_flags_for_module(command.__name__), *shared):
            flags.FLAGS.register_key_flag_for_module(sys.argv[0], flag)
    whole = stages.stage(does)(main) if does else main
    app.run(lambda _: _call_at_last(whole), flags_parser=functools.partial(parse_flags, words=words))


def _call_at_last(main: Callable[[], int]) -> int:
    """Call a command's main; a Ctrl-C after its last word ends the process without a further one."""
    try:
        status = call(main)
        signals.end_without_compiler(status)
        return status
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def make_report(results: "Results") -> None:
    """Make the tables, the figures and report.html of a finished study; print the paths of the page and the curves."""
    with stages.stage("drawing tables, figures and the page"):
        path = results.report()
    curves = path.parent / "figures" / "accuracy.png"
    print(f"report: {path}" + (f", curves: {curves}" if curves.is_file() else ""))


def setup_jax(cache: str, only_cpu: bool = False) -> None:
    """Make one host device for each core, and set up the cache that keeps compiled programs for later runs.

    Args:
      cache: the directory of the persistent compilation cache; '' switches it off.
      only_cpu: whether to use only the CPU, also where there are accelerators.

    Raises:
      UserError: if the cache exists and is not a directory, or can be no path.
    """
    import jax

    from mdfl_jax.core import devices

    program_cache.keep_programs(cache, "--cache")
    devices.use_all_cores()
    if only_cpu:
        jax.config.update("jax_platforms", "cpu")
