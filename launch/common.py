"""What the launchers share: flags that fail in one line, the compilation cache, host devices."""

import logging
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import jax
from absl import app, flags

from mdfl_jax.errors import UserError


def fail(error: Exception | str) -> None:
    """Prints a user's mistake as one line on standard error and exits with status 2."""
    line = " ".join(str(error).split())
    print(f"error: {line}", file=sys.stderr)
    sys.exit(2)


def check_config_flags(argv: Sequence[str]) -> None:
    """Checks --config=FILE and the keys of --config.KEY=VALUE before they are parsed.

    absl and ml_collections end in a traceback for an unknown key or an absent file; these lines say what is known.

    Raises:
      UserError: for an absent file or an unknown key.
    """
    from mdfl_jax.experiments.config import check_key

    for i, arg in enumerate(argv):
        if file := re.fullmatch(r"--?config(?:=(.*))?", arg):
            given = file.group(1) if file.group(1) is not None else "".join(argv[i + 1 : i + 2])
            path = Path(given.split(":")[0])
            if not path.is_file():
                known = sorted(str(p) for p in Path("configs").glob("*.py") if p.name != "__init__.py")
                hint = f"; known: {', '.join(known)}" if known else ""
                raise UserError(f"--config={given}: there is no file {path}{hint}")
        elif key := re.match(r"--?(?:no)?config\.([^=]+)", arg):
            name = key.group(1)
            sections = {"data", "model", "network", "algorithm", "engine"}
            if name in sections:
                raise UserError(f"--config.{name} is a section; set its fields, as in --config.{name}.name=VALUE")
            check_key(name)


def parse_flags(argv: Sequence[str]) -> list[str]:
    """Parses the command line; every mistake becomes one line and exit status 2."""
    try:
        check_config_flags(argv[1:])
        rest = flags.FLAGS(argv)
        if len(rest) > 1:
            raise UserError(f"unexpected argument {rest[1]!r}; settings are given as --name=value")
        return rest
    except (UserError, flags.Error) as error:
        fail(error)
    except Exception as error:  # a config file may raise anything
        where = _config_line(error)
        fail(f"{where}{type(error).__name__}: {error}")
    raise AssertionError


def _config_line(error: BaseException) -> str:
    """The innermost place in a config file that an error came from, 'configs/x.py:12: '."""
    place, trace = "", error.__traceback__
    while trace:
        name = trace.tb_frame.f_code.co_filename
        if "site-packages" not in name and not name.startswith("<") and Path(name).parent.name != "launch":
            place = f"{os.path.relpath(name)}:{trace.tb_lineno}: "
        trace = trace.tb_next
    return place


def run(main: Callable[[], int]) -> None:
    """Runs a launcher's main under absl; a `UserError` becomes one line and exit status 2."""

    def guarded(argv: Sequence[str]) -> int:
        del argv
        try:
            return main()
        except UserError as error:
            fail(error)
            raise AssertionError from error

    app.run(guarded, flags_parser=parse_flags)


def setup_jax(cache: str) -> None:
    """Makes one host device a core, and keeps compiled programs from one run to the next.

    Args:
      cache: directory of the persistent compilation cache; '' switches it off.
    """
    logging.getLogger("jax._src.xla_bridge").setLevel(logging.WARNING)  # it reports the backends that are not there
    if "xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", "") and not os.environ.get(
        "JAX_NUM_CPU_DEVICES"
    ):
        jax.config.update("jax_num_cpu_devices", num_cores())
    if cache:
        jax.config.update("jax_compilation_cache_dir", cache)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def num_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_cache() -> str:
    """Where compiled programs are kept: JAX_COMPILATION_CACHE_DIR, or a folder of the user's cache directory."""
    given = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return given if given is not None else os.path.join(base, "mdfl_jax", "xla")
