"""Statistics of contacts: how long they last, when they begin again, and what they connect, alone and together.

A contact array [R, N, N] tells who is in contact in each round. It is symmetric: two clients are in contact in a round
if at least one of them hears the other.
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from mdfl_jax.report.read import Run
from mdfl_jax.report.recorded import rounds_counted


def recorded_contacts(run: Run, point: int) -> np.ndarray | None:
    """Return who is in contact in each round of the first seed, from the recorded links.

    Args:
      run: the study.
      point: the index of the sweep point.

    Returns:
      [R, N, N] bool, symmetric, with the R rounds of `rounds_counted`; None if the links were not recorded.
    """
    links, mobile = run.history(point, "links"), run.array(point, "is_mobile")
    if links is None or mobile is None or not links[0].size:
        return None
    hears = np.unpackbits(links[0, : rounds_counted(run, point)], axis=-1, count=len(mobile)).astype(bool)
    return hears | hears.transpose(0, 2, 1)


def degrees(contact: np.ndarray) -> np.ndarray:
    """Return the mean number of clients that a client is in contact with, for each round: [R] float.

    >>> degrees(np.array([[[0, 1], [1, 0]], [[0, 0], [0, 0]]], bool)).tolist()
    [1.0, 0.0]
    """
    return contact.sum(axis=2).mean(axis=1)


def components(contact: np.ndarray) -> np.ndarray:
    """Return the number of connected components of each round's graph: [R] int. A client alone is one of them."""
    return np.array([connected_components(csr_matrix(of_round), directed=False)[0] for of_round in contact], int)


class Spells(NamedTuple):
    """The lengths in rounds of what was seen from its beginning to its end, of all pairs of clients.

    Attributes:
      contacts: the durations of contacts.
      gaps: the inter-contact times: rounds between the end of a contact of a pair and the beginning of its next one.
    """

    contacts: np.ndarray
    gaps: np.ndarray


def spells(contact: np.ndarray) -> Spells:
    """Measure contact durations and inter-contact times (Chaintreau et al. 2007).

    Contacts and gaps that touch the first or the last round are left out, since nobody knows how long they are.

    Args:
      contact: [R, N, N] bool.

    Returns:
      The lengths, each an array of positive whole numbers.
    """
    pairs = contact[:, *np.triu_indices(contact.shape[1], 1)].T.astype(np.int8)  # [pairs, R]
    turns = np.diff(pairs, axis=1)  # 1 where a contact begins in the following round, -1 where one has ended
    pair, at = np.nonzero(turns)  # row by row, so that the turns of a pair follow each other
    begins = turns[pair, at] > 0
    together, lengths = pair[1:] == pair[:-1], np.diff(at)
    return Spells(lengths[together & begins[:-1]], lengths[together & ~begins[:-1]])


def at_least(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the complementary distribution: each length that occurs, and the share of lengths that reach it.

    >>> at_least(np.array([3, 1, 1, 5]))
    (array([1, 3, 5]), array([1.  , 0.5 , 0.25]))
    """
    values, counts = np.unique(lengths, return_counts=True)
    return values, counts[::-1].cumsum()[::-1] / max(len(lengths), 1)


def shortest_windows(contact: np.ndarray) -> np.ndarray:
    """Find the shortest windows of rounds whose contacts together connect all clients.

    Contacts of more rounds connect no less. So the begin of the shortest window never goes back from one end to the
    next, and both go through the rounds once.

    Args:
      contact: [R, N, N] bool.

    Returns:
      [R] int, the number of rounds of the shortest window that ends with each round; 0 if all rounds until then do not
      connect the clients.
    """
    last, begin, found = np.full(contact.shape[1:], -1), -1, []  # last: the round of the last contact of each pair
    for end, of_round in enumerate(contact):
        last[of_round] = end
        while begin < end and connected_components(csr_matrix(last > begin), directed=False)[0] == 1:
            begin += 1
        found.append(end - begin + 1 if begin >= 0 else 0)
    return np.array(found, int)


def share_connected(windows: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the share of windows of each length whose contacts together connect all clients.

    Args:
      windows: [R] the result of `shortest_windows`.
      lengths: [B] numbers of rounds, from 1 to R.

    Returns:
      [B] shares in [0, 1], over the windows that lie within the study.
    """
    within = np.arange(1, len(windows) + 1)[:, None] >= lengths
    connected = within & (windows[:, None] > 0) & (windows[:, None] <= lengths)
    return connected.sum(axis=0) / within.sum(axis=0)


def sure_length(windows: np.ndarray) -> int | None:
    """Return the smallest length of which every window connects all clients; None if no window does.

    Args:
      windows: [R] the result of `shortest_windows`.
    """
    lengths = np.arange(1, len(windows) + 1)
    needed = np.where(windows > 0, windows, len(windows) + 1)
    longest = np.maximum.accumulate(needed[::-1])[::-1]  # of the windows that end with a round or later
    fits = longest <= lengths
    return int(lengths[fits][0]) if fits.any() else None


def in_blocks(values: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return at most ``most`` means of values [R] over blocks of rounds, with the middle of each block, from round 1.

    >>> in_blocks(np.array([1.0, 3.0, 5.0]), 2)
    (array([1.5, 3. ]), array([2., 5.]))
    """
    size = -(-len(values) // most)
    blocks = [values[begin : begin + size] for begin in range(0, len(values), size)]
    middle = [1 + size * k + (len(block) - 1) / 2 for k, block in enumerate(blocks)]
    return np.array(middle), np.array([block.mean() for block in blocks])
