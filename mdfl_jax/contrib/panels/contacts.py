"""The panel of the contacts: how the network changes, when contacts begin again, and what windows of rounds connect.

A contact array [R, N, N] tells who is in contact in each round. It is symmetric: two clients are in contact in a round
if at least one of them can receive from the other. An array of the same form has the pairs of whom one did receive from
the other, and tells what windows of rounds connect: models travel only by what is received.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from mdfl_jax.report.picture import DISC, Picture, Plot, Scale, Series
from mdfl_jax.report.registry import figure
from mdfl_jax.report.style import describe_end, describe_first_seed, looks
from mdfl_jax.results.results import Results, rounds_counted


class _Contacts(NamedTuple):
    """Who was in contact in each of R rounds, and of whom one received from the other, [R, N, N]."""

    contact: np.ndarray
    exchange: np.ndarray


def recorded_contacts(study: Results, point: int) -> _Contacts | None:
    """Return the contacts of the first seed in the rounds of `rounds_counted`; None if they were not recorded."""
    links, heard, mobile = study.history(point, "links"), study.heard(point), study.first_seed(point, "is_mobile")
    if links is None or heard is None or mobile is None or not links[0].size:
        return None
    rounds = rounds_counted(study, point)
    near, hears = (np.unpackbits(of[0, :rounds], axis=-1, count=len(mobile)).astype(bool) for of in (links, heard))
    return _Contacts(near | near.transpose(0, 2, 1), hears | hears.transpose(0, 2, 1))


def mean_degrees(contact: np.ndarray) -> np.ndarray:
    """Return the mean number of clients that a client is in contact with, for each round: [R] float.

    >>> mean_degrees(np.array([[[0, 1], [1, 0]], [[0, 0], [0, 0]]], bool)).tolist()
    [1.0, 0.0]
    """
    return contact.sum(axis=2).mean(axis=1)


def count_components(contact: np.ndarray) -> np.ndarray:
    """Return the number of connected components of each round's graph: [R] int. A client alone is one of them."""
    return np.array([connected_components(csr_matrix(of_round), directed=False)[0] for of_round in contact], int)


class Spells(NamedTuple):
    """The lengths in rounds of the contacts and gaps of all pairs that were seen from their beginning to their end.

    Attributes:
      contacts: the durations of contacts.
      gaps: the inter-contact times: rounds between the end of a contact of a pair and the beginning of its next one.
    """

    contacts: np.ndarray
    gaps: np.ndarray


def measure_spells(contact: np.ndarray) -> Spells:
    """Measure contact durations and inter-contact times (Chaintreau et al. 2007) of contacts [R, N, N].

    Contacts and gaps that touch the first or the last round are left out, since nobody knows how long they are.
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
    """Return for each round the length of the shortest window that ends with it and connects all clients, [R] int.

    It is 0 if all rounds until then do not connect the clients. Contacts [R, N, N] of more rounds connect no less. So
    the begin of the shortest window never goes back from one end to the next, and both go through the rounds once.
    """
    last, begin, found = np.full(contact.shape[1:], -1), -1, []  # last: the round of the last contact of each pair
    for end, of_round in enumerate(contact):
        last[of_round] = end
        while begin < end and connected_components(csr_matrix(last > begin), directed=False)[0] == 1:
            begin += 1
        found.append(end - begin + 1 if begin >= 0 else 0)
    return np.array(found, int)


def share_connected(windows: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the share of windows of each length whose contacts together connect all clients, [B] in [0, 1].

    Only windows that lie within the study count. The shortest ones are those of `shortest_windows` [R], and the lengths
    [B] are numbers of rounds from 1 to R.
    """
    within = np.arange(1, len(windows) + 1)[:, None] >= lengths
    connected = within & (windows[:, None] > 0) & (windows[:, None] <= lengths)
    return connected.sum(axis=0) / within.sum(axis=0)


