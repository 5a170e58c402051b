"""Describes a trace: its speeds, the presence of its nodes, and their contacts within a radius."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from mdfl_jax.core.errors import UserError
from mdfl_jax.traces.reading import like_degrees
from mdfl_jax.traces.resampling import (
    MAX_ROUNDS,
    chunks,
    contact_table,
    longest_gap,
    places_at,
    presence,
    round_times,
    spacing,
)
from mdfl_jax.traces.trace import Contacts, Trace

YEAR = 365 * 86_400.0
SHORTEST = 1e-3  # seconds between samples below which a trace is probably in another unit
INSTANTS = 100  # contacts are counted in this many evenly spaced rounds
FASTEST = 150.0  # m/s of a node on the way, above which a column or a unit is probably another one
_BINS_PER_MS = 100
_TOP_SPEED = 1000  # m/s; for the median, all higher speeds share one bin


class Speeds(NamedTuple):
    """Speeds in m/s between consecutive samples of a node, weighted by the time between them.

    Attributes:
      mean: all metres divided by all seconds.
      median: the median, with a resolution of 0.01 m/s.
      largest: the largest speed between two consecutive samples.
      metres: [M] float64 length of each node's path.
    """

    mean: float
    median: float
    largest: float
    metres: np.ndarray


def speeds(trace: Trace) -> Speeds:
    """Measure the speeds of a trace. It reads a bounded number of samples at once, which limits the memory."""
    num_nodes = len(trace.ids)
    last = np.full((3, num_nodes), np.nan)  # time, x and y of the latest sample of each node
    histogram = np.zeros(_BINS_PER_MS * _TOP_SPEED + 1)
    metres, seconds, largest = np.zeros(num_nodes), 0.0, 0.0
    for time, node, part in chunks(trace):
        order = np.argsort(node, kind="stable")
        owner = node[order]
        now = np.stack([time[order], trace.x[part][order].astype(float), trace.y[part][order].astype(float)])
        opening = np.concatenate([[True], owner[1:] != owner[:-1]])
        before = np.roll(now, 1, axis=1)
        before[:, opening] = last[:, owner[opening]]
        closing = np.append(opening[1:], True)
        last[:, owner[closing]] = now[:, closing]
        follows = ~np.isnan(before[0])
        step = (now - before)[:, follows]
        way = np.hypot(step[1], step[2])
        speed = way / step[0]
        metres += np.bincount(owner[follows], weights=way, minlength=num_nodes)
        seconds += float(step[0].sum())
        largest = max(largest, float(speed.max(initial=0.0)))
        bins = (speed * _BINS_PER_MS + 0.5).clip(max=len(histogram) - 1).astype(int)
        histogram += np.bincount(bins, weights=step[0], minlength=len(histogram))
    running = np.cumsum(histogram)
    median = int(np.searchsorted(running, running[-1] / 2)) / _BINS_PER_MS if seconds else 0.0
    return Speeds(float(metres.sum()) / seconds if seconds else 0.0, median, largest, metres)


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
    graph = coo_array((np.ones(len(pairs), bool), (pairs[:, 0], pairs[:, 1])), shape=(num_present, num_present))
    count, member = connected_components(graph, directed=False)
    size = np.bincount(member)
    return LinkStats(num_present, len(pairs), int((size == 1).sum()), int(count), int(size.max()))


def describe(loaded: Trace | Contacts, radius: float = 100.0, dt: float = 0.0) -> list[tuple[str, str]]:
    """Describe a trace in words, as (what, value) pairs.

    Args:
      loaded: a trace of places, or a contact list.
      radius: two nodes within this many metres are in contact. It is not used for a contact list.
      dt: seconds per round. 0 takes the median time between two samples of an id; for a contact list in seconds a
        hundredth of its length, and for one by rounds one round.

    Raises:
      UserError: for a radius or ``dt`` out of range.
    """
    if not radius >= 0:
        raise UserError(f"radius is {radius:g}; it must be at least 0 metres")
    if not (np.isfinite(dt) and dt >= 0):
        raise UserError(f"dt is {dt:g}; it must be at least 0 seconds")
    return _of_contacts(loaded, dt) if isinstance(loaded, Contacts) else _of_trace(loaded, radius, dt)


def _of_trace(trace: Trace, radius: float, dt: float) -> list[tuple[str, str]]:
    begin, end = float(trace.times[0]), float(trace.times[-1])
    pace = speeds(trace)
    first, last = presence(trace)
    between = spacing(trace)
    still = int((pace.metres == 0).sum())
    lines = [
        ("format", trace.format),
        *([("columns", trace.why)] if trace.why else []),
        ("ids", f"{len(trace.ids):,} ({_some(trace.ids)})"),
        ("samples", f"{len(trace.node):,} at {len(trace.times):,} instants"),
        ("time", f"{begin:.12g} to {end:.12g} s, a sample of an id every {between:g} s (median)"),
        ("area", _area(trace)),
        ("speed", f"mean {pace.mean:.2f}, median {pace.median:.2f}, largest {pace.largest:.2f} m/s"),
        ("still", f"{still:,} ids never move"),
        ("presence", "always, by waypoints" if trace.waypoints else f"median {np.median(last - first):g} s an id"),
    ]
    lines += [("warning", text) for text in _warnings(begin, end, between, len(trace.ids), pace)]
    dt = dt or between
    if end - begin > dt * MAX_ROUNDS > 0:
        return [*lines, ("rounds", f"none: more than {MAX_ROUNDS:,} of {dt:g} s, which no study may have")]
    if end - begin < dt or not dt:
        return [*lines, ("rounds", f"none: the trace is shorter than a round of {dt:g} s" if dt else "none")]
    when = round_times(trace, dt)
    picked = when[np.unique(np.linspace(0, len(when) - 1, INSTANTS).astype(int))]
    position, known, held, _ = places_at(trace, picked, np.arange(len(trace.ids)), len(trace.ids), longest_gap(trace))
    there = known | held if trace.waypoints else known
    stats = []
    for place, present in zip(position, there):
        pairs = cKDTree(place[present]).query_pairs(radius, output_type="ndarray")
        stats.append(link_stats(pairs, int(present.sum())))
    rounds = f"{len(when) - 1:,} of {dt:g} s; contacts at radius {radius:g} m, at {len(picked)} of their beginnings:"
    return [*lines, ("rounds", rounds), *_of_links(stats)]


def _warnings(begin: float, end: float, between: float, num_ids: int, pace: Speeds | None = None) -> list[str]:
    """Return a line for each fact of a trace that is allowed and probably a mistake."""
    found = []
    if not between:
        found.append(f"{'the id has' if num_ids == 1 else 'no id has more than'} one sample, so nobody is seen to move")
    elif between < SHORTEST:
        found.append(f"a sample of an id every {between:g} s; are the times in seconds?")
    if pace and pace.mean > FASTEST:
        found.append(f"a mean speed of {pace.mean:,.0f} m/s; are the columns, the times and the places what they seem?")
    if end - begin > YEAR:
        found.append(f"it lasts {(end - begin) / YEAR:,.1f} years; are the times in seconds?")
    return found


def _of_contacts(contacts: Contacts, dt: float) -> list[tuple[str, str]]:
    begin, end = float(contacts.start.min()), float(contacts.end.max())
    num_clients = int(contacts.pair.max()) + 1
    unit = "rounds" if contacts.in_rounds else "s"
    last = end - 1 if contacts.in_rounds else end
    dt = dt or (1.0 if contacts.in_rounds else (end - begin) / 100 or 1.0)
    warnings = [] if contacts.in_rounds else _warnings(begin, end, np.inf, num_clients)
    table = contact_table(contacts, num_clients, dt=dt)
    picked = np.unique(np.linspace(0, len(table.offsets) - 2, INSTANTS).astype(int))
    stats = []
    for k in picked:
        edges = table.edges[table.offsets[k] : table.offsets[k + 1]]
        stats.append(link_stats(edges[edges[:, 0] < edges[:, 1]], num_clients))
    rounds = f"{len(table.offsets) - 1:,} of {dt:g} {unit}; contacts in {len(picked)} of them:"
    return [
        ("format", contacts.format),
        ("ids", _ids(contacts)),
        ("samples", f"{len(contacts.pair):,} contacts"),
        ("time", f"{begin:.12g} to {last:.12g} {unit}"),
        *(("warning", text) for text in warnings),
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
        ("there", f"mean {present.mean():.1f}, largest {present.max():.0f} ids at once"),
        ("contacts", f"mean {contacts.mean():.1f}, largest {contacts.max():.0f} pairs a round"),
        ("degree", f"mean {2 * contacts.sum() / clients:.2f}; without a neighbour {alone.sum() / clients:.1%}"),
        ("components", f"mean {components.mean():.1f}; the largest holds {largest.sum() / clients:.1%} of those there"),
    ]


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")


def _area(trace: Trace) -> str:
    low, high = (np.array([f(trace.x), f(trace.y)], float) for f in (np.min, np.max))
    width, height = high - low
    if trace.format.endswith("_geo"):
        return f"{width:,.1f} x {height:,.1f} m about longitude {trace.origin[0]:.5f}, latitude {trace.origin[1]:.5f}"
    x, y = low + trace.origin
    hint = "; degrees? then give the format with _geo" if like_degrees(trace) else ""
    return f"{width:,.1f} x {height:,.1f} m from x = {x:,.1f}, y = {y:,.1f}{hint}"
