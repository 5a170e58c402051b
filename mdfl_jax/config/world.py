"""The sections of a configuration that describe the world: places, movement, traces, graphs and a server."""

from dataclasses import dataclass
from typing import Any

from mdfl_jax.config.field import field
from mdfl_jax.mobility import BOUNDARIES, MOBILITIES
from mdfl_jax.mobility.trace import AT_END
from mdfl_jax.networks.contact import CONTACTS
from mdfl_jax.networks.graphs import GRAPHS
from mdfl_jax.networks.meetings import PATTERNS
from mdfl_jax.networks.mixing import MIXINGS
from mdfl_jax.networks.movers import MOVERS
from mdfl_jax.networks.relays import RELAY_PLACES
from mdfl_jax.networks.wrappers.order import ORDERS
from mdfl_jax.traces import GAPS, TRACE_FORMATS, VEHICLES


@dataclass(frozen=True)
class NetworkConfig:
    """Where clients are, how they move and whom they hear. With a graph, places and movement have no effect."""

    num_clients: int = field(20, "number of clients N", at_least=1, at_most=1_000_000)
    graph: str = field(
        "",
        "name of the graph that says who hears whom, or 'file'; empty: clients in space, which move by mobility",
        names=lambda: ("", *GRAPHS, "file"),
    )
    num_mobile: int = field(5, "number of mobile clients M; with trace all N move", at_least=0, traced=True)
    movers: str = field(
        "first",
        "which M clients move: the first ones, or those with the most or least data, or in the middle or outside",
        names=MOVERS,
        traced=True,
    )
    relays: int = field(0, "number of relays K: the last clients hold no data and never move", at_least=0)
    relay_places: str = field(
        "random",
        "where relays stand: far from all (gaps), near many (hubs), or between groups out of range (bridges)",
        names=RELAY_PLACES,
        traced=True,
    )
    grid_size: int = field(18, "side G of the G x G grid, in grid points", at_least=1, at_most=46_340)
    radius: float = field(
        3.0, "communication radius Rc, in grid units or metres; inf: all hear each other", at_least=0, traced=True
    )
    radius_spread: float = field(
        0.0, "radii are drawn in [1 - spread, 1 + spread] times the radius", at_least=0, at_most=1, traced=True
    )
    max_step: float = field(5.0, "largest distance moved in a round, Rm; inf: no limit", at_least=0, traced=True)
    mobility: str = field(
        "random_movement", "rule by which the mobile clients move; no effect with a graph", names=MOBILITIES
    )
    contact: str = field(
        "disc", "clients in range at the round's beginning (disc), or during the last movement (swept)", names=CONTACTS
    )
    order: str = field(
        "mix_first", "order of a round: clients mix, then move (mix_first), or the reverse (move_first)", names=ORDERS
    )
    link_failure: float = field(
        0.0, "probability that a link fails, for each round and direction", at_least=0, at_most=1, traced=True
    )
    link_fading: float = field(
        0.0, "probability of failure that is added at the edge of the radius", at_least=0, at_most=1, traced=True
    )
    mixing: str = field("metropolis_hastings", "rule that makes the mixing matrix", names=MIXINGS)


def _metres(default: float, doc: str, **rules: Any) -> Any:
    return field(default, doc, finite=True, traced=True, **rules)


@dataclass(frozen=True)
class MotionConfig:
    """The plane [0, width] x [0, height], in metres and seconds, and the numbers of the mobility rules."""

    width: float = _metres(500.0, "width of the plane, in metres", above=0)
    height: float = _metres(500.0, "height of the plane, in metres", above=0)
    dt: float = _metres(1.0, "duration of a round, in seconds", above=0)
    boundary: str = field("reflect", "what happens to a leg that meets a wall", names=BOUNDARIES, traced=True)
    warm_up: int = field(0, "rounds of movement before the first round", at_least=0, traced=True)


@dataclass(frozen=True)
class TraceConfig:
    """A trace file, and how the mobility rules trace, static_trace and contacts use it."""

    file: str = field("", "file of a trace of places or of a contact list; plain or .gz", traced=True, file=True)
    made_by: str = field("", "command that makes the file, named if the file is not there", traced=True, in_runs=False)
    format: str = field(
        "auto", "file format; auto: by file ending or content", names=lambda: ("auto", *TRACE_FORMATS), traced=True
    )
    streets: str = field(
        "", "SUMO network of the trace (.net.xml or .gz), whose streets the map shows", traced=True, file=True
    )
    start: float = field(
        0.0,
        "seconds of the trace to skip at its beginning (rounds to skip, for a list round,i,j)",
        at_least=0,
        finite=True,
        traced=True,
    )
    at_end: str = field("refuse", "what follows a trace that is too short", names=("refuse", *AT_END), traced=True)
    gaps: str = field("hold", "a vehicle that is not seen stands still (hold) or is absent", names=GAPS, traced=True)
    max_gap: float = field(
        0.0, "longest time between samples that is no gap, seconds; 0: three times the median", at_least=0, traced=True
    )
    vehicles: str = field(
        "longest", "those present longest, first in the file, or one after another", names=VEHICLES, traced=True
    )
    substeps: int = field(1, "number of straight pieces of a client's path in a round", at_least=1, at_most=1000)
    directed: bool = field(False, "in a contact list, i,j says only that i hears j", traced=True)


@dataclass(frozen=True)
class GraphConfig:
    """The graph that network.graph names. Its mixing matrix is made by network.mixing."""

    file: str = field(
        "", "edge list i,j or matrix (.npy, .npz, text); [T, N, N] holds one per round, repeated", file=True
    )
    directed: bool = field(False, "in a file, i,j says only that i hears j")
    allow_disconnected: bool = field(False, "random graphs and files need not be connected", traced=True)


@dataclass(frozen=True)
class ServerConfig:
    """A server that clients meet now and then, for the algorithms that use one. A slot is a round.

    With the pattern roadside, the fields of network, including its radius, say who can talk. With the other patterns
    clients meet in random pairs, and the places, contact and mixing of network have no effect.
    """

    pattern: str = field("", "when clients meet the server; empty: none", names=lambda: ("", *PATTERNS, "roadside"))
    file: str = field("", "pattern table: file of lines client,slot", file=True)
    pairs: float = field(
        0.5, "share of clients paired in a slot, rho; no effect with roadside", at_least=0, at_most=1, traced=True
    )
    known_next: bool = field(True, "clients know their next meeting; else they expect it a mean gap after the last")
    units: str = field("", "roadside: places of the units 'x,y; x,y; ...' in the world's unit")
    unit_range: float = field(100.0, "roadside: distance within which clients meet a unit", at_least=0, traced=True)
    one_at_a_time: bool = field(True, "roadside: a client talks to one other in a slot; else to all in range")
