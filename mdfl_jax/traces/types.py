"""What a trace file becomes in memory: samples of places, or a list of contacts."""

from typing import NamedTuple

import numpy as np


class Trace(NamedTuple):
    """Where moving nodes (vehicles, people, animals) were, sample by sample, in order of time.

    A sample takes 12 bytes: instants are kept once each, and places in float32 from an origin close by.

    Attributes:
      ids: the M nodes' names, in the order of their first sample in the file.
      times: [T] float64 distinct instants in seconds, increasing.
      offsets: [T + 1] int64; the samples of instant k are ``offsets[k]:offsets[k + 1]``, and may be none.
      node: [n] int32 index into ``ids`` of each sample; a node has one sample an instant at most.
      x: [n] float32 metres east of the origin.
      y: [n] float32 metres north of the origin.
      origin: where x = y = 0 is in the file: metres, or degrees (longitude, latitude) of a geographic file.
      waypoints: the samples are the corners of straight paths (BonnMotion, ns-2): between them the way is exact, and
        a node stays at its first place before the first and at its last place after the last.
      format: name of the file's format, see `mdfl_jax.traces.FORMATS`.
    """

    ids: tuple[str, ...]
    times: np.ndarray
    offsets: np.ndarray
    node: np.ndarray
    x: np.ndarray
    y: np.ndarray
    origin: tuple[float, float]
    waypoints: bool
    format: str

    @property
    def sample_times(self) -> np.ndarray:
        """[n] float64 the instant of each sample, made anew at each call."""
        return np.repeat(self.times, np.diff(self.offsets))


class Contacts(NamedTuple):
    """Who was in contact when, line by line of the file.

    Attributes:
      start: [n] float64 seconds, or whole rounds.
      end: [n] float64 seconds; a contact lasts from ``start`` until just before ``end``, or for the instant where they
        are equal. Of a list by rounds it is ``start + 1``.
      pair: [n, 2] int32 clients i and j, counted from 0.
      in_rounds: the file is ``round,i,j``.
      source: the file, for messages.
    """

    start: np.ndarray
    end: np.ndarray
    pair: np.ndarray
    in_rounds: bool
    source: str


class TraceTable(NamedTuple):
    """The places of N clients at the rounds' beginnings, and after the last of R rounds.

    Attributes:
      position: [R + 1, N, 2] float32 metres from the trace's origin. An absent client has the place where it was last
        seen, or will first be seen; one that never comes has the lower left corner of the area.
      present: [R + 1, N] bool; an absent client trains but meets nobody.
      start: seconds of round 0 in the trace.
      dt: seconds a round.
      goes: [R, N] bool: the trace says the way of the client in the round. In the others, as where a vehicle comes back
        from a gap or a client becomes another vehicle, it stands, and leaps at the end. None: where it is there at both
        ends.
    """

    position: np.ndarray
    present: np.ndarray
    start: float
    dt: float
    goes: np.ndarray | None = None


class ContactTable(NamedTuple):
    """The links of R rounds, round after round, each link once.

    Attributes:
      edges: [n, 2] int32; client ``edges[e, 0]`` hears client ``edges[e, 1]``. Symmetric lists hold both directions.
      offsets: [R + 1] int64; the links of round k are ``offsets[k]:offsets[k + 1]``.
      num_clients: N.
    """

    edges: np.ndarray
    offsets: np.ndarray
    num_clients: int
