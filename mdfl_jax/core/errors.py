"""The exception for mistakes of the user, and the error line for an unknown name."""

import contextlib
import difflib
import errno
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from absl import logging

_MOST = 24  # names in an error line
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
    """Put a text before the error lines that are raised within this context.

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
    """Return the size of a failed allocation in words; None for an error of another kind.

    The result is '' if the error does not contain the size. On a CPU the allocation fails in another thread, and JAX
    reports an internal error.

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

    If more than `_MOST` names are known, the line has only the suggested name, or some similar ones, and their number.

    Args:
      kind: what the name chooses, for example "mixing".
      name: the unknown name.
      known: the allowed names; an empty name is not shown.

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

    The last part of a name with dots is enough: the section may be another one or missing. A name of several words may
    stand for the initials of a known name.

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
      what: the flag or field of the path, for example "--workdir".
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
    """Return JAX's error about a variable of the environment as one line; "" for any other error.

    JAX reads its variables when it is imported.
    """
    text = str(error)
    given = {name: value for name, value in os.environ.items() if name.startswith("JAX_") and value}
    named = [name for name in given if name in text.upper()] or [name for name in given if repr(given[name]) in text]
    return f"the variable {named[0]} is {given[named[0]]!r}: {text}" if named else ""


@contextlib.contextmanager
def warnings_off() -> Iterator[None]:
    """Hide the warnings that packages log by absl, but not their errors."""
    before = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        logging.set_verbosity(before)


_CONTROL = [*range(9), *range(11, 32), *range(127, 160), 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_ESCAPES = {number: repr(chr(number))[1:-1] for number in _CONTROL}


def visible(text: str) -> str:
    """Return a foreign text with escapes for characters that control a terminal or the reading direction.

    Tabs and ends of lines stay.

    >>> print(visible("a\x1b[31m"))
    a\\x1b[31m
    """
    return text.translate(_ESCAPES)
