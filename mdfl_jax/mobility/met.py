"""Distribution-aware movement without an oracle: DAM and DCM by what a client has met.

DAM and DCM know the places and label counts of all static clients from the first round. MADFL (IV-A) has mobile clients
collect them "through a warm-up phase" and says no more of it; DADFL (VI) leaves it as future work. Here the phase is
part of the run. A mobile client knows the static clients it has met: those within Rc of its first place or of a place
where one of its moves ended. It moves at random until it has met the share ``warm_up_met`` of the static clients, one
at least (settled: nobody can move by nothing), and from then on as DAM or DCM do, of the known ones alone; what it
meets on the way counts for its next destination. At a share of 1 the phase collects what MADFL's does, and what follows
is DAM or DCM exactly. With ``tell_met``, mobile clients within Rc of each other after a move also tell what they knew.

Rc is the network's radius; radii of their own and failing links touch the exchange of models, not who is met.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.geometry import within
from mdfl_jax.mobility.clustering import cluster_centres
from mdfl_jax.mobility.distribution_aware import counts_in_range, move_by_distribution
from mdfl_jax.mobility.grid import GridClient, GridWorld, only_mobile
from mdfl_jax.mobility.random_movement import random_step
from mdfl_jax.mobility.registry import MOBILITIES
from mdfl_jax.mobility.rule import Mobility
from mdfl_jax.numbers import Numbers, number
from mdfl_jax.rng import per_client


class MetNumbers(Numbers):
    """Of movement by what a client has met."""

    warm_up_met: float = number(0.5, "share of the static clients met at random first", at_least=0, at_most=1)
    tell_met: bool = number(False, "mobile clients in range tell whom they met")


class Centres(NamedTuple):
    """The cluster centres of each client's own knowledge.

    Attributes:
      chosen: [N, L] bool, as each client last found them.
      stale: [N] bool, whether it has met somebody new since then, or never found any.
      ties: data of the key of the random ties, one for all: clients that know the same find the same centres.
    """

    chosen: jax.Array
    stale: jax.Array
    ties: jax.Array


class Knowledge(NamedTuple):
    """Clients and what they have learnt of each other.

    Attributes:
      clients: as of every rule of the grid.
      met: [N, N] bool, whether client i, mobile, knows client j, static; false elsewhere.
      centres: where these are the destinations; None where all grid points are.
    """

    clients: GridClient
    met: jax.Array
    centres: Centres | None


def now_met(world: GridWorld, location: jax.Array, met: jax.Array) -> jax.Array:
    """What clients know after they have come to their places.

    Args:
      world: where the static clients are, the radius, and whether knowledge is told.
      location: [N] places.
      met: [N, N] bool what they knew before.

    Returns:
      [N, N] bool, nowhere less.
    """
    place = world.grid[location]
    near = within(place, place, world.radius) & world.is_mobile[:, None]  # static clients are at their first places
    met = met | (near & ~world.is_mobile[None, :])
    hears = near & world.is_mobile[None, :] & world.numbers.tell_met
    told = jnp.matmul(hears.astype(jnp.float32), met.astype(jnp.float32), precision="highest")
    return met | (told > 0)


def warmed_up(world: GridWorld, met: jax.Array) -> jax.Array:
    """Which clients have met enough to move by what they know: [N, N] bool -> [N] bool.

    One that is left with no static client to meet has met enough.
    """
    num_static = jnp.sum(~world.is_mobile)
    share = world.numbers.warm_up_met * num_static * (1 - 1e-6)  # 0.2 of 15 are 3, not a little more
    return jnp.sum(met, axis=1) >= jnp.maximum(share, jnp.minimum(num_static, 1))


def known_counts(world: GridWorld, met: jax.Array) -> jax.Array:
    """Label counts near each grid point of the static clients that ONE client knows: [N] bool -> [L, C]."""
    counts = jnp.where(met[:, None], world.label_counts, 0)
    return counts_in_range(world.grid[world.start], counts, world.grid, world.radius)


def known_centres(world: GridWorld, key: jax.Array, met: jax.Array) -> jax.Array:
    """Cluster centres of the static clients that ONE client knows: [N] bool -> [L] bool."""
    return cluster_centres(key, world.grid, world.grid[world.start], world.radius, present=met)


def _move(
    key: jax.Array, client: GridClient, met: jax.Array, candidates: jax.Array, warm: jax.Array, world: GridWorld
) -> GridClient:
    """One round of one client. Both ways take their one random number of the same key."""
    informed = move_by_distribution(key, client, world, (known_counts(world, met), candidates))
    return jax.tree.map(partial(jnp.where, warm), informed, random_step(key, client, world))


def renewed(world: GridWorld, centres: Centres, met: jax.Array, choosing: jax.Array, impl: Any) -> Centres:
    """The centres with those of some clients found again, where they have news.

    Args:
      world: the grid and the static clients.
      centres: as they were.
      met: [N, N] bool what the clients know.
      choosing: [N] bool, who is about to choose a destination; the others pass on their old centres.
      impl: the kind of the keys (`jax.random.key_impl`).
    """
    due = centres.stale & choosing

    def find(old: jax.Array) -> jax.Array:
        ties = jax.random.wrap_key_data(centres.ties, impl=impl)
        return jnp.where(due[:, None], jax.vmap(partial(known_centres, world, ties))(met), old)

    chosen = jax.lax.cond(jnp.any(due), find, lambda old: old, centres.chosen)  # a loop for each client: not in vain
    return centres._replace(chosen=chosen, stale=centres.stale & ~due)


def met_mobility(by_centres: bool) -> Mobility:
    """The rule over all grid points, or over cluster centres of the known static clients.

    Args:
      by_centres: destinations are cluster centres (DCM) and not all grid points (DAM).
    """

    def init(key: jax.Array, world: GridWorld) -> Knowledge:
        num_clients, places = world.start.shape[0], world.grid.shape[0]
        none = jnp.zeros((num_clients, places), bool)
        return Knowledge(
            clients=GridClient(location=world.start, destination=world.start, label_counts=world.label_counts),
            met=now_met(world, world.start, jnp.zeros((num_clients, num_clients), bool)),
            centres=Centres(none, jnp.ones(num_clients, bool), jax.random.key_data(key)) if by_centres else None,
        )

    def step(key: jax.Array, world: GridWorld, state: Knowledge) -> Knowledge:
        clients, centres, warm = state.clients, state.centres, warmed_up(world, state.met)
        num_clients = world.start.shape[0]
        candidates = jnp.ones((num_clients, world.grid.shape[0]), bool)
        if centres is not None:
            choosing = warm & world.is_mobile & (clients.location == clients.destination)
            centres = renewed(world, centres, state.met, choosing, jax.random.key_impl(key))
            candidates = centres.chosen
        keys = per_client(key, num_clients)
        moved = jax.vmap(partial(_move, world=world))(keys, clients, state.met, candidates, warm)
        clients = only_mobile(world, clients, moved)
        met = now_met(world, clients.location, state.met)
        if centres is not None:
            centres = centres._replace(stale=centres.stale | jnp.any(met != state.met, axis=1))
        return Knowledge(clients, met, centres)

    def position(world: GridWorld, state: Knowledge) -> jax.Array:
        return world.grid[state.clients.location]

    return Mobility(init, step, position, world="grid")


@MOBILITIES.register("dam_met", MetNumbers)
def dam_met() -> Mobility:
    """DAM by the static clients met: random movement first, then over all grid points (MADFL eqs. 9 to 12)."""
    return met_mobility(by_centres=False)


@MOBILITIES.register("dcm_met", MetNumbers)
def dcm_met() -> Mobility:
    """DCM by the static clients met: random movement first, then over their cluster centres (MADFL eq. 13, alg. 3)."""
    return met_mobility(by_centres=True)
