"""The network of clients in space: mobility, contact and mixing (MADFL II, DADFL III and IV, thesis 4 and 5).

The order of a round: clients mix and then move (MADFL algorithm 1), or they move and then mix (DADFL IV).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core import contract
from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.core.links import Lists
from mdfl_jax.core.metric import CLIENTS, ROUNDS, UNKNOWN, Metric, record
from mdfl_jax.core.rng import stream, stream_at
from mdfl_jax.core.totals import Total, add
from mdfl_jax.core.trees import where_rows
from mdfl_jax.core.types import FIXED, SYMMETRIC, Clients, Links, Network, NetworkHooks, Observed, Places
from mdfl_jax.mobility.grid import GridWorld
from mdfl_jax.mobility.plane import Motion, PlaneWorld
from mdfl_jax.mobility.registry import MOBILITIES, Movement, as_movement, rule_numbers
from mdfl_jax.mobility.rule import FILES, Form, Mobility, Path, WorldKind, held, padded, path_length, straight
from mdfl_jax.mobility.trace import ListWorld
from mdfl_jax.networks.contact import (
    CONTACTS,
    Met,
    contacts_in_list,
    dense_contacts,
    link_radius,
    listed_contacts,
)
from mdfl_jax.networks.link_filters import LinkFilter, draw_radii, failure_probability, surviving
from mdfl_jax.networks.mixing import MIXINGS, SYMMETRIC_MIXINGS, MixingInputs
from mdfl_jax.networks.worlds import make_world, world_of

BEFORE_ALL_ROUNDS = 2**31 - 1  # an index of the stream "link" that is not the index of any round
PRESENT = record("present", lambda view: view.network.hooks.there(view.before), 1.0, dtype="bool")
"""The record of who could be in contact in each round, of a network with `NetworkHooks.there`."""


class SpatialParams(NamedTuple):
    """Traced numbers of a spatial network.

    Attributes:
      num_mobile: M, the number of clients that move. Under ``random_walk`` all clients move, and M are fast.
      radius: communication radius Rc, in grid units or metres, one for all clients or [N]; ``inf`` connects all.
      max_step: Rm, the largest distance moved in a round on the grid; ``inf`` means no limit.
      mobility: the index of the movement that is used, among those of the network.
      radius_spread: radii are drawn in [1 - spread, 1 + spread] times ``radius``, before the first round.
      link_failure: the probability that a link fails, drawn for each round and each direction.
      link_fading: the increase of this probability at the edge of the radius. It grows with the squared distance.
      mixing: the numbers of the mixing rule. None takes the defaults.
      motion: the numbers of the plane. The grid does not use them.
      rules: the numbers of each of the network's mobility rules, in their order (`rule_numbers`). If it is empty, the
        defaults are taken.
      trace: the data of a trace: a `mdfl_jax.mobility.trace.Tracks` in the world ``trace``, a
        `mdfl_jax.networks.contact.ContactList` in the world ``contacts``.
      link_filter: the numbers of the network's link filter, if it has one.
      movers: which M clients move, an index of `mdfl_jax.networks.worlds.MOVERS`; the first M are 0.
      relay_places: where relays stand, an index of `mdfl_jax.networks.worlds.RELAY_PLACES`.
    """

    num_mobile: Any = 5
    radius: Any = 3.0
    max_step: Any = 5.0
    mobility: Any = 0
    radius_spread: Any = 0.0
    link_failure: Any = 0.0
    link_fading: Any = 0.0
    mixing: Any = None
    motion: Any = Motion()
    rules: tuple[Any, ...] = ()
    trace: Any = None
    link_filter: Any = None
    movers: Any = 0
    relay_places: Any = 0


class SpatialState(NamedTuple):
    """The state of a spatial network between two rounds.

    Attributes:
      world: the data that the mobility rules read.
      rules: the state of each mobility rule. Only the state of the rule in use changes.
      places: the places of the clients, and the distances that they have moved.
      radius: [N] communication radii.
      excess: [N] float32, what the rounded distances have too much (`mdfl_jax.core.totals.Total`).
      speed: [N] distance that each client moved in the last round.
      path: the clients' paths in the last round; None unless contact is swept.
      there: [N] bool, which clients can be in contact; None if no rule lets clients be absent.
      filtered: the state of the link filter; None without one.
      needed: [] int32, the largest number of places that a list has needed so far; None without lists.
      stands: [N] bool, the clients that stand still in the coming round, whatever their rule; None: nobody does.
    """

    world: GridWorld | PlaneWorld | ListWorld
    rules: tuple[Any, ...]
    places: Places
    radius: jax.Array
    excess: jax.Array
    speed: jax.Array
    path: Path | None
    there: jax.Array | None
    filtered: Any = None
    needed: jax.Array | None = None
    stands: jax.Array | None = None


@dataclass(frozen=True, eq=False)
class _Space:
    """A spatial network: its settings, and the functions of `Network` as methods.

    Attributes:
      kind: the world whose program is used.
      rules: the mobility rules; ``mobility`` of the numbers chooses one.
      own: the default numbers of the rules.
      sweeps: whether contact is that of the movement since the last round.
      num_clients, grid_size, mixing, links_fail, link_filter, max_neighbours, num_relays: as of `spatial`.
    """

    kind: WorldKind
    rules: tuple[Mobility, ...]
    own: tuple[Any, ...]
    sweeps: bool
    num_clients: int
    grid_size: int
    mixing: str
    links_fail: bool
    link_filter: LinkFilter | None
    max_neighbours: int
    num_relays: int

    @property
    def num_places(self) -> int:
        """K of neighbour lists; 0 if links are matrices."""
        return self.max_neighbours + 1 if self.max_neighbours else 0

    def seen(self, params: SpatialParams, world: Any, k: int) -> Any:
        """Add the numbers of rule k and the trace to the world; these are not carried from round to round."""
        trace = {"trace": params.trace} if self.kind == "plane" else {}
        if self.kind == "contacts":
            return world
        return world._replace(numbers=(params.rules or self.own)[k].typed(), **trace)

    def there(self, rule: Mobility, world: Any, state: Any) -> jax.Array | None:
        """Return [N] bool, the clients that can be in contact; None if no rule lets clients be absent."""
        if not any(one.presence for one in self.rules):
            return None
        if rule.presence is None:
            return jnp.ones(self.num_clients, bool)
        present = rule.presence(world, state)
        return present.throughout if self.sweeps else present.now

    def init(self, params: SpatialParams, key: jax.Array, clients: Clients) -> SpatialState:
        """Place the clients, and begin every mobility rule."""
        num_clients, rules = self.num_clients, self.rules
        key_start, key_plan = jax.random.split(stream(key, "placement"))
        start = make_world(self.kind, params, key_start, clients, num_clients, self.grid_size, self.num_relays)
        worlds = [self.seen(params, start, k) for k in range(len(rules))]
        states = tuple(rule.init(key_plan, world) for rule, world in zip(rules, worlds))
        each = list(zip(rules, worlds, states))
        position = jnp.stack([rule.position(*one) for rule, *one in each])[params.mobility]
        paths = [rule.path(*one) for rule, *one in each if rule.path]
        still = padded(straight(position, position), max([2, *(path.times.shape[1] for path in paths)]))
        zero = jnp.zeros(num_clients)
        mobile = jnp.stack([rule.is_mobile(world) if rule.is_mobile else world.is_mobile for rule, world, _ in each])
        present = [there for one in each if (there := self.there(*one)) is not None]
        link_filter = self.link_filter
        return SpatialState(
            world=start,
            rules=states,
            places=Places(position, zero, mobile[params.mobility]),
            radius=draw_radii(
                stream_at(key, "link", BEFORE_ALL_ROUNDS), params.radius, params.radius_spread, num_clients
            ),
            excess=zero,
            speed=zero,
            path=still if self.sweeps else None,
            there=jnp.stack(present)[params.mobility] if present else None,
            filtered=link_filter.init(params.link_filter, key, clients, self.num_places) if link_filter else None,
            needed=jnp.int32(1) if self.max_neighbours else None,
        )

    def move(self, params: SpatialParams, key: jax.Array, state: SpatialState) -> SpatialState:
        """Move the clients for one round by the rule in use.

        Clients that `hold` has stopped stay where they are, unless a file says where clients are.
        """

        def use(k: int) -> Any:
            def step(states: tuple[Any, ...]) -> tuple[Any, ...]:
                rule, world = self.rules[k], self.seen(params, state.world, k)
                moved, stands = rule.step(key, world, states[k]), None if rule.world in FILES else state.stands
                if stands is not None:
                    moved = held(stands, states[k], moved)
                position = rule.position(world, moved)
                walked = rule.path(world, moved) if rule.path else straight(state.places.position, position)
                if stands is not None:
                    walked = walked._replace(points=where_rows(stands, position[:, None], walked.points))
                path = padded(walked, state.path.times.shape[1]) if state.path is not None else None
                rest = position, path_length(walked), path, self.there(rule, world, moved)
                return (*states[:k], moved, *states[k + 1 :]), *rest

            return step

        each = [use(k) for k in range(len(self.rules))]
        states, position, length, path, present = jax.lax.switch(params.mobility, each, state.rules)
        moved = add(Total(state.places.distance_moved, state.excess), length)
        places = state.places._replace(position=position, distance_moved=moved.value)
        return state._replace(rules=states, places=places, excess=moved.excess, speed=length, path=path, there=present)

    def height(self, params: SpatialParams, state: SpatialState) -> jax.Array | None:
        """Return the heights of a trace, [N]; NaN under a rule that knows none; None if there are none at all."""
        if getattr(params.trace, "height", None) is None:
            return None

        def use(k: int) -> Callable[[Any], jax.Array]:
            rise, unknown = self.rules[k].height, jnp.full(self.num_clients, jnp.nan, jnp.float32)
            return lambda states: rise(self.seen(params, state.world, k), states[k]) if rise else unknown

        return jax.lax.switch(params.mobility, [use(k) for k in range(len(self.rules))], state.rules)

    def meet(self, params: SpatialParams, round_index: jax.Array, state: SpatialState) -> Met:
        """Find who is in range of whom in a round."""
        position, path, radius = state.places.position, state.path, state.radius
        if self.kind == "contacts":
            met = contacts_in_list(params.trace, round_index, self.num_clients, self.links_fail, self.max_neighbours)
        else:
            listed = partial(listed_contacts, max_neighbours=self.max_neighbours)
            far = self.links_fail or bool(self.link_filter and self.link_filter.needs_distances)
            met = (listed if self.max_neighbours else dense_contacts)(position, path, radius, far)
        heard = met.heard & (round_index > 0) if self.sweeps else met.heard
        if state.there is not None:
            heard &= state.there[:, None] & met.senders.of(state.there)
        met = met._replace(heard=heard, position=position, is_mobile=state.places.is_mobile)
        return met._replace(path=path, radius=radius, duration=params.motion.dt, height=self.height(params, state))

    def step(
        self, params: SpatialParams, key: jax.Array, round_index: jax.Array, state: SpatialState, clients: Clients
    ) -> tuple[SpatialState, Links]:
        """Make the links of a round, and then move the clients."""
        met, filtered = self.meet(params, round_index, state), None
        if self.link_filter:
            of_round = stream_at(key, "link", round_index)
            met, filtered = self.link_filter.step(params.link_filter, state.filtered, of_round, met)
        senders, in_range, adjacency = met.senders, met.heard, met.heard
        if self.links_fail:
            assert met.squared is not None
            reach = link_radius(state.radius, senders, self.num_clients)
            fails = failure_probability(met.squared, reach, params.link_failure, params.link_fading)
            adjacency = surviving(stream_at(key, "link", round_index), in_range, fails, senders)
        # A contact list may hold one direction only.
        contact = in_range | senders.opposite(in_range) if self.kind == "contacts" else in_range
        numbers, weigh = (params.mixing or MIXINGS.numbers(self.mixing)()).typed(), MIXINGS[self.mixing]
        inputs = MixingInputs(adjacency, contact, clients.num_samples, state.speed, state.radius, numbers, senders)
        mix = contract.arrays(weigh, weigh(inputs), adjacency.shape, float)
        moved = self.move(params, stream_at(key, "mobility", round_index), state)._replace(filtered=filtered)
        if senders.most is not None and state.needed is not None:
            moved = moved._replace(needed=jnp.maximum(state.needed, senders.most))
        return moved, met.links(adjacency, mix)

    def hold(self, state: SpatialState, stands: jax.Array) -> SpatialState:
        """Return the state in whose coming round some clients, [N] bool, stand still; see `NetworkHooks.hold`."""
        return state._replace(stands=stands)

    def observe(self, params: SpatialParams, state: SpatialState, seen: Observed) -> SpatialState:
        """Tell the rules that compare models who heard whom, and how far the models were apart."""
        heard, apart = seen.heard.adjacency, seen.differences
        assert apart is not None, "the network compares"
        each = zip(self.rules, state.rules)
        return state._replace(rules=tuple(rule.compare(x, heard, apart) if rule.compare else x for rule, x in each))

    def told(self, view: Any, name: str) -> jax.Array:
        """Return what the rule in use tells of its state, [N, 2] float32; NaN for a rule that tells nothing."""
        state, nothing = view.state, jnp.full_like(view.state.places.position, jnp.nan)

        def use(k: int) -> Callable[[Any], jax.Array]:
            tell = getattr(self.rules[k], name)
            return lambda states: tell(self.seen(view.params, state.world, k), states[k]) if tell else nothing

        return jax.lax.switch(view.params.mobility, [use(k) for k in range(len(self.rules))], state.rules)

    def records(self) -> tuple[Metric, ...]:
        """Return the records of a round, as far as the rules have them.

        The records are ``destination`` and ``centre`` [N, 2] after the movement of the round, and ``present`` [N], the
        clients that could be in contact when the links of the round were made.
        """
        found = []
        for name, told in (("destination", "destination"), ("centre", "centres")):
            if any(getattr(rule, told) for rule in self.rules):
                each = partial(self.told, name=told)
                found.append(record(name, each, UNKNOWN, shape=(ROUNDS, CLIENTS, 2), optional=True))
        return (*found, PRESENT) if any(rule.presence for rule in self.rules) else tuple(found)


def spatial(
    num_clients: int,
    grid_size: int = 18,
    mobility: Sequence[str | Movement | Form] = ("random_movement",),
    mixing: str = "metropolis_hastings",
    contact: str = "disc",
    links_fail: bool = False,
    link_filter: LinkFilter | None = None,
    max_neighbours: int = 0,
    num_relays: int = 0,
) -> Network:
    """Make a network of clients that move on a G x G grid or in the plane, or whose links come from a contact list.

    The movements decide which of these worlds is used. Several movements in one world share ONE compiled program;
    ``hparams.network.mobility`` is the index of the movement of a run. ``hparams.network`` is a `SpatialParams`.

    Args:
      num_clients: N >= 1.
      grid_size: G >= 1, used on the grid only.
      mobility: the movements, or names of `mdfl_jax.mobility.MOBILITIES` for the rules in their own worlds, or forms of
        rules that are not registered.
      mixing: a name of `mdfl_jax.networks.mixing.MIXINGS`.
      contact: with ``disc``, two clients are in contact if they are within the radius at the beginning of the round.
        With ``swept``, they are in contact if they came within the radius at any time of the movement since the last
        round; so no client is in contact in the first round (thesis 4). A contact list does not use this argument.
      links_fail: whether links fail, as ``link_failure`` and ``link_fading`` say. If false, these two are not used.
      link_filter: a rule that removes contacts before links fail and weights are made; None: all contacts stay.
      max_neighbours: the links of a round are neighbour lists that can hold this many neighbours of a client, so that
        nothing has the size N x N. The metric ``list_places`` tells whether they were enough. 0: matrices [N, N].
      num_relays: K, the last clients, which stand where ``relay_places`` says.

    Returns:
      The network.

    Raises:
      UserError: for an unknown name, or for movements in more than one world.
    """
    if contact not in CONTACTS:
        raise UserError(unknown_name("contact", contact, CONTACTS))
    movements = [as_movement(one) for one in mobility]
    kind, _ = world_of(movements), MIXINGS[mixing]
    rules = tuple(MOBILITIES.form(movement).make() for movement in movements)
    if max_neighbours and (lacks := [movement.rule for movement, rule in zip(movements, rules) if rule.compare]):
        raise UserError(f"network.mobility {lacks[0]} compares models over matrices; it needs engine.links=dense")
    sweeps, own = contact == "swept" and kind != "contacts", rule_numbers(movements)
    settings = (mixing, links_fail, link_filter, max_neighbours, num_relays)
    space = _Space(kind, rules, own, sweeps, num_clients, grid_size, *settings)
    # Two clients have one distance and one radius, the smaller of theirs. So contact is symmetric. A filter keeps that.
    symmetric = mixing in SYMMETRIC_MIXINGS and not links_fail and kind != "contacts"
    fixed = all(rule.still for rule in rules) and contact == "disc" and not links_fail
    fixed &= link_filter is None or link_filter.keeps_fixed
    compares = any(rule.compare for rule in rules)
    return Network(
        num_clients=num_clients,
        gives=frozenset({"adjacency", "mix"} | ({SYMMETRIC} if symmetric else set()) | ({FIXED} if fixed else set())),
        init=space.init,
        step=space.step,
        places=lambda state: state.places,
        lists=Lists(space.num_places, space.num_places, lambda state: state.needed) if max_neighbours else None,
        metrics=(*space.records(), *(link_filter.metrics if link_filter else ())),
        hooks=NetworkHooks(
            observe=space.observe if compares else None,
            compares=compares,
            there=(lambda state: state.there) if any(rule.presence for rule in rules) else None,
            hold=space.hold,
        ),
    )


def move_first(network: Network) -> Network:
    """Make a network whose clients move before they mix in a round, and not after it (DADFL IV).

    The first movement is part of ``init``, and each round ends with the movement of the next one. So the places of a
    state are those of the links of the coming round, in both orders; nothing that reads them needs to know the order.
    With the same key, the links of round t are those that ``network`` has in round t + 1. The distance of the first
    movement does not count, so that t movements count after t rounds.

    Args:
      network: a network of `spatial`.

    Returns:
      The network; its ``init`` raises a UserError in a world without places.
    """

    def init(params: Any, key: jax.Array, clients: Clients) -> SpatialState:
        start = network.init(params, key, clients)
        if isinstance(start.world, ListWorld):
            raise UserError("network.order is move_first; the clients of a contact list have no places")
        moved = network.step(params, key, jnp.int32(0), start, clients)[0]
        places = moved.places._replace(distance_moved=start.places.distance_moved)
        moved = moved._replace(places=places, excess=start.excess)
        # Nothing is exchanged before the first round: link filters and neighbour lists begin with it.
        return moved._replace(filtered=start.filtered, needed=start.needed)

    def step(
        params: Any, key: jax.Array, round_index: jax.Array, state: SpatialState, clients: Clients
    ) -> tuple[SpatialState, Links]:
        return network.step(params, key, round_index + 1, state, clients)

    return network._replace(init=init, step=step)


ORDERS: dict[str, Callable[[Network], Network]] = {"mix_first": lambda network: network, "move_first": move_first}
"""The orders of a round by name: (network that mixes first) -> network."""
