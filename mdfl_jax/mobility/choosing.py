"""Strategies: mobile clients that choose among candidate places by what they know of them.

A strategy is a function ``choose(key, sight) -> index`` of ONE client. `Sight` says what the client knows of each
candidate, and the client then heads for the chosen place. The function depends neither on the world in which clients
move nor on how they get their knowledge. So each strategy has a form for each world and each knowledge:

- `Terrain` is what a world gives: a map of points, which points are candidates, what is in range of what, and how a
  client gets to the point that it has chosen. On the grid the points are the grid points, and clients move as under
  DCM (MADFL eq. 12). In the plane the points form a lattice. A client goes straight to one of them at a speed drawn
  from [speed_min, speed_max], and rests there until the round ends.
- Knowledge says of which static clients places and label counts are known (`mdfl_jax.mobility.rule.KNOWLEDGE`). With
  ``oracle`` a client knows all static clients. With ``met`` it knows the static clients that it has met, and moves at
  random until it has met enough (`mdfl_jax.mobility.meeting.met_enough`). With ``explored`` it knows the same clients,
  but chooses among all points from the first round on, and remembers when it saw each point.

Clients choose when a round begins, one after the other in the order of their numbers. A client chooses if it has
reached its destination, or if its strategy chooses in every round. A client remembers when it was last in range of each
static client, so the memory grows as N x N.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.geometry import within
from mdfl_jax.core.numbers import Numbers, Setting
from mdfl_jax.core.registry import Registry
from mdfl_jax.core.rng import per_client
from mdfl_jax.mobility.clustering import centre_places, centres_of
from mdfl_jax.mobility.discs import summed_at, sums_in_range
from mdfl_jax.mobility.grid import (
    GridClient,
    GridWorld,
    grid_size,
    is_dense,
    nearest_within,
    only_mobile,
    uniform_within,
)
from mdfl_jax.mobility.label_distances import SMALLEST_DISTANCE, distances, histograms
from mdfl_jax.mobility.meeting import MetNumbers, met_enough
from mdfl_jax.mobility.rule import EXPLORED, MET, ORACLE, Form, Mobility, Path, WorldKind

NOT_SEEN = -1
LARGEST = 4096  # clients on the grid; who met whom when takes 4 N N bytes


class StrategyNumbers(Numbers):
    """The numbers of a strategy; each strategy adds its own."""

    def check(self, setting: Setting) -> None:
        """Check that the memory of all clients fits: `LARGEST` clients."""
        check_num_clients(setting, LARGEST, "each client remembers whom it met when, or what it saw")


def check_num_clients(setting: Setting, most: int, why: str) -> None:
    """Check that there are at most so many clients.

    Raises:
      UserError: if there are more. The message says why.
    """
    if setting.num_clients > most:
        raise UserError(
            f"network.num_clients is {setting.num_clients}; with network.mobility {setting.member} it must be at most "
            f"{most}: {why}"
        )


class Sites(NamedTuple):
    """Candidate places.

    Attributes:
      place: [K] int32 points of the map. For cluster centres K is the number of clients, and only the first entries are
        valid; where every point is a candidate, K is their number L.
      valid: [K] bool.
    """

    place: jax.Array
    valid: jax.Array


class Sight(NamedTuple):
    """What ONE client knows when it chooses: of each candidate in arrays of [K], of each client in arrays of [N].

    Lengths are in grid units on the grid, and in metres in the plane.

    Attributes:
      valid: [K] bool, the candidates.
      here: [K] bool, true at the client's own place.
      distance: [K] float32, the distance of the label histogram there from the one here (MADFL eq. 10).
      travel: [K] float32, the fewest rounds to go there.
      rivals: [K] float32, how many other mobile clients are heading for the place or stand there; without an oracle,
        of those in range.
      place: [K, 2] float32, the places.
      own_place: [2] float32, the client's place.
      age: [N] float32, rounds since the client was last in range of each static client; with ``tell_met``, since the
        latest visit that the client was told of. It is one more than all rounds if there was no visit, and 0 for
        clients that move or are not known.
      ages: [N, N] float32, the same of each client. Without an oracle, the ages of other clients are those of clients
        that have never met anybody.
      samples: [N] float32, samples of the static clients; 0 for the others.
      known: [N] bool, the static clients that the client knows.
      me: [] int32, the client's number.
      rank: [] int32, its number among the mobile clients.
      num_mobile: [] int32, M.
      round: [] int32, rounds moved so far.
      world: the map; a strategy that reads more of it uses more knowledge than its client has.
      unknown: [] float32, how many static clients the client does not know.
      ground: [L] int32, rounds since each point was in range of the client; `NOT_SEEN` if it never was. None unless the
        client explores.
      near: [N] -> [K], sums values of clients over the known static ones in range of each candidate.
      around: [L] -> [K], sums values of points over those in range of each candidate.
      difference: [N] float32, the distance between the client's own model and the model of each known static client,
        when the client last received it (the norm of the difference of all parameters). `NOT_SEEN` if it has received
        none. None unless the strategy compares.
      plan: what the strategy prepared; None if it prepares nothing.
      numbers: the numbers of the strategy.
    """

    valid: jax.Array
    here: jax.Array
    distance: jax.Array
    travel: jax.Array
    rivals: jax.Array
    place: jax.Array
    own_place: jax.Array
    age: jax.Array
    ages: jax.Array
    samples: jax.Array
    known: jax.Array
    me: jax.Array
    rank: jax.Array
    num_mobile: jax.Array
    round: jax.Array
    unknown: jax.Array
    ground: jax.Array | None
    world: GridWorld
    near: Callable[[jax.Array], jax.Array]
    around: Callable[[jax.Array], jax.Array]
    difference: jax.Array | None
    plan: Any
    numbers: Any


Choose = Callable[[jax.Array, Sight], jax.Array]
Prepare = Callable[[jax.Array, GridWorld, Sites], Any]


class StrategyState(NamedTuple):
    """The clients, and what they remember. It is the state of a strategy.

    Attributes:
      clients: the clients on the map: where they are, and the points for which they are heading.
      round: [] int32, rounds moved so far.
      last: [N, N] int32, the round after whose movement client i was last in range of client j; `NOT_SEEN`.
      ties: data of the key that breaks ties among cluster centres; all clients share it.
      sites: the candidates, if they are the same for all clients and rounds, as with an oracle.
      plan: what the strategy prepared for them.
      ground: [N, L] int32, the round after whose movement each candidate point was last in range of each client;
        `NOT_SEEN`. None unless clients explore.
      differs: [N, N] float32, the distance of client i's model from that of static client j when i last heard it;
        `NOT_SEEN`. None unless the strategy compares.
      body: how clients move in their world between points of the map; None on the grid, where they stand at points.
    """

    clients: GridClient
    round: jax.Array
    last: jax.Array
    ties: jax.Array
    sites: Sites | None
    plan: Any
    ground: jax.Array | None = None
    differs: jax.Array | None = None
    body: Any = None


class Terrain(NamedTuple):
    """What a world gives to clients that choose.

    The map of a world is a `GridWorld`, whose places are indices into its points. The first of these are the
    candidates, and strategies see no others.

    Attributes:
      world: the name of the world.
      numbers: the class of the numbers that the world adds to those of a strategy; None: it adds none.
      begin: (world) -> the body before the first round.
      chart: (world, body) -> the map.
      points: (map) -> L, how many candidates there are.
      first: (world, map) -> the clients on the map before the first round.
      stand: (world, memory) -> (the clients with their places on the map when a round begins, and [N] bool, which
        of them have arrived).
      centres: (map, key of ties, known clients [N]) -> [L] bool, the cluster centres of the known clients.
      around: (map, [L]) -> [L], sums values of the points over those in range of each point.
      anywhere: (key, map, place) -> the point for which a client at a place goes that knows too little.
      keys: (key of a round) -> (key of the choices, key of the movement).
      go: (key, world, memory with the clients of ``stand``, chosen points [N]) -> the memory after the movement.
      position: (world, memory) -> [N, 2] places.
      path: (world, memory) -> the paths of the last round; None: straight ones.
      warm_up: (world) -> rounds of movement before the first round; None: there are none.
    """

    world: WorldKind
    numbers: type[Numbers] | None
    begin: Callable[[Any], Any]
    chart: Callable[[Any, Any], GridWorld]
    points: Callable[[GridWorld], int]
    first: Callable[[Any, GridWorld], GridClient]
    stand: Callable[[Any, StrategyState], tuple[GridClient, jax.Array]]
    centres: Callable[[GridWorld, jax.Array, jax.Array], jax.Array]
    around: Callable[[GridWorld, jax.Array], jax.Array]
    anywhere: Callable[[jax.Array, GridWorld, jax.Array], jax.Array]
    keys: Callable[[jax.Array], tuple[jax.Array, Any]]
    go: Callable[[Any, Any, StrategyState, jax.Array], StrategyState]
    position: Callable[[Any, StrategyState], jax.Array]
    path: Callable[[Any, StrategyState], Path] | None = None
    warm_up: Callable[[Any], jax.Array] | None = None


TERRAINS: Registry[Terrain] = Registry("world of policies", contrib="terrains")
"""The worlds in which a strategy moves clients, by name."""


def best(key: jax.Array, score: jax.Array, sight: Sight) -> jax.Array:
    """Choose the candidate of the highest score, and not the client's own place unless there is no other.

    Args:
      key: typed key of the draw that breaks ties, uniformly.
      score: [K] scores.
      sight: what the client knows.

    Returns:
      [] int32, the index of the candidate.
    """
    others = sight.valid & ~sight.here
    score = jnp.where(others, score, -jnp.inf)
    first = jnp.where(others & (score == jnp.max(score)), jax.random.uniform(key, score.shape), -1.0)
    return jnp.where(jnp.any(others), jnp.argmax(first), jnp.argmax(sight.here)).astype(jnp.int32)


def drawn(key: jax.Array, weight: jax.Array, sight: Sight) -> jax.Array:
    """Draw a candidate with probability proportional to its weight; uniformly, if all weights are zero.

    Args:
      key: typed key of the draw.
      weight: [K] weights, at least 0.
      sight: what the client knows.

    Returns:
      [] int32, the index of the candidate.
    """
    weight = jnp.where(sight.valid, weight, 0.0)
    weight = jnp.where(jnp.any(weight > 0), weight, sight.valid)
    return jax.random.categorical(key, jnp.log(weight)).astype(jnp.int32)


class Strategy(NamedTuple):
    """A strategy, whatever the world in which it moves clients and whatever these know.

    Attributes:
      choose: (key, sight) -> index of a candidate, for ONE client that is due to choose.
      prepare: (key, world, sites) -> plan, called once before the first round. Clients must then know all places, so
        the knowledge must be ``oracle``.
      everywhere: whether every point is a candidate, and not only the cluster centres of the known clients.
      replans: whether a client chooses in every round, and not only when it has reached its destination.
      compares: whether a client remembers how much its model differed from those that it heard.
    """

    choose: Choose
    prepare: Prepare | None = None
    everywhere: bool = False
    replans: bool = False
    compares: bool = False


@dataclass(frozen=True, eq=False)
class Movers:
    """The clients that move by a strategy in one world and with one knowledge, with `Mobility`'s functions as methods.

    Attributes:
      strategy: the strategy.
      terrain: what the world gives.
      knowledge: what clients know of static clients.
    """

    strategy: Strategy
    terrain: Terrain
    knowledge: str

    @property
    def oracle(self) -> bool:
        """Whether clients know all static clients."""
        return self.knowledge == ORACLE

    @property
    def explores(self) -> bool:
        """Whether clients choose before they know whom there is to meet, and remember what they saw."""
        return self.knowledge == EXPLORED

    def tells(self, world: Any) -> jax.Array:
        """Return whether clients in range tell each other whom they met."""
        return world.numbers.tell_met if self.knowledge == MET else jnp.bool_(False)

    def find(self, chart: GridWorld, ties: jax.Array, known: jax.Array) -> Sites:
        """Return the candidates of a client that knows some static clients, [N] bool."""
        points = self.terrain.points(chart)
        if self.explores or self.strategy.everywhere:
            valid = jnp.ones(points, bool)
            return Sites(jnp.arange(points, dtype=jnp.int32), valid if self.explores else valid & jnp.any(known))
        chosen, count = self.terrain.centres(chart, ties, known), min(chart.start.shape[0], points)
        (place,) = jnp.nonzero(chosen, size=count, fill_value=0)
        return Sites(place.astype(jnp.int32), jnp.arange(count) < jnp.sum(chosen))

    def remember(self, world: Any, memory: StrategyState) -> StrategyState:
        """Note who and what is in range, after the movement of a round or before the first one."""
        chart, location = self.terrain.chart(world, memory.body), memory.clients.location
        last, ground = now_near(chart, location, memory.last, memory.round, self.tells(world)), memory.ground
        if ground is not None:
            seen = within(chart.grid[location], chart.grid[: self.terrain.points(chart)], chart.radius)
            ground = jnp.where(seen, memory.round, ground)
        return memory._replace(last=last, ground=ground)

    def init(self, key: jax.Array, world: Any) -> StrategyState:
        """Begin, and move for the rounds of the warm-up of the world."""
        body, count, prepare = self.terrain.begin(world), world.start.shape[0], self.strategy.prepare
        chart = self.terrain.chart(world, body)
        sites = self.find(chart, key, ~world.is_mobile) if self.oracle else None
        memory = StrategyState(
            clients=self.terrain.first(world, chart),
            round=jnp.int32(0),
            last=jnp.full((count, count), NOT_SEEN, jnp.int32),
            ties=jax.random.key_data(key),
            sites=sites,
            plan=prepare(key, chart, sites) if prepare and sites else None,
            ground=jnp.full((count, self.terrain.points(chart)), NOT_SEEN, jnp.int32) if self.explores else None,
            differs=jnp.full((count, count), NOT_SEEN, jnp.float32) if self.strategy.compares else None,
            body=body,
        )
        start = self.remember(world, memory)
        if self.terrain.warm_up is None:
            return start
        warm = lambda i, memory: self.step(jax.random.fold_in(key, i), world, memory)  # noqa: E731
        return jax.lax.fori_loop(0, self.terrain.warm_up(world), warm, start)

    def step(self, key: jax.Array, world: Any, memory: StrategyState) -> StrategyState:
        """Let the clients choose, and move them for one round."""
        key_choice, key_way = self.terrain.keys(key)
        clients, arrived = self.terrain.stand(world, memory)
        chosen = self.destinations(key_choice, world, memory._replace(clients=clients), arrived)
        moved = self.terrain.go(key_way, world, memory._replace(clients=clients), chosen)
        return self.remember(world, moved._replace(round=memory.round + 1))

    def destinations(self, key: jax.Array, world: Any, memory: StrategyState, arrived: jax.Array) -> jax.Array:
        """Let the clients that are due choose, one after the other: [N] int32 points for which all are heading."""
        chart, before = self.terrain.chart(world, memory.body), memory.clients.destination
        keys = per_client(key, world.start.shape[0])
        met = (memory.last != NOT_SEEN) & ~world.is_mobile
        warm = met_enough(chart, jnp.sum(met, axis=1)) if self.knowledge == MET else jnp.full(before.shape, True)
        due = world.is_mobile & (~warm | self.strategy.replans | arrived)
        (order,) = jnp.nonzero(due, size=due.shape[0], fill_value=0)

        def choice(i: jax.Array, destination: jax.Array) -> jax.Array:
            sight, sites = self.sight(key, chart, memory, i, destination)
            chosen = sites.place[self.strategy.choose(keys[i], sight)]
            return jnp.where(jnp.any(sites.valid), chosen, destination[i])

        def anywhere(i: jax.Array, destination: jax.Array) -> jax.Array:
            return self.terrain.anywhere(keys[i], chart, memory.clients.location[i])

        def set_out(k: jax.Array, destination: jax.Array) -> jax.Array:
            i = order[k].astype(jnp.int32)
            place = choice(i, destination) if self.oracle else jax.lax.cond(warm[i], choice, anywhere, i, destination)
            return destination.at[i].set(place)

        return jax.lax.fori_loop(0, jnp.sum(due), set_out, before)

    def sight(
        self, key: jax.Array, chart: GridWorld, memory: StrategyState, index: jax.Array, destination: jax.Array
    ) -> tuple[Sight, Sites]:
        """Return what a client knows when it chooses, and its candidates.

        Args:
          key: any typed key of the run, whose kind is that of the key that breaks ties.
          chart: the map of the world.
          memory: what the clients remember, with their places as `Terrain.stand` returns them.
          index: [] int32, the client.
          destination: [N] int32, the points for which all clients are heading.
        """
        known, sites = ~chart.is_mobile, memory.sites
        if not self.oracle:
            known &= memory.last[index] != NOT_SEEN
        if sites is None:
            ties = jax.random.wrap_key_data(memory.ties, impl=jax.random.key_impl(key))
            sites = self.find(chart, ties, known)
        return look(self.terrain, chart, memory, index, destination, sites, known), sites

    def heading(self, world: Any, memory: StrategyState) -> jax.Array:
        """Return [N, 2], the places for which clients are heading, as `Mobility.destination`."""
        chart, (clients, arrived) = self.terrain.chart(world, memory.body), self.terrain.stand(world, memory)
        return jnp.where((world.is_mobile & ~arrived)[:, None], chart.grid[clients.destination], jnp.nan)

    def centres(self, world: Any, memory: StrategyState) -> jax.Array:
        """Return [N, 2], the places of the candidates of an oracle, as `Mobility.centres`."""
        assert memory.sites is not None
        chart, (place, valid) = self.terrain.chart(world, memory.body), memory.sites
        votes = jnp.zeros(self.terrain.points(chart), jnp.int32).at[place].max(valid.astype(jnp.int32))
        return centre_places(chart, votes)

    def compare(self, memory: StrategyState, heard: jax.Array, differences: jax.Array) -> StrategyState:
        """Note how much models differed from those that were heard, as `Mobility.compare`."""
        assert memory.differs is not None
        return memory._replace(differs=jnp.where(heard, differences, memory.differs))


def choosing(strategy: Strategy, terrain: Terrain, knowledge: str = ORACLE) -> Mobility:
    """Make a mobility rule of a strategy, in one world and with one knowledge.

    Args:
      strategy: the strategy.
      terrain: what the world gives, of `TERRAINS`.
      knowledge: what clients know of static clients, one of `mdfl_jax.mobility.rule.KNOWLEDGE`.

    Returns:
      The mobility rule. Its state is a `StrategyState`.
    """
    movers = Movers(strategy, terrain, knowledge)
    return Mobility(
        init=movers.init,
        step=movers.step,
        position=terrain.position,
        world=terrain.world,
        path=terrain.path,
        destination=movers.heading,
        centres=movers.centres if movers.oracle and not strategy.everywhere else None,
        compare=movers.compare if strategy.compares else None,
    )


def now_near(chart: GridWorld, location: jax.Array, last: jax.Array, now: jax.Array, tells: jax.Array) -> jax.Array:
    """Update when each client was last in range of each static client, [N, N]; those in range may tell each other."""
    place = chart.grid[location]
    near = within(place, place, chart.radius) & chart.is_mobile[:, None]  # static clients are at their first places
    last = jnp.where(near & ~chart.is_mobile, now, last)
    told = lambda row: jnp.max(jnp.where((row & chart.is_mobile)[:, None], last, NOT_SEEN), axis=0)  # noqa: E731
    return jax.lax.cond(tells, lambda: jnp.maximum(last, jax.lax.map(told, near)), lambda: last)


def _sums_near(chart: GridWorld, known: jax.Array, place: jax.Array, values: jax.Array) -> jax.Array:
    """Sum values [N, F] over the known static clients in range of places [K]: [K, F]."""
    values = jnp.where(known[:, None], values, 0.0)
    if is_dense(chart.start.shape[0], chart.grid.shape[0]):
        near = within(chart.grid[place], chart.grid[chart.start], chart.radius).astype(jnp.float32)
        return jnp.matmul(near, values, precision="highest")
    size = grid_size(chart)  # the plane is always dense, since its strategies serve few clients
    return sums_in_range(summed_at(chart.start, values, size), chart.radius).reshape(size * size, -1)[place]


def _rounds(way: jax.Array, max_step: jax.Array) -> jax.Array:
    """Return the fewest rounds for ways [K, 2]: steps may be shorter, since they end at points."""
    length = jnp.sqrt(jnp.sum(jnp.square(way), axis=1))
    steps = jnp.maximum(jnp.ceil(length / max_step * (1 - 1e-6)), 1.0)  # a step may be as long as sqrt(2), rounded
    return jnp.where(length > 0, steps, 0.0)


def look(
    terrain: Terrain,
    chart: GridWorld,
    memory: StrategyState,
    index: jax.Array,
    destination: jax.Array,
    sites: Sites,
    known: jax.Array,
) -> Sight:
    """Return what a client knows.

    Args:
      terrain: what the world gives.
      chart: the map of the world.
      memory: what the clients remember, with their places on the map.
      index: [] int32, the client.
      destination: [N] int32, the points for which all clients are heading.
      sites: the candidates.
      known: [N] bool, the static clients that the client knows.
    """
    clients, numbers = memory.clients, jnp.arange(chart.start.shape[0])
    here, near = clients.location[index], partial(_sums_near, chart, known)
    counts = chart.label_counts.astype(jnp.float32)
    there = histograms(near(sites.place, counts), chart.label_counts[index])
    own = histograms(near(here[None], counts), chart.label_counts[index])[0]
    place, own_place = chart.grid[sites.place], chart.grid[here]
    away, oracle = distances(there, own), memory.sites is not None
    in_range = oracle | within(chart.grid[clients.location], own_place[None], chart.radius)[:, 0]
    others = chart.is_mobile & (numbers != index) & in_range
    told = oracle | (numbers == index)  # an oracle tells what the others have seen
    ages = (memory.round - jnp.where(told[:, None], memory.last, NOT_SEEN)).astype(jnp.float32)
    ground = None if memory.ground is None else memory.ground[index]
    return Sight(
        valid=sites.valid,
        here=sites.place == here,
        distance=jnp.where(away > SMALLEST_DISTANCE, away, 0.0),
        travel=_rounds(place - own_place, chart.max_step),
        rivals=jnp.sum((sites.place[:, None] == destination) & others, axis=1).astype(jnp.float32),
        place=place,
        own_place=own_place,
        age=jnp.where(known, ages[index], 0.0),
        ages=ages,
        samples=jnp.where(known, jnp.sum(counts, axis=1), 0.0),
        known=known,
        me=index,
        rank=jnp.cumsum(chart.is_mobile)[index] - 1,
        num_mobile=jnp.sum(chart.is_mobile),
        round=memory.round,
        unknown=jnp.sum(~chart.is_mobile & ~known).astype(jnp.float32),
        ground=None if ground is None else jnp.where(ground == NOT_SEEN, NOT_SEEN, memory.round - ground),
        world=chart,
        near=lambda values: near(sites.place, values[:, None])[:, 0],
        around=lambda values: terrain.around(chart, values)[sites.place],
        difference=None if memory.differs is None else jnp.where(known, memory.differs[index], NOT_SEEN),
        plan=memory.plan,
        numbers=chart.numbers,
    )


# The grid: the map is the grid itself, and clients stand at its points.


def _on_grid(key: None, world: GridWorld, memory: StrategyState, chosen: jax.Array) -> StrategyState:
    clients = memory.clients
    location = jax.vmap(partial(nearest_within, world))(clients.location, chosen)
    moved = only_mobile(world, clients, clients._replace(location=location, destination=chosen))
    return memory._replace(clients=moved)


def _around_on_grid(world: GridWorld, values: jax.Array) -> jax.Array:
    size = grid_size(world)
    return sums_in_range(values.reshape(size, size, 1), world.radius).reshape(-1)


GRID = Terrain(
    world="grid",
    numbers=None,
    begin=lambda world: None,
    chart=lambda world, body: world,
    points=lambda chart: chart.grid.shape[0],
    first=lambda world, chart: GridClient(chart.start, chart.start, chart.label_counts),
    stand=lambda world, memory: (memory.clients, memory.clients.location == memory.clients.destination),
    centres=centres_of,
    around=_around_on_grid,
    anywhere=uniform_within,
    keys=lambda key: (key, None),
    go=_on_grid,
    position=lambda world, memory: world.grid[memory.clients.location],
)
"""The grid for clients that choose."""
TERRAINS.register(GRID.world, doc="The points of the grid.")(GRID)


def forms_of(
    strategy: Strategy, numbers: type[Numbers], worlds: Sequence[WorldKind], knowledge: Sequence[str]
) -> list[Form]:
    """Return the forms of a strategy.

    Args:
      strategy: the strategy.
      numbers: the class of the strategy's own numbers. The numbers of a form have those of its world and knowledge too.
      worlds: the worlds in which it is meant to move clients. One that is not installed is left out.
      knowledge: as of `mdfl_jax.mobility.registry.strategy`.
    """

    def form(terrain: Terrain, known: str) -> Form:
        added = (*([terrain.numbers] if terrain.numbers else []), *([MetNumbers] if known == MET else []))
        own = type(numbers.__name__, (*added, numbers), {"__doc__": numbers.__doc__}) if added else numbers
        return Form(partial(choosing, strategy, terrain, known or EXPLORED), terrain.world, known, own)

    there = [TERRAINS[world] for world in worlds if world in TERRAINS]
    return [form(terrain, known) for terrain in there for known in knowledge or ("",)]
