"""Describes a trace: its speeds, the presence of its nodes, and their contacts within a radius."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.traces.plausible import doubts, heights_of, like_degrees, speeds_of, stay
from mdfl_jax.traces.resampling import (
    GAPS,
    MAX_ROUNDS,
    contact_table,
    gap_rule,
    longest_gap,
    places_at,
    round_times,
    spacings,
    typical,
)
from mdfl_jax.traces.trace import Contacts, Trace

INSTANTS = 100  # contacts are counted in this many evenly spaced rounds
REACH = np.float32(1 + 1e-6)  # of a squared radius, as `mdfl_jax.core.geometry.squared_reach` has it


class LinkStats(NamedTuple):
    """Statistics of the contacts at one instant.

    Attributes:
      present: number of clients that are present.
      contacts: number of pairs in contact.
      alone: number of present clients without a neighbour.
      components: number of connected components of the present clients.
      largest: number of clients in the largest component.
    """

    present: int
    contacts: int
    alone: int
    components: int
    largest: int


def link_stats(pairs: np.ndarray, num_present: int) -> LinkStats:
    """Compute the statistics of a contact graph.

    Args:
      pairs: [E, 2] pairs of nodes from 0 to ``num_present`` - 1, each pair once.
      num_present: number of nodes.

    >>> link_stats(np.array([[0, 1], [1, 2]]), 5)
    LinkStats(present=5, contacts=2, alone=2, components=3, largest=3)
    """
    if not num_present:
        return LinkStats(0, 0, 0, 0, 0)
    from scipy.sparse import coo_array  # importing it takes a fifth of a second, which no study without a trace needs
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(pairs), bool), (pairs[:, 0], pairs[:, 1])), shape=(num_present, num_present))
    count, member = connected_components(graph, directed=False)
    size = np.bincount(member)
    return LinkStats(num_present, len(pairs), int((size == 1).sum()), int(count), int(size.max()))


def in_contact(position: np.ndarray, radius: float) -> np.ndarray:
    """Find the pairs that are in contact: those at most a radius apart, in single precision as in a study.

    Args:
      position: [n, 2] float32 places of those who are present.
      radius: the communication radius of all.

    Returns:
      [E, 2] pairs of indices, each pair once. A study counts two links, one in each direction.
    """
    if not len(position):
        return np.zeros((0, 2), int)
    from scipy.spatial import cKDTree  # as above

    pairs = cKDTree(position).query_pairs(radius * (1 + 1e-5), output_type="ndarray")
    apart = np.square(position[pairs[:, 0]] - position[pairs[:, 1]]).sum(axis=1, dtype=np.float32)
    return pairs[apart <= np.square(np.float32(radius)) * REACH]


def describe_trace(
    loaded: Trace | Contacts, radius: float = 100.0, dt: float = 0.0, gaps: str = "auto"
) -> list[tuple[str, str]]:
    """Describe a trace in words, as (what, value) pairs.

    The contacts are those that a study of all its nodes has with ``network.contact=disc``: pairs of nodes that are
    present and in range when a round begins.

    Args:
      loaded: a trace of places, or a contact list.
      radius: two nodes within this many metres are in contact. It is not used for a contact list.
      dt: seconds per round. 0 takes the median time between two samples of an id; for a contact list in seconds a
        hundredth of its length, and for one by rounds one round.
      gaps: what nodes do while the trace does not say where they are, as in `mdfl_jax.traces.resample`.

    Raises:
      UserError: for a radius, ``dt`` or ``gaps`` out of range.
    """
    if not radius >= 0:
        raise UserError(f"radius is {radius:g}; it must be at least 0 metres")
    if not (np.isfinite(dt) and dt >= 0):
        raise UserError(f"dt is {dt:g}; it must be at least 0 seconds")
    if gaps not in GAPS:
        raise UserError(unknown_name("rule for gaps", gaps, GAPS))
    return _of_contacts(loaded, dt) if isinstance(loaded, Contacts) else _of_trace(loaded, radius, dt, gaps)


def _of_trace(trace: Trace, radius: float, dt: float, gaps: str) -> list[tuple[str, str]]:
    begin, end = float(trace.times[0]), float(trace.times[-1])
    pace, between = speeds_of(trace), spacings(trace)
    usual = typical(between)
    still = int((pace.metres == 0).sum())
    lines = [
        ("format", f"{trace.format}: {trace.why}" if trace.why else trace.format),
        ("ids", f"{len(trace.ids):,} ({_some(trace.ids)})"),
        *([("types", _counted(trace.kinds))] if trace.kinds else []),
        ("samples", f"{len(trace.node):,} at {len(trace.times):,} instants"),
        ("time", f"{begin:.12g} to {end:.12g} s, a sample of an id every {usual:g} s (median)"),
        ("area", _area(trace)),
        *([("heights", heights)] if (heights := heights_of(trace)) else []),
        ("speed", f"mean {pace.mean:.2f}, median {pace.median:.2f}, largest {pace.largest:.2f} m/s"),
        ("still", f"{still:,} ids never move"),
        ("presence", stay(trace, gaps)),
    ]
    lines += [("warning", text) for text in doubts(trace, usual)]
    dt = dt or usual
    if end - begin > dt * MAX_ROUNDS > 0:
        return [*lines, ("rounds", f"none: more than {MAX_ROUNDS:,} of {dt:g} s, which no study may have")]
    if end - begin < dt or not dt:
        return [*lines, ("rounds", f"none: the trace is shorter than a round of {dt:g} s" if dt else "none")]
    when = round_times(trace, dt)[:-1]
    picked = when[np.unique(np.linspace(0, len(when) - 1, INSTANTS).astype(int))]
    everybody = np.arange(len(trace.ids))
    position, known, held, _ = places_at(trace, picked, everybody, len(everybody), longest_gap(trace, between=between))
    there = known | held if trace.stays or gap_rule(trace, gaps) == "hold" else known
    stats = []
    for place, present in zip(position[..., :2], there):
        stats.append(link_stats(in_contact(place[present], radius), int(present.sum())))
    rounds = f"{len(when):,} of {dt:g} s; contacts at radius {radius:g} m, at {len(picked)} of their beginnings:"
    return [*lines, ("rounds", rounds), *_of_links(stats)]


def _of_contacts(contacts: Contacts, dt: float) -> list[tuple[str, str]]:
    begin, end = float(contacts.start.min()), float(contacts.end.max())
    num_clients = int(contacts.pair.max()) + 1
    unit = "rounds" if contacts.in_rounds else "s"
    last = end - 1 if contacts.in_rounds else end
    dt = dt or (1.0 if contacts.in_rounds else (end - begin) / 100 or 1.0)
    table = contact_table(contacts, num_clients, dt=dt)
    picked = np.unique(np.linspace(0, len(table.offsets) - 2, INSTANTS).astype(int))
    stats = []
    for k in picked:
        edges = table.edges[table.offsets[k] : table.offsets[k + 1]]
        stats.append(link_stats(edges[edges[:, 0] < edges[:, 1]], num_clients))
    rounds = f"{len(table.offsets) - 1:,} of {dt:g} {unit}; contacts in {len(picked)} of them:"
    return [
        ("format", f"{contacts.format}: {contacts.why}" if contacts.why else contacts.format),
        ("ids", _ids(contacts)),
        *([("types", _counted(contacts.kinds))] if contacts.kinds else []),
        ("samples", f"{len(contacts.pair):,} contacts"),
        ("time", f"{begin:.12g} to {last:.12g} {unit}"),
        *(("warning", text) for text in doubts(contacts)),
        ("rounds", rounds),
        *_of_links(stats),
    ]


def _ids(contacts: Contacts) -> str:
    count, low, high = len(np.unique(contacts.pair)), int(contacts.pair.min()), int(contacts.pair.max())
    if not contacts.ids:
        return f"{count:,}, from {low} to {high}"
    return f"{count:,}, clients 0 to {high} in this order: {_some(contacts.ids)}"


def _of_links(stats: Sequence[LinkStats]) -> list[tuple[str, str]]:
    present, contacts, alone, components, largest = np.array(stats, float).T
    clients = max(present.sum(), 1.0)
    return [
        ("nodes present", f"mean {present.mean():.1f}, max {present.max():.0f}"),
        ("contacts", f"mean {contacts.mean():.1f}, largest {contacts.max():.0f} pairs a round; a pair is two links"),
        ("degree", f"mean {2 * contacts.sum() / clients:.2f}; without a neighbour {alone.sum() / clients:.1%}"),
        (
            "components",
            f"mean {components.mean():.1f}; the largest holds {largest.sum() / clients:.1%} of those present",
        ),
    ]


def _counted(kinds: Sequence[str]) -> str:
    return ", ".join(f"{count:,} {kind or '(none)'}" for kind, count in Counter(kinds).most_common(8))


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")


def _area(trace: Trace) -> str:
    low, high = (np.array([f(trace.x), f(trace.y)], float) for f in (np.min, np.max))
    width, height = high - low
    if trace.format.endswith("_geo"):
        return f"{width:,.1f} x {height:,.1f} m about longitude {trace.origin[0]:.5f}, latitude {trace.origin[1]:.5f}"
    x, y = low + trace.origin
    hint = "; they look like degrees, and are read as metres" if like_degrees(trace) else ""
    return f"{width:,.1f} x {height:,.1f} m from x = {x:,.1f}, y = {y:,.1f}{hint}"
