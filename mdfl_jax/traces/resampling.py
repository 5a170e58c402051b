"""Resamples a trace to rounds.

Of a trace of places, the result says which vehicle each client is, where it is when a round begins, and whether it is
present. Of a contact list, it has the links of each round.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.traces.trace import Contacts, ContactTable, Trace, TraceTable

VEHICLES = ("longest", "first", "reuse")
_FEW = 64  # times between samples of a node by which its gaps are told
CHUNK = 1 << 16  # samples processed at once, so that a large trace needs little further memory
GAPS = ("auto", "hold", "absent")
MAX_ROUNDS = 10_000_000  # so that a mistyped dt gives an error and does not exhaust the memory
MOST_PLACES = 500_000_000  # of all clients in all rounds; each takes about 20 bytes while the table is made
MOST_LINKS = 100_000_000  # of all rounds; each takes about 50 bytes while the table is made


def presence(trace: Trace, begin: float = -np.inf, end: float = np.inf) -> tuple[np.ndarray, np.ndarray]:
    """Find the first and the last instant of each node between two times.

    Args:
      trace: the trace.
      begin: seconds.
      end: seconds.

    Returns:
      [M] and [M] float64 seconds, NaN for nodes without a sample between the two times.
    """
    first, last = np.full(len(trace.ids), np.nan), np.full(len(trace.ids), np.nan)
    for time, node, _ in chunks(trace, begin, end):
        last[node] = time  # NumPy keeps the last value of a repeated index
        unseen = np.isnan(first[node[::-1]])
        first[node[::-1][unseen]] = time[::-1][unseen]
    return first, last


def chunks(trace: Trace, begin: float = -np.inf, end: float = np.inf) -> Iterator[tuple[np.ndarray, np.ndarray, slice]]:
    """Yield the samples between two times in parts of at most `CHUNK`: their times, nodes and slice of the columns."""
    low = int(trace.offsets[np.searchsorted(trace.times, begin, side="left")])
    high = int(trace.offsets[np.searchsorted(trace.times, end, side="right")])
    for at in range(low, high, CHUNK):
        part = slice(at, min(at + CHUNK, high))
        instant = np.searchsorted(trace.offsets, np.arange(part.start, part.stop), side="right") - 1
        yield trace.times[instant], trace.node[part], part


def spacings(trace: Trace) -> np.ndarray:
    """Compute the median time in seconds between consecutive samples of each node, [M] float64; NaN of one sample.

    Only the first `_FEW` times of a node are used, so the memory is that of at most so many of each node.
    """
    wanted = np.minimum(np.bincount(trace.node, minlength=len(trace.ids)), _FEW + 1)
    starts = np.cumsum(wanted) - wanted
    found, count = np.empty(wanted.sum()), np.zeros(len(trace.ids), int)
    for time, node, _ in chunks(trace):
        order = np.argsort(node, kind="stable")
        owner = node[order]
        rank = count[owner] + np.arange(len(owner)) - np.searchsorted(owner, owner)
        few = rank < wanted[owner]
        found[starts[owner[few]] + rank[few]] = time[order][few]
        count += np.bincount(owner, minlength=len(count))
        if (count >= wanted).all():
            break
    owner = np.repeat(np.arange(len(trace.ids)), wanted)
    between = np.diff(found)[owner[1:] == owner[:-1]]
    owner = owner[1:][owner[1:] == owner[:-1]]
    between = between[np.lexsort((between, owner))]
    steps = (wanted - 1).clip(0)
    first = np.cumsum(steps) - steps
    medians = np.full(len(trace.ids), np.nan)
    some = steps > 0
    low, high = first[some] + (steps[some] - 1) // 2, first[some] + steps[some] // 2
    medians[some] = (between[low] + between[high]) / 2
    return medians


def typical(between: np.ndarray) -> float:
    """Return the median over the nodes of `spacings`, 0 where no node has two samples."""
    known = between[~np.isnan(between)]
    return float(np.median(known)) if len(known) else 0.0


def assign(trace: Trace, num_clients: int, vehicles: str | Sequence[str], begin: float, end: float) -> np.ndarray:
    """Assign vehicles to clients between two times, by the rules of `mdfl_jax.traces.resample`.

    Args:
      trace: the trace.
      num_clients: N.
      vehicles: a rule of `VEHICLES`, or names of vehicles, client by client.
      begin: seconds.
      end: seconds.

    Returns:
      slot: [M] int64, the client that each vehicle is, -1 for none.

    Raises:
      UserError: for an unknown rule or vehicle, a vehicle named twice, or more names than clients.
    """
    num_nodes = len(trace.ids)
    slot = np.full(num_nodes, -1)
    if not isinstance(vehicles, str):
        index = {name: node for node, name in enumerate(trace.ids)}
        if len(set(vehicles)) < len(vehicles) or len(vehicles) > num_clients:
            raise UserError(f"{len(vehicles)} vehicles for {num_clients} clients; each may be named once")
        for client, name in enumerate(vehicles):
            if name not in index:
                raise UserError(unknown_name("vehicle", name, trace.ids[:20]))
            slot[index[name]] = client
    elif vehicles == "longest":
        first, last = (np.zeros(num_nodes), np.ones(num_nodes)) if trace.stays else presence(trace, begin, end)
        length = np.nan_to_num(last - first, nan=-1.0)
        chosen = np.sort(np.argsort(-length, kind="stable")[:num_clients])
        slot[chosen] = np.arange(len(chosen))
    elif vehicles == "first":
        slot[:num_clients] = np.arange(min(num_nodes, num_clients))
    elif vehicles == "reuse":
        first, last = presence(trace, begin, end)
        if trace.stays:
            first, last = np.full(num_nodes, begin), np.full(num_nodes, end)
        free = np.full(num_clients, -np.inf)  # when a client's vehicle leaves
        for node in np.argsort(first, kind="stable"):
            client = int(np.argmin(free))
            if free[client] < first[node]:  # false for NaN, a vehicle that is never present in these rounds
                slot[node], free[client] = client, last[node]
    else:
        raise UserError(unknown_name("choice of vehicles", vehicles, VEHICLES))
    return slot


def resample(
    trace: Trace,
    dt: float,
    rounds: int = 0,
    num_clients: int = 0,
    start: float | None = None,
    gaps: str = "auto",
    max_gap: float | None = None,
    vehicles: str | Sequence[str] = "longest",
) -> TraceTable:
    """Compute the places of N clients at the times ``start + k dt``, k from 0 to R.

    Between two samples of a vehicle its place is interpolated linearly. There is a gap where two samples are more than
    ``max_gap`` apart, before a vehicle's first sample, and after its last. Vehicles of waypoint traces (BonnMotion,
    ns-2) have no gaps: they stand still before their first waypoint and after their last, unless they come and leave.

    Args:
      trace: where the vehicles were.
      dt: seconds per round, above 0.
      rounds: R; 0 takes as many rounds as fit in the trace.
      num_clients: N; 0 takes as many as there are vehicles. Clients beyond the vehicles are never present.
      start: time in seconds at which round 0 begins; None is the trace's first instant.
      gaps: ``hold``: a client in a gap stays where it was last seen (or will first be seen) and meets others there.
        ``absent``: it meets nobody. ``auto``: `gap_rule`.
      max_gap: seconds, above 0; None is three times the median time between two samples of the same vehicle.
      vehicles: which vehicles the clients are. ``longest``: the N that are present longest between rounds 0 and R, in
        the file's order. ``first``: the N that come first in the file. ``reuse``: a client is one vehicle after
        another. When a vehicle enters, the client that has been free longest becomes it; where no client is free, the
        vehicle is left out. A sequence of names: these vehicles, client by client.

    Returns:
      The table, with position [R + 1, N, 2] float32, present [R + 1, N] bool, goes [R, N] bool, and height [R + 1, N]
      float32 of a trace that has heights.

    Raises:
      UserError: for a number out of range, a trace that is shorter than the rounds, or an unknown rule or vehicle.
    """
    when = round_times(trace, dt, rounds, start)
    _check(gaps, max_gap, num_clients)
    num_clients = num_clients or len(trace.ids)
    if len(when) * num_clients > MOST_PLACES:
        places = f"{len(when) - 1:,} rounds of {num_clients:,} clients are {len(when) * num_clients:,} places"
        raise UserError(f"dt is {dt:g}; {places}; at most {MOST_PLACES:,} are allowed")
    slot = assign(trace, num_clients, vehicles, float(when[0]), float(when[-1]))
    place, known, held, node = places_at(trace, when, slot, num_clients, longest_gap(trace, max_gap))
    given = known | held if trace.stays else known
    present = given | held if gap_rule(trace, gaps) == "hold" else given
    goes = given[1:] & given[:-1] & (node[1:] == node[:-1])
    height = None if trace.z is None else place[..., 2]
    return TraceTable(place[..., :2], present, float(when[0]), float(dt), goes, height)


def gap_rule(trace: Trace, gaps: str = "auto") -> str:
    """Return what nodes do in gaps, hold or absent. With ``auto`` it is what the format of the file means.

    Who is in no sample of SUMO, AIS or GPS has left; who has passed its last waypoint stands there.
    """
    return gaps if gaps != "auto" else "hold" if trace.stays else "absent"


def round_times(trace: Trace, dt: float, rounds: int = 0, start: float | None = None) -> np.ndarray:
    """Compute the times at which rounds 0 to R begin.

    Args:
      trace: the trace.
      dt: seconds per round, above 0.
      rounds: R; 0 takes as many rounds as fit in the trace.
      start: time in seconds at which round 0 begins; None is the trace's first instant.

    Returns:
      [R + 1] float64 seconds. A time within 1e-6 dt of an instant of the trace is set to this instant exactly.

    Raises:
      UserError: for ``dt``, ``rounds`` or ``start`` out of range, or a trace that ends before round R.
    """
    if not (np.isfinite(dt) and dt > 0):
        raise UserError(f"dt is {dt}; it must be above 0 seconds")
    if rounds < 0:
        raise UserError(f"rounds is {rounds}; it must be at least 0")
    first, last = float(trace.times[0]), float(trace.times[-1])
    begin = first if start is None else float(start)
    if not first <= begin <= last:
        raise UserError(f"start is {begin:g}; the trace is from {first:g} to {last:g} s")
    fit = int(min(np.floor((last - begin) / dt + 1e-6), 2.0**62))
    wanted = rounds or max(fit, 1)
    # A waypoint trace has no end: its nodes stay at their last waypoint, for as many rounds as are asked for.
    if wanted > fit and not (trace.stays and rounds):
        raise UserError(f"{wanted} rounds of {dt:g} s from {begin:g} s: the trace ends at {last:g} s, after {fit}")
    if wanted > MAX_ROUNDS:
        raise UserError(f"dt is {dt:g}, which makes {wanted:,} rounds; at most {MAX_ROUNDS:,} are allowed")
    when = begin + dt * np.arange(wanted + 1)
    right = np.searchsorted(trace.times, when).clip(0, len(trace.times) - 1)
    for near in (right, (right - 1).clip(0)):
        when = np.where(np.abs(trace.times[near] - when) <= 1e-6 * dt, trace.times[near], when)
    return when


def longest_gap(trace: Trace, max_gap: float | None = None, between: np.ndarray | None = None) -> np.ndarray:
    """Return the longest seconds between two samples of a node that are no gap, [M] (`resample`).

    Args:
      trace: the trace.
      max_gap: as of `resample`.
      between: its `spacings`, if they are known already.
    """
    if trace.waypoints:
        return np.full(len(trace.ids), np.inf)
    if max_gap is not None:
        return np.full(len(trace.ids), max_gap)
    return np.nan_to_num(3 * (spacings(trace) if between is None else between))


def _check(gaps: str, max_gap: float | None, num_clients: int) -> None:
    if gaps not in GAPS:
        raise UserError(unknown_name("rule for gaps", gaps, GAPS))
    if max_gap is not None and not max_gap > 0:
        raise UserError(f"max_gap is {max_gap}; it must be above 0 seconds")
    if num_clients < 0:
        raise UserError(f"num_clients is {num_clients}; it must be at least 0")


def places_at(
    trace: Trace, when: np.ndarray, slot: np.ndarray, num_clients: int, max_gap: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Compute where the clients are at some times, and whether the trace says so.

    Args:
      trace: the samples.
      when: [K] float64 increasing times.
      slot: [M] the client that each node is, -1 for none.
      num_clients: N.
      max_gap: [M] places are interpolated between two samples of a node that are at most so many seconds apart.

    Returns:
      position: [K, N, 2] float32 places, or [K, N, 3] with heights.
      known: [K, N] bool, true where the place is a sample or interpolated.
      held: [K, N] bool, true in a gap. The place is then the last sample before the gap, or else the first one after.
      node: [K, N] int32, the node whose sample it is; without meaning where there is none.
    """
    before = np.full((len(when), num_clients), -1, np.int32 if len(trace.node) < 2**31 else np.int64)
    after = before.copy()
    until = trace.offsets[np.searchsorted(trace.times, when, side="right")]
    since = trace.offsets[np.searchsorted(trace.times, when, side="left")]
    held = np.full(num_clients, -1, before.dtype)
    for k, (low, high) in enumerate(zip(np.append(0, until[:-1]), until)):
        _mark(held, trace.node, slot, low, high, 1)
        before[k] = held
    held[:] = -1
    for k, (low, high) in reversed(list(enumerate(zip(since, np.append(since[1:], len(trace.node)))))):
        _mark(held, trace.node, slot, low, high, -1)
        after[k] = held
    position = np.empty((len(when), num_clients, len(trace.axes)), np.float32)
    known, whose = np.zeros((len(when), num_clients), bool), np.empty((len(when), num_clients), np.int32)
    corner = np.array([axis.min() for axis in trace.axes], np.float32)
    for k, time in enumerate(when):
        a, b = before[k], after[k]
        a, b = np.where(a < 0, b, a), np.where(b < 0, a, b)  # with a sample on one side only, both are that sample
        start, end, seen = _time_of(trace, a), _time_of(trace, b), trace.node[a]
        between = (start <= time) & (time <= end) & (seen == trace.node[b]) & (end - start <= max_gap[seen])
        known[k], whose[k] = between & (a >= 0), seen
        share = np.where(between & (end > start), (time - start) / np.where(end > start, end - start, 1.0), 0.0)
        for axis, column in enumerate(trace.axes):
            place = column[a] + share * (column[b].astype(np.float64) - column[a])
            position[k, :, axis] = np.where(a >= 0, place, corner[axis])
    return position, known, ~known & ((before >= 0) | (after >= 0)), whose


