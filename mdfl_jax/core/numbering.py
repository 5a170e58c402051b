"""One rule numbers labels, owners, and the clients of contact lists and graphs: in ascending order from 0.

Clients are renumbered only if there is no client 0, since a number may be missing.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

FEW = 12  # names that a line lists


def numbered(values: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return values numbered from 0 without gaps, in ascending order.

    Args:
      values: an array of any shape and of a type that can be sorted.

    Returns:
      (the K different values in ascending order, the number of each value: int64 of the shape of ``values``).

    >>> numbered(np.array([7, 3, 7]))
    (array([3, 7]), array([1, 0, 1]))
    """
    known, number = np.unique(values, return_inverse=True)
    return known, number.reshape(np.shape(values))


def numbered_clients(values: Any, notes: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of clients, in ascending order from 0 if there is no client 0; else as they are.

    Args:
      values: an array of whole numbers of any shape; numbers below 0 mean no client, and stay.
      notes: gets a line that says how the clients were numbered.

    Returns:
      (the number of each value, the renumbered clients in ascending order; none if all numbers stay).

    >>> numbered_clients([7, -1, 3, 7], []), numbered_clients([0, 3], [])
    ((array([ 1, -1,  0,  1]), array([3, 7])), (array([0, 3]), array([], dtype=int64)))
    """
    known, number = numbered(values)
    nobody = int(np.searchsorted(known, 0))
    known = known[nobody:]
    if not len(known) or known[0] == 0:
        return np.asarray(values), known[:0]
    notes.append(numbering("clients", known))
    return np.where(np.asarray(values) < 0, values, number - nobody), known


def numbering(what: str, known: Sequence[Any] | np.ndarray) -> str:
    """Return in words how values were numbered.

    >>> numbering("labels", [1, 2, 3]), numbering("labels", [10, 200, 3000]), numbering("clients", [5])
    ('labels 1 to 3 are numbered 0 to 2', 'labels 10, 200, 3000 are numbered 0, 1, 2', 'clients 5 are numbered 0')
    """
    names, last = list(known), len(known) - 1
    if last > 0 and all(isinstance(name, (int, np.integer)) for name in names) and names[-1] - names[0] == last:
        return f"{what} {names[0]} to {names[-1]} are numbered 0 to {last}"
    more = ", ..." if last >= FEW else ""
    shown = ", ".join(map(str, names[:FEW])) + more
    return f"{what} {shown} are numbered {', '.join(map(str, range(min(last + 1, FEW))))}{more}"


def natural(name: Any) -> list[tuple[bool, int, str]]:
    """Return a key by which names are sorted with the numbers within them in the order of numbers: p2 before p10."""
    parts = re.split(r"(\d+)", str(name))
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts if part]
