"""The exception for mistakes of the user, and the error line for an unknown name."""

import contextlib
import difflib
import errno
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from absl import logging

_MOST = 24  # names in a line
SHRINK = (
    "less is needed with fewer clients, samples or parameters, a smaller algorithm.batch_size or engine.tile, "
    "engine.mapping=scan or engine.remat=true"
)


class UserError(ValueError):
    """A mistake of the user. Its message is one line that names the field, its value and the allowed values.

    The commands print the line on standard error and exit with status 2; a library caller catches a ``ValueError``.
    """


@contextlib.contextmanager
def errors_about(what: str) -> Iterator[None]:
    """Put a text in front of the error line of a mistake that is found within this context.

    >>> with errors_about("graph.file"):
    ...     raise UserError("it is empty")
    Traceback (most recent call last):
      ...
    mdfl_jax.core.errors.UserError: graph.file: it is empty
    """
    try:
        yield
    except UserError as error:
        raise UserError(f"{what}: {error}") from None


def out_of_memory(error: BaseException) -> str | None:
    """Return how much memory was asked for in vain, in words; None for an error of another kind.

    The result is '' if the error does not say the size.

    The allocator of a CPU fails in a thread of its own, and JAX then calls it an internal error.

    >>> out_of_memory(RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 3600000000 bytes."))
    '3,433.2 MiB'
    >>> out_of_memory(ValueError("Out of memory")) is None
    True
    """
    text = str(error)
    of_jax = isinstance(error, RuntimeError) and ("RESOURCE_EXHAUSTED" in text or "Out of memory" in text)
    if not of_jax and not isinstance(error, MemoryError):
        return None
    if found := re.search(r"([\d.]+) ?([KMGT]i?B)\b", text):
        return f"{found[1]} {found[2]}"
    found = re.search(r"(\d+) ?(?:bytes|B)\b", text)
    return f"{int(found[1]) / 2**20:,.1f} MiB" if found else ""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """Return the error line for an unknown name. The line suggests the most similar known name, if there is one.

    Of more than `_MOST` known names, the line gives that one, or else some similar ones, and how many there are.

    Args:
      kind: what the name stands for, for example "mixing".
      name: the unknown name.
      known: the allowed names; an empty one is not shown.

    >>> unknown_name("mixing", "fedavgg", ["fedavg", "metropolis_hastings"])
    "unknown mixing 'fedavgg' (did you mean 'fedavg'?); known: fedavg, metropolis_hastings"
    """
    names = sorted(filter(None, known))
    near = nearest(name, names)
    hint = f" (did you mean {near!r}?)" if near else ""
    if len(names) <= _MOST:
        return f"unknown {kind} {name!r}{hint}; known: {', '.join(names)}"
    if near:
        return f"unknown {kind} {name!r}{hint}; {len(names)} are known"
    likeness = {known: difflib.SequenceMatcher(None, name, known).ratio() for known in names}
    alike = sorted(sorted(names, key=likeness.__getitem__)[-_MOST // 2 :])
    return f"unknown {kind} {name!r}{hint}; among the {len(names)} known: {', '.join(alike)}"


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the most similar of some names; "" if none is similar.

    Of names with dots, the last part alone is enough: it may stand behind another section, or without one. A name of
    several words may stand for its initials.

    >>> fields = ["algorithm.lr", "network.radius", "seeds"]
    >>> [nearest(name, fields) for name in ("network.lr", "raduis", "netwrk.radius", "sed", "x", "learning_rate")]
    ['algorithm.lr', 'network.radius', 'network.radius', 'seeds', '', 'algorithm.lr']
    """
    names, last = list(known), name.rpartition(".")[2]
    by_last = {of.rpartition(".")[2]: of for of in names}
    if last.isidentifier() and last in by_last:
        alike = [of for of in names if of.rpartition(".")[2] == last]
        return max(alike, key=lambda of: difflib.SequenceMatcher(None, name, of).ratio())
    if "_" in last and (initials := "".join(word[:1] for word in last.split("_"))) in by_last:
        return by_last[initials]
    whole = difflib.get_close_matches(name, names, n=1)
    ends = [by_last[end] for end in difflib.get_close_matches(last, by_last, n=1, cutoff=0.75)]
    return next(iter(whole + ends if "." in name else ends + whole), "")


def check_path(what: str, path: str | Path) -> None:
    """Check that a file system can hold a path. The path need not exist.

    Args:
      what: what the path is given as, for example "--workdir".
      path: the path.

    Raises:
      UserError: if the path, or the name of a folder in it, is too long, or if it has a NUL character.
    """
    why = ""
    if "\0" in str(path):
        why = "it has a NUL character"
    else:
        try:
            os.lstat(path)
        except OSError as error:
            why = "it is longer than a path may be" if error.errno == errno.ENAMETOOLONG else ""
    if why:
        raise UserError(f"{what} is {str(path)!r}: {why}")


def of_environment(error: ValueError) -> str:
    """Return an error of JAX about a variable of the environment in one line; "" for any other error.

    JAX reads its variables when it is imported.
    """
    text = str(error)
    given = {name: value for name, value in os.environ.items() if name.startswith("JAX_") and value}
    named = [name for name in given if name in text.upper()] or [name for name in given if repr(given[name]) in text]
    return f"the variable {named[0]} is {given[named[0]]!r}: {text}" if named else ""


@contextlib.contextmanager
def warnings_off() -> Iterator[None]:
    """Hide the warnings that a package logs by absl, but not its errors."""
    before = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        logging.set_verbosity(before)


_CONTROL = [*range(9), *range(11, 32), *range(127, 160), 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_ESCAPES = {number: repr(chr(number))[1:-1] for number in _CONTROL}


def visible(text: str) -> str:
    """Return a text of others whose characters that control a terminal, or the order of reading, are escapes.

    Tabs and ends of lines stay.

    >>> print(visible("a\x1b[31m"))
    a\\x1b[31m
    """
    return text.translate(_ESCAPES)
