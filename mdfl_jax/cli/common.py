"""Code that the commands share: flags with one-line errors, the compilation cache and the host devices."""

import contextlib
import functools
import logging
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from absl import app, flags
from ml_collections import ConfigDict, config_flags

from mdfl_jax.cli import streams, words
from mdfl_jax.cli.explain import explain
from mdfl_jax.config import config_files
from mdfl_jax.config.presets import SCALES
from mdfl_jax.core import stages
from mdfl_jax.core.errors import SHRINK, UserError, check_path, out_of_memory, unknown_name
from mdfl_jax.core.own_files import import_file, place
from mdfl_jax.core.own_files import words as words_of
from mdfl_jax.storage import disk
from mdfl_jax.study import ctrl_c

LONGEST = 300  # characters of a word in an error line; of a longer one the beginning and the end are shown


def fail(error: Exception | str) -> NoReturn:
    """Print a user's mistake as one line on standard error and exit with status 2."""
    words = str(error).split()
    line = " ".join(word if len(word) <= LONGEST else f"{word[:100]}...{word[-100:]}" for word in words)
    print(f"error: {line}", file=sys.stderr)
    sys.exit(2)


def write_report(workdir: Path) -> None:
    """Make the tables, the figures and report.html of a finished study, and print the path of the page."""
    with stages.stage("drawing tables, figures and the page"):
        from mdfl_jax.report import page

        path = page.write_report(workdir)
    print(f"report: {path}")


@functools.cache  # a process, such as that of the tests, may import several commands
def config_flag() -> flags.FlagHolder:
    """Define --config=FILE, whose fields are changed by --config.KEY=VALUE."""
    try:  # ml_collections already reads the files of --flagfile here
        holder = config_flags.DEFINE_config_file("config", None, "Config file of the study.", lock_config=True)
    except flags.Error as error:
        fail(error)
    flags.FLAGS["config"].parser = _ConfigParser("config", lock_config=True)
    scale_flag()
    return holder


class _ConfigParser(config_flags.config_flags.ConfigFileFlagParser):
    """Loads a config file, and the files that it uses, so that flags can set the numbers of their members too."""

    def parse(self, path: str) -> Any:
        """Return what get_config returns, with these numbers."""
        from mdfl_jax.config.resolve import completed

        return completed(super().parse(path))


@functools.cache
def scale_flag() -> flags.FlagHolder:
    """Define --scale, which `words.with_scale` gives to the config file."""
    return flags.DEFINE_enum("scale", None, SCALES, "Scale of a preset, as in --config=configs/madfl.py:t2.")


@functools.cache
def use_flag() -> flags.FlagHolder:
    """Define --use=FILE, which may be given several times. `parse_flags` imports the files first of all."""
    return flags.DEFINE_multi_string("use", [], "Python file that registers members of your own.")


def check_config_flags(argv: Sequence[str]) -> tuple[str, list[str]]:
    """Check --config=FILE before it is parsed, and finds the keys of --config.KEY=VALUE.

    For a missing file, absl and ml_collections would print a traceback; the errors raised here list the known files.

    Returns:
      The FILE, or '' if none is given, and the keys. The keys cannot be checked yet, because the file may register
      members with keys of their own.

    Raises:
      UserError: for a missing file.
    """
    given, keys = "", []
    for i, arg in enumerate(argv):
        if file := re.fullmatch(r"--?config(?:=(.*))?", arg, re.DOTALL):
            given = file.group(1) if file.group(1) is not None else "".join(argv[i + 1 : i + 2])
            path = given.split(":")[0]
            if not os.path.isfile(path):
                known = sorted(str(p) for p in Path("configs").glob("*.py") if p.name != "__init__.py")
                if not known:
                    raise UserError(
                        f"--config={given}: there is no such file, and no shipped study of this name; known: "
                        + ", ".join(config_files.names())
                    )
                if not path or path.startswith("-"):
                    raise UserError(f"--config needs a file; known: {', '.join(known)}")
                raise UserError(f"--config={given}: there is no such file; {unknown_name('config file', path, known)}")
        elif key := re.match(r"--?(?:no)?config\.([^=]*)", arg):
            keys.append(key.group(1))
    return given, keys


