"""A network with road-side units: a moving client meets the server while it is in the range of a unit.

The source is FedMobile, appendix A. The clients are those of any spatial network. Its mobility, contact and failing
links say which clients can talk to each other, and its radius is the range between clients.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.geometry import within
from mdfl_jax.core.links import ALL_PAIRS, Senders
from mdfl_jax.core.numbers import of_fixed_types
from mdfl_jax.core.rng import stream_at
from mdfl_jax.core.section import Built, Family, Rule, Section, field, section
from mdfl_jax.core.trees import of_types
from mdfl_jax.core.types import BEFORE, FIXED, NEVER, SYMMETRIC, Clients, Links, Meetings, Network
from mdfl_jax.mobility.area import check_inside, parse_places
from mdfl_jax.mobility.registry import world_in
from mdfl_jax.networks.meetings import (
    MET_SERVER,
    PATTERNS,
    MeetingsParams,
    expected_next,
    meetings,
    observed_mean,
    pair_links,
    read_meetings,
)
from mdfl_jax.networks.spatial import SpatialParams, SpatialState
from mdfl_jax.networks.wrappers.wrapper import wrap


class RoadsideParams(NamedTuple):
    """Traced numbers of a network with road-side units.

    Attributes:
      inner: the numbers of the inner spatial network.
      units: [U, 2] places of the units, in the unit of length of the world.
      unit_range: the distance from a unit within which a client meets the server.
    """

    inner: SpatialParams
    units: Any
    unit_range: Any = 100.0


class RoadsideState(NamedTuple):
    """The state of a network with road-side units between two slots.

    Attributes:
      inner: the state of the inner spatial network.
      last: [N] int32, the slot of each client's last meeting; -1 before the first.
      met: [N] int32, the number of meetings so far.
      following: [R, N] int32, the slot of the next meeting after each slot; `NEVER` where none comes. None if clients
        do not know their next meeting.
      reached: [N] bool, true for the clients that meet a unit in at least one of the R slots.
    """

    inner: SpatialState
    last: jax.Array
    met: jax.Array
    following: jax.Array | None
    reached: jax.Array


def at_units(position: jax.Array, units: jax.Array, unit_range: jax.Array | float) -> jax.Array:
    """Find the clients that are in the range of at least one unit.

    Args:
      position: [N, 2] places of the clients.
      units: [U, 2] places of the units.
      unit_range: the range of a unit, in the unit of the places.

    Returns:
      [N] bool.

    >>> at_units(jnp.array([[0.0, 0.0], [3.0, 4.0], [9.0, 0.0]]), jnp.array([[0.0, 4.0], [20.0, 0.0]]), 4.0).tolist()
    [True, True, False]
    """
    return jnp.any(within(position, jnp.asarray(units, position.dtype), unit_range), axis=1)


def next_meetings(at_server: jax.Array) -> jax.Array:
    """Compute the slot of the next meeting after each slot.

    Args:
      at_server: [R, N] bool, whether each client meets the server in each slot.

    Returns:
      [R, N] int32; `NEVER` where no meeting comes.

    >>> next_meetings(jnp.array([[True], [False], [True], [False]])).ravel().tolist() == [2, 2, NEVER, NEVER]
    True
    """
    rounds, num_clients = at_server.shape

    def back(coming: jax.Array, row: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        slot, now = row
        return jnp.where(now, slot, coming), coming

    start = jnp.full(num_clients, NEVER, jnp.int32)
    rows = (jnp.arange(rounds, dtype=jnp.int32), at_server)
    return jax.lax.scan(back, start, rows, reverse=True)[1]


def matching(key: jax.Array, adjacency: jax.Array, senders: Senders = ALL_PAIRS) -> jax.Array:
    """Draw a maximal matching: possible pairs are visited in random order and taken if both clients are still free.

    Args:
      key: typed key of this slot.
      adjacency: [N, K] bool. Two clients can be a pair if they hear each other.
      senders: the clients for which the places stand. The same pairs are drawn in both forms.

    Returns:
      [N] int32, the partner of each client; its own index if it is alone. No two clients left alone hear each other.
    """
    num_clients = adjacency.shape[0]
    me = jnp.arange(num_clients, dtype=jnp.int32)
    drawn = senders.uniform_of_pairs(key, num_clients)
    rank = jnp.where(adjacency & senders.opposite(adjacency), drawn, -1.0)

    def unfinished(loop: tuple[jax.Array, jax.Array]) -> jax.Array:
        return loop[1]

    def take(loop: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        """Take every pair that is first in the order for both clients: the greedy matching, many pairs at a time."""
        partner, _ = loop
        free = partner == me
        left = jnp.where(free[:, None] & senders.of(free), rank, -1.0)
        best = senders.at(jnp.argmax(left, axis=1))
        mutual = (jnp.max(left, axis=1) >= 0) & (best[best] == me)
        return jnp.where(mutual, best, partner), jnp.any(mutual)

    return jax.lax.while_loop(unfinished, take, (me, jnp.bool_(True)))[0]


def _at_server(params: RoadsideParams, state: SpatialState) -> jax.Array:
    """Find the clients that meet the server: those in the range of a unit, unless they are absent."""
    now = at_units(state.places.position, params.units, params.unit_range)
    return now if state.there is None else now & state.there


def roadside(inner: Network, rounds: int, known_next: bool = True, one_at_a_time: bool = True) -> Network:
    """Make a spatial network whose clients also meet a server at road-side units.

    Args:
      inner: a network of `mdfl_jax.networks.spatial.spatial`, in a world with places.
      rounds: R, the slots of the run. The movement is computed once before the first slot, with the same keys as in
        the run. Known meetings take 4 R N bytes for each run.
      known_next: if true, clients know their next meeting, as from a route; else they expect it after the last one, at
        the mean gap of their meetings so far.
      one_at_a_time: if true, a client talks to one other client in a slot, by a `matching`; else to all in range.

    Raises:
      UserError: if ``rounds`` is below 1, or if the clients move by what they heard.
    """
    if rounds < 1:
        raise UserError(f"rounds is {rounds}; it must be at least 1")
    if inner.hooks.compares:
        raise UserError(
            "server.pattern is roadside, which moves clients before any model is trained; network.mobility "
            "must not compare models"
        )
    num_clients = inner.num_clients

    def init(params: RoadsideParams, key: jax.Array, clients: Clients) -> RoadsideState:
        start = inner.init(params.inner, key, clients)
        none = jnp.zeros(num_clients, jnp.int32)

        def ahead(state: SpatialState, slot: jax.Array) -> tuple[SpatialState, jax.Array]:
            following = of_types(inner.step(params.inner, key, slot, state, clients)[0], state)
            return following, _at_server(params, state)

        _, at_server = jax.lax.scan(ahead, start, jnp.arange(rounds, dtype=jnp.int32))
        following = next_meetings(at_server) if known_next else None
        return RoadsideState(start, none + BEFORE, none, following, jnp.any(at_server, axis=0))

    def step(
        params: RoadsideParams, key: jax.Array, slot: jax.Array, state: RoadsideState, clients: Clients
    ) -> tuple[RoadsideState, Links]:
        at_server = _at_server(params, state.inner)
        last = jnp.where(at_server, slot, state.last).astype(jnp.int32)
        met = state.met + at_server
        if state.following is None:
            following = expected_next(last, observed_mean(last, met), slot)
        else:
            following = state.following[jnp.minimum(slot, rounds - 1)]
        moved, links = inner.step(params.inner, key, slot, state.inner, clients)
        meetings = Meetings(at_server, last, following)
        if one_at_a_time:
            # Another key than the inner network's, which draws failing links from the same stream.
            partner = matching(jax.random.fold_in(stream_at(key, "link", slot), 1), links.adjacency, links.senders)
            pairs = pair_links(partner, meetings, lists=links.senders.ids is not None)
            links = pairs._replace(active=links.active)
        else:
            links = links._replace(server=meetings)
        return RoadsideState(moved, last, met, state.following, state.reached), links

    gives = inner.gives | {"server"}
    if one_at_a_time:  # pairs are drawn in every slot, also if no client moves, so the links are not FIXED
        gives = gives - {FIXED} | {"partner", SYMMETRIC}
    own: dict[str, Any] = {"gives": frozenset(gives), "metrics": (MET_SERVER,), "reached": lambda state: state.reached}
    passed = wrap(inner, init=init, step=step, **own)
    if passed.lists and one_at_a_time:
        return passed._replace(lists=passed.lists._replace(places=2))  # of pairs; the inner lists are still bounded
    return passed


@section("server", order=5, switch="pattern")
@dataclass(frozen=True)
class ServerConfig(Section):
    """A server that clients meet now and then, for the algorithms that use one. A slot is a round.

    With the pattern roadside, the fields of network, including its radius, say who can talk. With the other patterns
    clients meet in random pairs, and the places, contact and mixing of network have no effect.
    """

    pattern: str = field(
        "", "when clients meet the server; empty: none", names=lambda: ("", *PATTERNS, "roadside"), part="server"
    )
    file: str = field("", "pattern table: file of lines client,slot", file=True)
    pairs: float = field(
        0.5,
        "share of clients paired in a slot, rho; no effect with roadside",
        at_least=0,
        at_most=1,
        traced=True,
        part="pairs",
    )
    known_next: bool = field(
        True,
        "clients know their next meeting (roadside: within the study's rounds); else they expect it a mean gap after "
        "the last",
    )
    units: str = field("", "roadside: places of the units 'x,y; x,y; ...' in the world's unit")
    unit_range: float = field(
        100.0, "roadside: distance within which clients meet a unit", at_least=0, traced=True, part="units"
    )
    one_at_a_time: bool = field(
        True, "roadside: a client talks to one other in a slot; else to all in range", part="units"
    )

    FAMILIES = (
        Family(
            PATTERNS,
            "Meetings with a server",
            "server",
            "server.pattern",
            about="When clients meet a server. A slot is a round, a gap is in slots.",
        ),
    )

    def in_use(self, whole: Any) -> bool:
        """Tell whether clients meet a server now and then."""
        return bool(self.pattern)

    def rules(self, whole: Any) -> Iterator[Rule]:
        """Yield the rules: files and units belong to their patterns, and where pairs are drawn, no links fail."""
        network, pattern = whole.network, self.pattern
        yield "server.pattern", pattern and network.graph, f"empty with network.graph {network.graph}"
        roadside, table = pattern == "roadside", pattern == "table"
        yield "server.units", self.units and not roadside, "empty unless server.pattern is roadside"
        yield "server.file", self.file and not table, "empty unless server.pattern is table"
        yield "server.file", table and not self.file, "a file of lines client,slot: server.pattern is table"
        if roadside:
            nowhere = world_in(whole) == "contacts"
            yield "server.pattern", nowhere, f"another one: network.mobility {network.mobility} knows no places"
            check_inside(whole, "server.units", parse_places(self.units, "server.units"))
        for name in ("link_failure", "link_fading"):
            fails = pattern and not roadside and getattr(network, name) > 0
            yield f"network.{name}", fails, f"0 under server.pattern {pattern}: pairs are drawn"

    def ignored(self, whole: Any) -> Iterator[Rule]:
        """Yield that nothing is read of it where the server is always there, and what other patterns read."""
        name, pattern = whole.algorithm.name, self.pattern
        yield "pairs", pattern == "roadside", f"with server.pattern {pattern} the places say who is paired"
        yield "units", pattern != "roadside", f"server.pattern is {pattern}, and it must be roadside"
        yield "server", whole.serves_all, f"with {name} all clients reach the server in every round"

    def describe(self, whole: Any) -> str:
        """Return nothing: the pattern is the first that is said of the network."""
        return ""

    def wrap(self, network: Network, whole: Any, built: Built) -> Network:
        """Return the network with road-side units, or a network of drawn pairs in place of it."""
        if self.pattern == "roadside":
            return roadside(network, whole.rounds, self.known_next, self.one_at_a_time)
        return meetings(whole.network.num_clients, self.pattern, lists=network.lists is not None)

    def params(self, inner: Any, whole: Any, cost: Any) -> MeetingsParams | RoadsideParams:
        """Return the numbers of `wrap`.

        Raises:
          UserError: As `mdfl_jax.networks.meetings.read_meetings`.
        """
        if self.pattern == "roadside":
            units = np.array(parse_places(self.units, "server.units"), np.float32)
            return RoadsideParams(inner, units, np.float32(self.unit_range))
        is_given = self.pattern == "table"
        return of_fixed_types(
            MeetingsParams(
                pairs=self.pairs,
                known_next=self.known_next,
                numbers=self.traced(PATTERNS, self.pattern),
                table=read_meetings(self.file, whole.network.num_clients) if is_given else None,
            )
        )