def _mark(held: np.ndarray, node: np.ndarray, slot: np.ndarray, low: int, high: int, step: int) -> None:
    """Store in ``held`` each client's last (step 1) or first (step -1) sample of those from low to high."""
    for at in range(low, high, CHUNK) if step > 0 else reversed(range(low, high, CHUNK)):
        client = slot[node[at : min(at + CHUNK, high)]][::step]
        index = np.arange(at, at + len(client))[::step]
        held[client[client >= 0]] = index[client >= 0]


def _time_of(trace: Trace, index: np.ndarray) -> np.ndarray:
    return trace.times[np.searchsorted(trace.offsets, index.clip(0), side="right") - 1]


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
    durations: bool = False,
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
      durations: whether to find for how long the clients of each link are in contact in the round. Contacts of the same
        two clients that overlap count once.

    Raises:
      UserError: for a number out of range, a contact of a client that does not exist, or durations of a list by rounds,
        which does not say them.
    """
    if durations and contacts.in_rounds:
        raise UserError(f"trace {contacts.source!r}: a list of rounds does not say how long contacts last")
    _check_contacts(contacts, num_clients, rounds, dt)
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
        line, at = np.tile(line, 2), np.tile(at, 2)
    seconds = None
    if durations:
        opens = begin + at * dt
        low, high = (np.clip(of[line] - opens, 0, dt) for of in (contacts.start, contacts.end))
        seconds = _united(code, low, high, dt)
    code.sort()
    code = code[np.concatenate([[True], code[1:] > code[:-1]])] if len(code) else code
    at, pair = np.divmod(code, num_clients**2)
    edges = np.stack(np.divmod(pair, num_clients), axis=1).astype(np.int32)
    return ContactTable(edges, np.searchsorted(at, np.arange(rounds + 1)), num_clients, seconds)


def _united(code: np.ndarray, low: np.ndarray, high: np.ndarray, longest: float) -> np.ndarray:
    """Return for each distinct code, in ascending order, the length of the union of its intervals, float32.

    Args:
      code: [n] int64.
      low, high: [n] the ends of the intervals, from 0 to ``longest``.
      longest: above 0.
    """
    order = np.lexsort((low, code))
    code, low, high = code[order], low[order], high[order]
    opens = np.flatnonzero(np.concatenate([[True], code[1:] > code[:-1]])) if len(code) else np.zeros(0, int)
    base = 2.0 * longest * np.repeat(np.arange(len(opens)), np.diff(np.append(opens, len(code))))  # groups lie apart
    reached = np.maximum.accumulate(base + high)
    before = np.append(-np.inf, reached[:-1])
    new = (base + high - np.maximum(base + low, before)).clip(0)
    return np.add.reduceat(new, opens).astype(np.float32) if len(opens) else np.zeros(0, np.float32)


def _check_contacts(contacts: Contacts, num_clients: int, rounds: int, dt: float) -> None:
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
