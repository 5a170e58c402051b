"""The error of a user's mistake, and the sentence that names a mistyped name."""

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """A mistake of the user, told in one line: the field, its value and what is allowed.

    The launchers print the line on standard error and exit with status 2; a library caller catches a ``ValueError``.
    """


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """The line for a name that is not among those known, with the nearest one suggested.

    >>> unknown_name("mixing", "fedavgg", ["fedavg", "metropolis_hastings"])
    "unknown mixing 'fedavgg' (did you mean 'fedavg'?); known: fedavg, metropolis_hastings"
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"unknown {kind} {name!r}{hint}; known: {', '.join(names)}"
