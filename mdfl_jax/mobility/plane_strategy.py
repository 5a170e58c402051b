"""Strategies in the plane: the choices of `mdfl_jax.mobility.strategy`, among the points of a lattice over the plane.

A client decides when a round begins, goes straight to the chosen point at a speed from [speed_min, speed_max], and
rests there until the round ends. A client that is under way keeps its destination, unless its strategy thinks again in
every round. It remembers whom it was in range of at the ends of rounds, and not whom it passed.

A strategy sees the plane as a grid world whose points are the lattice, the first places of all clients, and their
present places; only the lattice's points are candidates. Its largest step is what the fastest client goes in a round.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbers import Setting
from mdfl_jax.core.rng import per_client
from mdfl_jax.mobility.clustering import cluster_centres
from mdfl_jax.mobility.deciding import Choose, Prepare, compared, destinations, now_near
from mdfl_jax.mobility.grid import GridClient, GridWorld
from mdfl_jax.mobility.lattice import SIDE, lattice
from mdfl_jax.mobility.met import MetNumbers
from mdfl_jax.mobility.plane import PlaneClient, PlaneWorld, SpeedNumbers, between, travel
from mdfl_jax.mobility.registry import MOBILITIES
from mdfl_jax.mobility.rule import Mobility, Path
from mdfl_jax.mobility.sight import NEVER, Memory, Sites

LARGEST = 1024  # clients; what each sees of the lattice is an array of N + SIDE^2 by N


class PlaneStrategyNumbers(SpeedNumbers):
    """The numbers of a strategy in the plane; each strategy adds its own."""

    def check(self, setting: Setting) -> None:
        """Check the speeds, and that there are at most `LARGEST` clients."""
        super().check(setting)
        if setting.num_clients > LARGEST:
            raise UserError(
                f"network.num_clients is {setting.num_clients}; with network.mobility {setting.member} it must be at "
                f"most {LARGEST}: each client looks at all places and clients"
            )


class MetPlaneStrategyNumbers(PlaneStrategyNumbers, MetNumbers):
    """The numbers of a strategy without an oracle in the plane."""


class State(NamedTuple):
    """The clients in the plane, what they remember (their destinations are points of the lattice), and their paths."""

    clients: PlaneClient
    memory: Memory
    path: Path


def _seen(world: PlaneWorld, position: jax.Array) -> GridWorld:
    count = world.start.shape[0]
    return GridWorld(
        grid=jnp.concatenate([lattice(world.size), world.start, position]),
        start=SIDE * SIDE + jnp.arange(count, dtype=jnp.int32),
        is_mobile=world.is_mobile,
        label_counts=world.label_counts,
        radius=world.radius,
        max_step=world.numbers.speed_max * world.motion.dt,
        numbers=world.numbers,
    )


def _points(world: GridWorld, ties: jax.Array, known: jax.Array) -> Sites:
    points = SIDE * SIDE
    return Sites(jnp.arange(points, dtype=jnp.int32), jnp.full(points, True) & jnp.any(known))


def _centres(world: GridWorld, ties: jax.Array, known: jax.Array) -> Sites:
    points, count = SIDE * SIDE, world.start.shape[0]
    chosen = cluster_centres(ties, world.grid[:points], world.grid[world.start], world.radius, present=known)
    (place,) = jnp.nonzero(chosen, size=min(count, points), fill_value=0)
    return Sites(place.astype(jnp.int32), jnp.arange(len(place)) < jnp.sum(chosen))


def plane_strategy(
    choose: Choose,
    oracle: bool = True,
    prepare: Prepare | None = None,
    everywhere: bool = False,
    replans: bool = False,
    compares: bool = False,
) -> Mobility:
    """Make a mobility rule of the plane from a strategy.

    Args:
      choose, oracle, prepare, everywhere, replans, compares: as of `mdfl_jax.mobility.strategy.strategy_mobility`.
        A client without an oracle that has not met enough others goes to a point of the lattice drawn uniformly.

    Returns:
      The mobility rule, in the world ``plane``.
    """
    find = _points if everywhere else _centres

    def tells(world: PlaneWorld) -> jax.Array:
        return jnp.bool_(False) if oracle else world.numbers.tell_met

    def location(count: int) -> jax.Array:
        return SIDE * SIDE + count + jnp.arange(count, dtype=jnp.int32)

    def init(key: jax.Array, world: PlaneWorld) -> State:
        count, view = world.start.shape[0], _seen(world, world.start)
        nearest = jnp.argmin(jnp.sum(jnp.square(world.start[:, None] - lattice(world.size)), axis=2), axis=1)
        shown = GridClient(location(count), nearest.astype(jnp.int32), world.label_counts)
        last = now_near(view, shown.location, jnp.full((count, count), NEVER, jnp.int32), jnp.int32(0), tells(world))
        sites = find(view, key, ~world.is_mobile) if oracle else None
        plan = prepare(key, view, sites) if prepare and sites else None
        differs = jnp.full((count, count), NEVER, jnp.float32) if compares else None
        memory = Memory(shown, jnp.int32(0), last, jax.random.key_data(key), sites, plan, None, differs)
        zero, index = jnp.zeros_like(world.start), jnp.arange(count, dtype=jnp.int32)
        clients = PlaneClient(index, world.start, zero, zero[:, 0], jnp.ones_like(zero), None)
        times = jnp.ones((count, 5)).at[:, 0].set(0)
        state = State(clients, memory, Path(times, jnp.repeat(world.start[:, None], 5, axis=1)))
        warm = lambda i, s: step(jax.random.fold_in(key, i), world, s)  # noqa: E731
        return jax.lax.fori_loop(0, world.motion.warm_up, warm, state)

    def step(key: jax.Array, world: PlaneWorld, state: State) -> State:
        key_choice, key_speed, key_way = jax.random.split(key, 3)
        clients, memory, count = state.clients, state.memory, world.start.shape[0]

        def at_random(key: jax.Array, i: jax.Array) -> jax.Array:
            return jax.random.randint(key, (), 0, SIDE * SIDE, jnp.int32)

        view, arrived, shown = _seen(world, clients.position), ~_under_way(clients), memory.clients
        rests = world.is_mobile & arrived & (memory.round > 0)  # at the point of the lattice where it went
        at_points = memory._replace(
            clients=shown._replace(location=jnp.where(rests, shown.destination, shown.location))
        )
        chosen = destinations(
            key_choice, view, at_points, arrived, choose, find, at_random, oracle, at_once=oracle, replans=replans
        )
        way, numbers = lattice(world.size)[chosen] - clients.position, world.numbers
        draw = partial(between, low=numbers.speed_min, high=numbers.speed_max)
        time = jnp.sqrt(jnp.sum(jnp.square(way), axis=1)) / jax.vmap(draw)(per_client(key_speed, count))
        velocity = way / jnp.where(time > 0, time, 1.0)[:, None]
        motion, sets_out = world.motion, clients._replace(velocity=velocity, time_left=time)
        moved, path = travel(key_way, sets_out, _rest, world.is_mobile, world.size, motion.dt, motion.boundary, 2)
        after, now = _seen(world, moved.position), memory.round + 1
        last = now_near(after, shown.location, memory.last, now, tells(world))
        shown = shown._replace(destination=jnp.where(world.is_mobile, chosen, shown.destination))
        return State(moved, memory._replace(clients=shown, round=now, last=last), path)

    def heading(world: PlaneWorld, state: State) -> jax.Array:
        goes = world.is_mobile & _under_way(state.clients)
        return jnp.where(goes[:, None], lattice(world.size)[state.memory.clients.destination], jnp.nan)

    def compare(state: State, heard: jax.Array, differences: jax.Array) -> State:
        return state._replace(memory=compared(state.memory, heard, differences))

    return Mobility(
        init=init,
        step=step,
        position=lambda world, state: state.clients.position,
        world="plane",
        path=lambda world, state: state.path,
        destination=heading,
        compare=compare if compares else None,
    )


def _under_way(clients: PlaneClient) -> jax.Array:
    return (clients.time_left > 0) & jnp.isfinite(clients.time_left)


def _rest(key: jax.Array, client: PlaneClient) -> PlaneClient:
    return client._replace(velocity=jnp.zeros_like(client.velocity), time_left=jnp.full_like(client.time_left, jnp.inf))


def register_in_plane(
    name: str, choose: Choose, numbers: type[Any], doc: str, oracle: bool, prepare: Prepare | None, *ways: bool
) -> None:
    """Register a strategy's form in the plane as NAME_plane.

    Args:
      name: the name of the form on the grid.
      choose, oracle, prepare: as of `plane_strategy`.
      numbers: the class of the strategy's own numbers; the form has speeds too.
      doc: what the form on the grid does, a line.
      *ways: everywhere, replans, compares: as of `plane_strategy`.
    """
    own = type(f"{name}_plane", (PlaneStrategyNumbers if oracle else MetPlaneStrategyNumbers, numbers), {})
    MOBILITIES.register(f"{name}_plane", own, doc.rstrip(".") + ", in the plane.")(
        lambda: plane_strategy(choose, oracle, prepare, *ways)
    )