def sure_length(windows: np.ndarray) -> int | None:
    """Return the smallest length of which every window connects all clients; None if no window does.

    The shortest windows [R] are those of `shortest_windows`.
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


_MOST_POINTS = 12  # sweep points in the panel; others would hide each other
MOST_TIMES = 50  # values of a line over the rounds


class _View(NamedTuple):
    """One panel of the picture: its name, its title, the titles of its axes, and which axes are logarithmic."""

    key: str
    title: str
    x: str
    y: str
    logx: bool = False
    logy: bool = False


_VIEWS = (
    _View("windows", "Jointly connected windows", "rounds of a window", "jointly connected windows (%)", logx=True),
    _View("components", "Separate groups", "round", "connected components"),
    _View("degree", "Contacts of a client", "round", "contacts of a client"),
    _View("gaps", "Inter-contact times", "x: rounds until the next contact", "P(gap >= x)", True, True),
    _View("durations", "Contact durations", "x: rounds of a contact", "P(duration >= x)", True, True),
)


class Lines(NamedTuple):
    """The lines of a sweep point, or of several that have the same contacts.

    Attributes:
      point: the index of the first of these sweep points.
      label: its name, and how many others there are.
      found: (x, y) by the key of the view.
      typical: numbers for the caption: means over the rounds, and the length of which every window connects, or None.
    """

    point: int
    label: str
    found: dict[str, tuple[np.ndarray, np.ndarray]]
    typical: dict[str, float | None]


class _Measured(NamedTuple):
    """What was measured of a study: the shown lines, and the number of different networks."""

    lines: list[Lines]
    networks: int


def _measured(study: Results) -> _Measured:
    """Measure the contacts of the sweep points that differ in them, at most `_MOST_POINTS`."""
    styles, groups = looks(study), dict[bytes, list[int]]()
    for p in range(len(study.points)):
        links = study.history(p, "links")
        if links is not None and links[0].size:
            counted, heard = rounds_counted(study, p), study.history(p, "heard")
            seen = [of[0, :counted].tobytes() for of in (links, heard) if of is not None]
            groups.setdefault(b"".join(seen), []).append(p)
    chosen = list(groups.values())
    if len(chosen) > _MOST_POINTS:
        chosen = [chosen[i] for i in np.linspace(0, len(chosen) - 1, _MOST_POINTS).round().astype(int)]
    found = []
    for first, *others in chosen:
        contacts = recorded_contacts(study, first)
        if contacts is not None:
            label = "all sweep points" if len(chosen) == 1 and others else styles[first].label
            label += f" and {len(others)} more" if others and len(chosen) > 1 else ""
            found.append(Lines(first, label, *_statistics(contacts)))
    return _Measured(found, len(groups))


def _statistics(contacts: _Contacts) -> tuple[dict[str, Any], dict[str, float | None]]:
    contact, exchange = contacts
    windows = shortest_windows(exchange)
    lengths = np.unique(np.geomspace(1, len(contact), 80).round().astype(int))
    groups, degree, seen = count_components(exchange), mean_degrees(contact), measure_spells(contact)
    found = {
        "components": in_blocks(groups, MOST_TIMES),
        "degree": in_blocks(degree, MOST_TIMES),
        "windows": (lengths, 100 * share_connected(windows, lengths)),
        "gaps": at_least(seen.gaps),
        "durations": at_least(seen.contacts),
    }
    typical = {"groups": float(groups.mean()), "degree": float(degree.mean()), "window": sure_length(windows)}
    return {key: xy for key, xy in found.items() if len(xy[0])}, typical


def _caption(study: Results, shown: _Measured) -> str:
    lines, networks = shown
    some = f", of {len(lines)} of the {networks} different networks" if networks > len(lines) else ""
    until = f", until {describe_end(study)}" if "round" in study.summary else ""
    means = [f"{of.label}: {of.typical['degree']:.1f} and {_in_rounds(of.typical['window'])}" for of in lines[:4]]
    return (
        f"Who receives from whom under {describe_first_seed(study)}{some}{until}; a window of rounds is jointly"
        " connected if all that is received in it makes a connected graph. The mean number of contacts of a client in a"
        f" round, and the length of which every window is jointly connected: {'; '.join(means)}."
    )


def _in_rounds(window: float | None) -> str:
    return "none" if window is None else f"{window:.0f} round{'s' if window > 1 else ''}"


def _applies(study: Results) -> bool:  # measuring takes seconds for many clients
    return any(study.has(p, "links") for p in range(len(study.points)))


@figure("contacts", of=_measured, caption=_caption, applies=_applies, place=55, title="Contacts")
def contacts(study: Results, shown: _Measured) -> Picture:
    """Draw the statistics of the contacts of the first seed, a line for each sweep point."""
    styles = looks(study)

    def plot(view: _View) -> Plot:
        found = [(of, styles[of.point], of.found[view.key]) for of in shown.lines if view.key in of.found]
        lines = [
            Series(of.label, look.colour, x, y, dash=look.dash, mark=DISC if len(x) < 2 else "", legend=of.label)
            for of, look, (x, y) in found
        ]
        return Plot(view.title, Scale(view.x, view.logx), Scale(view.y, view.logy, bounds=(0, np.inf)), lines)

    views = [view for view in _VIEWS if any(view.key in of.found for of in shown.lines)]
    return Picture(list(map(plot, views)), size=(3.1, 2.5))
