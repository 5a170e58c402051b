"""Tells what a study says of a trace: what is in it, and what is allowed and probably a mistake."""

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from mdfl_jax.traces.resampling import chunks, gap_rule, presence
from mdfl_jax.traces.trace import Contacts, Trace

YEAR = 365 * 86_400.0
LATEST = 1e11  # seconds; as seconds since 1970 in the year 5138, and as milliseconds in 1973
SHORTEST = 1e-3  # seconds between samples below which a trace is probably in another unit
FASTEST = 150.0  # m/s, above which a column or a unit is probably another one
SLOWEST = 0.05  # m/s of nodes on the way, below which a unit is probably another one
SLOW_AS_DEGREES = 2e-3  # degrees a second are some 200 m/s, and metres a second are no movement
_BINS_PER_MS = 100
_TOP_SPEED = 1000  # m/s; for the median, all higher speeds share one bin


class Speeds(NamedTuple):
    """Speeds in m/s between consecutive samples of a node, weighted by the time between them.

    Attributes:
      mean: all metres divided by all seconds.
      median: the median, with a resolution of 0.01 m/s.
      largest: the largest speed between two consecutive samples.
      metres: [M] float64 length of each node's path.
      moving: all metres divided by the seconds between samples at different places.
      steps: the number of pairs of consecutive samples.
      fast: how many of them are faster than `FASTEST`.
      fastest: the name of the node with the largest speed, and the time at which it arrives there; ("", 0) without one.
    """

    mean: float
    median: float
    largest: float
    metres: np.ndarray
    moving: float
    steps: int
    fast: int
    fastest: tuple[str, float]


def speeds(trace: Trace) -> Speeds:
    """Measure the speeds of a trace. It reads a bounded number of samples at once, which limits the memory."""
    num_nodes = len(trace.ids)
    last = np.full((3, num_nodes), np.nan)  # time, x and y of the latest sample of each node
    histogram = np.zeros(_BINS_PER_MS * _TOP_SPEED + 1)
    metres, seconds, largest, fastest = np.zeros(num_nodes), 0.0, 0.0, ("", 0.0)
    on_the_way, steps, fast = 0.0, 0, 0
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
        on_the_way += float(step[0][way > 0].sum())
        steps, fast = steps + len(speed), fast + int((speed > FASTEST).sum())
        if speed.max(initial=0.0) > largest:
            at = int(speed.argmax())
            largest, fastest = float(speed[at]), (trace.ids[owner[follows][at]], float(now[0][follows][at]))
        bins = (speed * _BINS_PER_MS + 0.5).clip(max=len(histogram) - 1).astype(int)
        histogram += np.bincount(bins, weights=step[0], minlength=len(histogram))
    running = np.cumsum(histogram)
    median = int(np.searchsorted(running, running[-1] / 2)) / _BINS_PER_MS if seconds else 0.0
    far = float(metres.sum())
    mean, moving = (far / time if time else 0.0 for time in (seconds, on_the_way))
    return Speeds(mean, median, largest, metres, moving, steps, fast, fastest)


_KNOWN: WeakKeyDictionary[Trace, Speeds] = WeakKeyDictionary()


def speeds_of(trace: Trace) -> Speeds:
    """Return the speeds of a trace, which are measured once: in a large one it takes seconds."""
    if trace not in _KNOWN:
        _KNOWN[trace] = speeds(trace)
    return _KNOWN[trace]


def like_degrees(trace: Trace) -> bool:
    """Tell whether metres look like degrees: they are in their range, and as metres nothing moves.

    Either all places are within 2, and the larger coordinate is 2 to 180; or who moves is slower than
    `SLOW_AS_DEGREES`.
    """
    if trace.format.endswith("_geo"):
        return False
    low, high = (
        [float(limit(column)) + start for column, start in zip((trace.x, trace.y), trace.origin)]
        for limit in (np.min, np.max)
    )
    most = sorted(max(abs(a), abs(b)) for a, b in zip(low, high))
    size = max(b - a for a, b in zip(low, high))
    if size == 0 or most[0] > 90 or most[1] > 180:
        return False
    return (size < 2 and max(map(abs, low)) > 2) or 0 < speeds_of(trace).moving < SLOW_AS_DEGREES


def doubts(loaded: Trace | Contacts, between: float | None = None) -> list[str]:
    """Return a line for each fact of a trace that is allowed and probably a mistake.

    Args:
      loaded: a trace of places, or a contact list.
      between: its `typical` spacing; None: it is not looked at.
    """
    if isinstance(loaded, Contacts):
        return _of_rounds(loaded) if loaded.in_rounds else _of_times(float(loaded.start.min()), float(loaded.end.max()))
    found, pace = list[str](), speeds_of(loaded)
    if not pace.steps:
        one = "the id has" if len(loaded.ids) == 1 else "no id has more than"
        found.append(f"{one} one sample, so nobody is seen to move")
    elif between is not None and between < SHORTEST:
        found.append(f"a sample of an id every {between:g} s; are the times in seconds?")
    if pace.fast:
        who, when = pace.fastest
        found.append(
            f"{pace.fast:,} of {pace.steps:,} steps are faster than {FASTEST:g} m/s, up to {pace.largest:,.0f} m/s (id "
            f"{who!r} until {when:.12g} s); are the columns, the times and the places what they seem?"
        )
    if 0 < pace.moving < SLOWEST:
        found.append(
            f"a mean speed of {pace.moving:.2g} m/s of those who move; are the times in milliseconds, or the places in "
            "degrees or kilometres?"
        )
    return found + _of_times(float(loaded.times[0]), float(loaded.times[-1]))


def _of_rounds(contacts: Contacts) -> list[str]:
    """Tell whether the rounds of a list are always several rounds apart, as the seconds of scans are."""
    apart = np.diff(np.unique(contacts.start)).astype(np.int64)
    step = int(np.gcd.reduce(apart)) if len(apart) else 1
    if step <= 1:
        return []
    named = f"in a column time each contact holds {step} s, as trace.hold says"
    return [f"rounds in steps of {step}; are they seconds of scans? {named}"]


def _of_times(begin: float, end: float) -> list[str]:
    if begin > LATEST:
        return [f"it begins at {begin:.13g} s, some thousand years after 1970; are the times in milliseconds?"]
    if end - begin > YEAR:
        return [f"it lasts {(end - begin) / YEAR:,.1f} years; are the times in seconds?"]
    return []


def heights_of(trace: Trace) -> str:
    """Say from where to where the heights of a trace are; "" where it has none."""
    return "" if trace.z is None else f"{trace.z.min():,.1f} to {trace.z.max():,.1f} m"


def trace_notes(loaded: Trace | Contacts) -> list[str]:
    """Return what a study says of a trace: how it was read, and what of it may be a mistake."""
    count = f"{len(loaded.ids) if isinstance(loaded, Trace) else len(np.unique(loaded.pair)):,} ids"
    return [f"{count}, read as {loaded.format}: {loaded.why}", *doubts(loaded)]


def stay(trace: Trace, gaps: str) -> str:
    """Say how long nodes are seen, how many come late or leave early, and what they do while they are not seen."""
    if trace.stays:
        return "always, by waypoints"
    first, last = presence(trace)
    late, early = int((first > trace.times[0]).sum()), int((last < trace.times[-1]).sum())
    seen = f"an id is seen for {np.median(last - first):g} s (median)"
    if not late and not early:
        return seen
    rule = gap_rule(trace, gaps)
    does = "stand there until then, or from then on" if rule == "hold" else "are gone"
    return f"{seen}; {late:,} come after the beginning, {early:,} leave before the end: they {does} (trace.gaps={rule})"
