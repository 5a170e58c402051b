"""Chooses the vehicles that the clients are, and finds when each vehicle is present."""

from collections.abc import Iterator, Sequence

import numpy as np

from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.traces.types import Trace

VEHICLES = ("longest", "first", "reuse")
CHUNK = 1 << 16  # samples processed at once, so that a large trace needs little further memory


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


def spacing(trace: Trace) -> float:
    """Compute the median time in seconds between consecutive samples of a node, 0 where there are none.

    Only the first 65,536 samples of the trace are used.
    """
    for time, node, _ in chunks(trace):
        order = np.argsort(node, kind="stable")
        same = node[order][1:] == node[order][:-1]
        between = np.diff(time[order])[same]
        return float(np.median(between)) if len(between) else 0.0
    return 0.0


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
        first, last = (np.zeros(num_nodes), np.ones(num_nodes)) if trace.waypoints else presence(trace, begin, end)
        length = np.nan_to_num(last - first, nan=-1.0)
        chosen = np.sort(np.argsort(-length, kind="stable")[:num_clients])
        slot[chosen] = np.arange(len(chosen))
    elif vehicles == "first":
        slot[:num_clients] = np.arange(min(num_nodes, num_clients))
    elif vehicles == "reuse":
        first, last = presence(trace, begin, end)
        if trace.waypoints:
            first, last = np.full(num_nodes, begin), np.full(num_nodes, end)
        free = np.full(num_clients, -np.inf)  # when a client's vehicle leaves
        for node in np.argsort(first, kind="stable"):
            client = int(np.argmin(free))
            if free[client] < first[node]:  # false for NaN, a vehicle that is never present in these rounds
                slot[node], free[client] = client, last[node]
    else:
        raise UserError(unknown_name("choice of vehicles", vehicles, VEHICLES))
    return slot
