"""Strategies: mobility rules of the grid that choose among candidate places by what a client knows of them.

A strategy is a function ``choose(key, sight) -> index`` of ONE client that has reached its destination. ``sight`` says
what it knows of each candidate. The client then moves towards the chosen place, as under DCM (MADFL eq. 12). `strategy`
registers such a function twice: as NAME, where the places and label counts of all static clients are known from the
first round, which is what DCM knows; and as NAME_met, where a client knows only the static clients that it has met, as
under ``dam_met`` and ``dcm_met`` (`mdfl_jax.mobility.met`).

Clients that choose in the same round do so one after the other, in the order of their numbers. A client remembers when
it was last in range of each static client, so the memory grows as N x N.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.geometry import within
from mdfl_jax.core.numbers import Numbers, Setting
from mdfl_jax.mobility.clustering import centre_places, centres_of
from mdfl_jax.mobility.deciding import Choose, Prepare, compared, destinations, now_near
from mdfl_jax.mobility.grid import GridClient, GridWorld, mobility_of, nearest_within, only_mobile
from mdfl_jax.mobility.met import MetNumbers
from mdfl_jax.mobility.plane_strategy import register_in_plane
from mdfl_jax.mobility.registry import MOBILITIES
from mdfl_jax.mobility.rule import Mobility
from mdfl_jax.mobility.rules.random_movement import random_step
from mdfl_jax.mobility.sight import NEVER, Memory, Sites

LARGEST = 4096  # clients; who met whom when takes 4 N N bytes


class StrategyNumbers(Numbers):
    """The numbers of a strategy; each strategy adds its own."""

    def check(self, setting: Setting) -> None:
        """Check that the memory of all clients fits: `LARGEST` clients."""
        if setting.num_clients > LARGEST:
            raise UserError(
                f"network.num_clients is {setting.num_clients}; with network.mobility {setting.member} it must be at "
                f"most {LARGEST}: each client remembers whom it met when, or what it saw"
            )


class MetStrategyNumbers(StrategyNumbers, MetNumbers):
    """The numbers of a strategy without an oracle."""


def _centres(world: GridWorld, ties: jax.Array, known: jax.Array) -> Sites:
    chosen, count = centres_of(world, ties, known), min(world.start.shape[0], world.grid.shape[0])
    (place,) = jnp.nonzero(chosen, size=count, fill_value=0)
    return Sites(place.astype(jnp.int32), jnp.arange(count) < jnp.sum(chosen))


def _all_points(world: GridWorld, ties: jax.Array, known: jax.Array) -> Sites:
    count = world.grid.shape[0]
    return Sites(jnp.arange(count, dtype=jnp.int32), jnp.ones(count, bool))


def _everywhere(world: GridWorld, ties: jax.Array, known: jax.Array) -> Sites:
    points = _all_points(world, ties, known)
    return points._replace(valid=points.valid & jnp.any(known))


def _now_seen(world: GridWorld, location: jax.Array, ground: jax.Array, now: jax.Array) -> jax.Array:
    """Update when each grid point was last in range of each client, [N, L]."""
    return jnp.where(within(world.grid[location], world.grid, world.radius), now, ground)


def strategy_mobility(
    choose: Choose,
    oracle: bool = True,
    prepare: Prepare | None = None,
    everywhere: bool = False,
    replans: bool = False,
    explores: bool = False,
    compares: bool = False,
) -> Mobility:
    """Make a mobility rule of a strategy.

    Args:
      choose: (key, sight) -> index of a candidate, for ONE client that has reached its destination.
      oracle: whether all static clients are known from the first round. Else a client first moves at random, as under
        ``dcm_met``; its world's numbers are those of `mdfl_jax.mobility.met.MetNumbers`.
      prepare: (key, world, sites) -> plan, called once before the first round; only with an oracle.
      everywhere: whether every grid point is a candidate, and not only the cluster centres of the known clients.
      replans: whether a client chooses in every round, and not only when it has reached its destination.
      explores: whether a client without an oracle remembers when it saw which grid points, and chooses from the first
        round on, instead of moving at random until it has met enough others. Every grid point is then a candidate.
      compares: whether a client remembers how much its model differed from those that it heard.

    Returns:
      The mobility rule, in the world ``grid``.
    """
    find = _all_points if explores else _everywhere if everywhere else _centres

    def tells(world: GridWorld) -> jax.Array:
        return jnp.bool_(False) if oracle or explores else world.numbers.tell_met

    def init(key: jax.Array, world: GridWorld) -> Memory:
        count = world.start.shape[0]
        clients = GridClient(location=world.start, destination=world.start, label_counts=world.label_counts)
        never = jnp.full((count, count), NEVER, jnp.int32)
        last = now_near(world, world.start, never, jnp.int32(0), tells(world))
        sites = find(world, key, ~world.is_mobile) if oracle else None
        plan = prepare(key, world, sites) if prepare and sites else None
        unseen = jnp.full((count, world.grid.shape[0]), NEVER, jnp.int32)
        ground = _now_seen(world, world.start, unseen, jnp.int32(0)) if explores else None
        differs = jnp.full((count, count), NEVER, jnp.float32) if compares else None
        return Memory(clients, jnp.int32(0), last, jax.random.key_data(key), sites, plan, ground, differs)

    def step(key: jax.Array, world: GridWorld, memory: Memory) -> Memory:
        clients = memory.clients

        def at_random(key: jax.Array, i: jax.Array) -> jax.Array:
            return random_step(key, jax.tree.map(lambda leaf: leaf[i], clients), world).destination

        arrived, at_once = clients.location == clients.destination, oracle or explores
        destination = destinations(
            key, world, memory, arrived, choose, find, at_random, oracle, at_once=at_once, replans=replans
        )
        location = jax.vmap(partial(nearest_within, world))(clients.location, destination)
        moved = only_mobile(world, clients, clients._replace(location=location, destination=destination))
        now = memory.round + 1
        last = now_near(world, moved.location, memory.last, now, tells(world))
        ground = None if memory.ground is None else _now_seen(world, moved.location, memory.ground, now)
        return memory._replace(clients=moved, round=now, last=last, ground=ground)

    def centres(world: GridWorld, memory: Memory) -> jax.Array:
        assert memory.sites is not None
        place, valid = memory.sites
        votes = jnp.zeros(world.grid.shape[0], jnp.int32).at[place].max(valid.astype(jnp.int32))
        return centre_places(world, votes)

    told = {"centres": centres if oracle and not everywhere else None, "compare": compared if compares else None}
    return mobility_of(init, step, lambda memory: memory.clients, **told)


def strategy(
    name: str,
    numbers: type[StrategyNumbers] = StrategyNumbers,
    prepare: Prepare | None = None,
    everywhere: bool = False,
    replans: bool = False,
    explores: bool = False,
    compares: bool = False,
) -> Callable[[Choose], Choose]:
    """Return a decorator that registers a strategy as the mobility rule NAME, and as NAME_met without an oracle.

    A strategy that does not explore is also registered for the plane, as NAME_plane and NAME_met_plane.

    Args:
      name: the name of the rule.
      numbers: the class of its numbers, a subclass of `StrategyNumbers`.
      prepare, everywhere, replans, explores, compares: as of `strategy_mobility`. A strategy that prepares a plan has
        no form without an oracle, and one that explores no other.
    """

    def add(choose: Choose) -> Choose:
        doc = (choose.__doc__ or "").strip().partition("\n")[0]
        unmet = doc.rstrip(".") + ", with only the static clients that it has met."
        rules = [(name, numbers, doc, not explores)]
        if prepare is None and not explores:
            rules.append((f"{name}_met", type(f"{name}_met", (MetStrategyNumbers, numbers), {}), unmet, False))

        def on_grid(oracle: bool) -> Callable[[], Mobility]:
            plan = prepare if oracle else None
            return lambda: strategy_mobility(choose, oracle, plan, everywhere, replans, explores, compares)

        for called, own, told, oracle in rules:
            MOBILITIES.register(called, own, told)(on_grid(oracle))
            if not explores:
                register_in_plane(called, choose, numbers, told, oracle, prepare, everywhere, replans, compares)
        return choose

    return add
