"""Makes the links of each round from a contact list."""

from collections.abc import Callable

import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.traces.resample import MAX_ROUNDS
from mdfl_jax.traces.types import Contacts, ContactTable

MOST_LINKS = 100_000_000  # of all rounds; each takes about 50 bytes while the table is made


def _rounds(number: np.ndarray, rounded: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Return the rounds of numbers as int64, which has no number for those that are far beyond any study."""
    return rounded(number.clip(-(2.0**60), 2.0**60)).astype(np.int64)


def contact_table(
    contacts: Contacts,
    num_clients: int,
    rounds: int = 0,
    dt: float = 1.0,
    start: float | None = None,
    directed: bool = False,
) -> ContactTable:
    """Make the links of R rounds from a contact list. Repeated contacts in one round count as one link.

    Round k lasts from ``start + k dt`` until just before ``start + (k + 1) dt``. It has every contact that was on at
    some instant of it. For a list by rounds, ``dt`` and ``start`` are in rounds of the list.

    Args:
      contacts: the list.
      num_clients: N.
      rounds: R; 0 goes on until the last contact ends. Contacts outside of the rounds are left out.
      dt: seconds per round, above 0.
      start: time in seconds at which round 0 begins; None is the first contact's start, or 0 for a list by rounds.
      directed: ``i,j`` says only that i hears j; else they hear each other.

    Raises:
      UserError: for a number out of range, or a contact of a client that does not exist.
    """
    _check(contacts, num_clients, rounds, dt)
    begin = start if start is not None else 0.0 if contacts.in_rounds else float(contacts.start.min())
    with np.errstate(over="ignore"):
        first = _rounds((contacts.start - begin) / dt + 1e-9, np.floor)
        # A contact lasts until just before its end, but at least for an instant.
        last = np.maximum(_rounds((contacts.end - begin) / dt - 1e-9, np.ceil) - 1, first)
    rounds = rounds or max(int(last.max()) + 1, 1)
    if rounds > MAX_ROUNDS:
        raise UserError(f"the contacts span {rounds:,} rounds of dt {dt:g}; at most {MAX_ROUNDS:,} are allowed")
    if rounds * num_clients**2 >= 2**63:  # the pairs of all rounds are numbered below
        raise UserError(f"num_clients is {num_clients:,}; that is too many for {rounds:,} rounds of a contact list")
    first, last = first.clip(0), last.clip(-1, rounds - 1)
    count = (last - first + 1).clip(0)
    if (links := int(count.sum(dtype=float))) > MOST_LINKS:
        raise UserError(
            f"dt is {dt:g}, which makes {links:,} links of the contacts; at most {MOST_LINKS:,} are allowed"
        )
    line = np.repeat(np.arange(len(count)), count)
    at = first[line] + np.arange(len(line)) - np.repeat(np.cumsum(count) - count, count)
    i, j = contacts.pair[line].T.astype(np.int64)
    code = (at * num_clients + i) * num_clients + j
    if not directed:
        code = np.concatenate([code, (at * num_clients + j) * num_clients + i])
    code.sort()
    code = code[np.concatenate([[True], code[1:] > code[:-1]])] if len(code) else code
    at, pair = np.divmod(code, num_clients**2)
    edges = np.stack(np.divmod(pair, num_clients), axis=1).astype(np.int32)
    return ContactTable(edges, np.searchsorted(at, np.arange(rounds + 1)), num_clients)


def _check(contacts: Contacts, num_clients: int, rounds: int, dt: float) -> None:
    if num_clients < 1:
        raise UserError(f"num_clients is {num_clients}; it must be at least 1")
    if not (np.isfinite(dt) and dt > 0):
        raise UserError(f"dt is {dt}; it must be above 0")
    if rounds < 0:
        raise UserError(f"rounds is {rounds}; it must be at least 0")
    if contacts.pair.max() >= num_clients:
        row = int(np.argmax(contacts.pair.max(axis=1)))
        named = contacts.pair[row].tolist()
        unit = "in round" if contacts.in_rounds else "at time"
        raise UserError(
            f"trace {contacts.source!r}: the contact {named[0]},{named[1]} {unit} {contacts.start[row]:g} names client"
            f" {max(named)}; there are {num_clients} clients, 0 to {num_clients - 1}"
        )