@ctrl_c.told_apart()
def parse_flags(argv: Sequence[str]) -> list[str]:
    """Parse the command line; every mistake becomes one line and exit status 2, and Ctrl-C status 130."""
    logging.getLogger("absl").setLevel(logging.ERROR)  # absl's warnings would add lines
    given, keys = "", list[str]()
    try:
        arguments = flags.FLAGS.read_flags_from_files(list(argv[1:]), force_gnu=False)
        given, keys = check_config_flags(arguments)
        config_files.make_importable(given)
        with stages.stage(f"reading {given}" if given else "reading the command line"):
            for file in words.used_files(arguments) if "use" in flags.FLAGS else ():
                import_file(file)
            rest = flags.FLAGS(argv)
        if len(rest) > 1:
            raise UserError(f"unexpected argument {rest[1]!r}; settings are given as --name=value")
        if given:
            _check_loaded(given, flags.FLAGS["config"].value)
        return rest
    except UserError as error:
        fail(error)
    except SystemExit as error:  # --help ends so too
        if not place(error):
            raise
        fail(explain(error, given, keys))
    except Exception as error:  # a config file may raise anything, and an unknown key does
        fail(explain(error, given, keys))
    except BaseException as error:  # so may it raise KeyboardInterrupt
        if isinstance(error, ctrl_c.CtrlC) or not place(error):
            print("stopped", file=sys.stderr)
            sys.exit(130)
        fail(f"{place(error)}: {words_of(error)}")


def _check_loaded(given: str, config: Any) -> None:
    if isinstance(config, ConfigDict | Mapping):
        return
    with contextlib.suppress(TypeError):
        config["name"]  # ml_collections stores an OSError of the config file and raises it when the config is used
    raise UserError(f"--config={given}: get_config() returned {config!r}; it must return a ConfigDict")


def call(main: Callable[[], int]) -> int:
    """Call a command's main and return its exit status.

    A `UserError` or a lack of memory becomes one line and exit status 2. An interrupt by the user gives status 130. If
    nobody reads the output any more, the command goes on, with status 141 at its end (`streams`).
    """
    try:
        with ctrl_c.not_masked():
            return streams.status(main())
    except UserError as error:
        fail(error)
    except (RuntimeError, MemoryError) as error:
        if (asked := out_of_memory(error)) is None:
            raise
        wanted = f": {asked} were asked for" if asked else ""
        fail(f"not enough memory{wanted}; {SHRINK}")
    except OSError as error:
        if error.errno not in disk.FAILED:
            raise
        fail(f"{error.filename or 'a file'} cannot be written or read: {error.strerror}")
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


def run(main: Callable[[], int]) -> None:
    """Run the main of a command under absl.

    The module of ``main`` may have a mapping ``WORDS``, as `words.named` takes it, and a text ``DOES``, which says what
    the command does; it is printed if that takes more than a second. The docstring of the module is printed by --help.
    """
    streams.install()
    # These loggers report missing backends and found fonts, which are of no use to the user.
    for chatty in ("jax._src.xla_bridge", "matplotlib.font_manager"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    command, start = sys.modules[main.__module__], sys.modules["__main__"]
    if command is not start:  # absl looks for the flags and the text of --help in the module that was started
        start.__doc__ = command.__doc__
        shared = [flags.FLAGS[name] for name in ("config", "scale", "use") if name in flags.FLAGS]
        for flag in (*flags.FLAGS.get_key_flags_for_module(command.__name__), *shared):
            flags.FLAGS.register_key_flag_for_module(sys.argv[0], flag)
    try:
        sys.argv[1:] = words.with_shipped(words.named(sys.argv[1:], getattr(command, "WORDS", {})))
        if "scale" in flags.FLAGS and "config" in flags.FLAGS:  # the scale of a config file
            sys.argv[1:] = words.with_scale(sys.argv[1:])
    except UserError as error:
        fail(error)
    does = getattr(command, "DOES", "")
    app.run(lambda argv: _called(stages.stage(does)(main) if does else main), flags_parser=parse_flags)


def _called(main: Callable[[], int]) -> int:
    try:
        with ctrl_c.raised_where_it_can_be():
            try:
                return call(main)
            finally:
                ctrl_c.ends_the_process()
    except KeyboardInterrupt:  # a further one, while the first is told
        return 130


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

    check_path("--cache", cache)
    if os.path.exists(cache) and not os.path.isdir(cache):
        raise UserError(f"--cache={cache}: it is not a directory")
    devices.use_all_cores()
    if only_cpu:
        jax.config.update("jax_platforms", "cpu")
    if cache:
        jax.config.update("jax_compilation_cache_dir", cache)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)  # a study has a dozen small ones too
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def default_cache() -> str:
    """Return the folder for compiled programs: JAX_COMPILATION_CACHE_DIR, or one in the user's cache directory."""
    given = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return given if given is not None else os.path.join(base, "mdfl_jax", "xla")
