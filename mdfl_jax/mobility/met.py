"""Distribution-aware movement without an oracle: DAM and DCM that use only the static clients that a client has met.

DAM and DCM know the places and label counts of all static clients from the first round. In MADFL (IV-A) mobile clients
collect them "through a warm-up phase", which the paper does not describe further. DADFL (VI) leaves it as future work.

Here this phase is part of the run. A mobile client knows the static clients that it has met: those within Rc of its
first place, or of a place where one of its moves ended. It first moves at random, until it has met the share
``warm_up_met`` of the static clients and at least one. (The minimum of one is our choice: a client that knows nobody
has nothing to move by.) From then on it moves as under DAM or DCM, but with the known static clients only. The static
clients that it meets on the way count from its next destination on. With a share of 1 the phase collects what MADFL's
phase does, and the movement after it is exactly DAM or DCM. With ``tell_met``, mobile clients within Rc of each other,
at their first places or after a move, also tell each other which static clients they know.

Where there are many clients, what they know is kept as bits (`mdfl_jax.mobility.met_many`).

Rc is the network's radius. Radii of single clients and failing links affect the exchange of models, but not who is met.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from mdfl_jax.core.geometry import within
from mdfl_jax.core.numbers import Numbers, number
from mdfl_jax.core.rng import per_client
from mdfl_jax.mobility import many, met_many
from mdfl_jax.mobility.bits import votes_of
from mdfl_jax.mobility.clustering import centre_places, centres_of
from mdfl_jax.mobility.grid import GridClient, GridWorld, mobility_of, only_mobile
from mdfl_jax.mobility.label_histograms import counts_of
from mdfl_jax.mobility.meeting import Centres, Knowledge, met_enough
from mdfl_jax.mobility.registry import MOBILITIES
from mdfl_jax.mobility.rule import Mobility
from mdfl_jax.mobility.rules.distribution_aware import move_by_distribution
from mdfl_jax.mobility.rules.random_movement import random_step


class MetNumbers(Numbers):
    """The numbers of ``dam_met`` and ``dcm_met``."""

    warm_up_met: float = number(0.5, "share of static clients to meet in random movement first", at_least=0, at_most=1)
    tell_met: bool = number(False, "mobile clients in range tell each other whom they met")


def is_many(world: GridWorld) -> bool:
    """Return whether what is known is kept as bits (`mdfl_jax.mobility.met_many`). Clients move alike either way."""
    num_clients = world.start.shape[0]
    return num_clients * max(num_clients, world.grid.shape[0]) > many.LARGEST_AT_ONCE


def now_met(world: GridWorld, location: jax.Array, met: jax.Array) -> jax.Array:
    """Update which static clients each client knows, after the clients have arrived at their places.

    Args:
      world: the grid world, which holds the radius and the number ``tell_met``.
      location: [N] int32 places of the clients.
      met: [N, N] bool, who knew whom before.

    Returns:
      [N, N] bool, who knows whom now. Nothing is forgotten.
    """
    place = world.grid[location]
    near = within(place, place, world.radius) & world.is_mobile[:, None]  # static clients are at their first places
    met = met | (near & ~world.is_mobile[None, :])
    hears = near & world.is_mobile[None, :] & world.numbers.tell_met
    told = jnp.matmul(hears.astype(jnp.float32), met.astype(jnp.float32), precision="highest")
    return met | (told > 0)


def warmed_up(world: GridWorld, met: jax.Array) -> jax.Array:
    """Find the clients whose warm-up is over, [N] bool, from who knows whom, [N, N] bool."""
    return met_enough(world, jnp.sum(met, axis=1))


def known_counts(world: GridWorld, met: jax.Array) -> jax.Array:
    """Sum the label counts near each grid point of the static clients that ONE client knows: [N] bool -> [L, C]."""
    return counts_of(world, met)


def known_centres(world: GridWorld, key: jax.Array, met: jax.Array) -> jax.Array:
    """Choose the cluster centres of the static clients that ONE client knows: [N] bool -> [L] bool."""
    return centres_of(world, key, met)


def _move(
    key: jax.Array, client: GridClient, met: jax.Array, candidates: jax.Array, warm: jax.Array, world: GridWorld
) -> GridClient:
    """Move one client for one round. Informed and random movement draw their one random number from the same key."""
    informed = move_by_distribution(key, client, world, (known_counts(world, met), candidates))
    return jax.tree.map(partial(jnp.where, warm), informed, random_step(key, client, world))


def renewed(world: GridWorld, centres: Centres, met: jax.Array, choosing: jax.Array, impl: Any) -> Centres:
    """Compute the centres again for the clients that are about to choose a destination and have met somebody new.

    Args:
      world: the grid and the static clients.
      centres: the centres before.
      met: [N, N] bool, who knows whom.
      choosing: [N] bool, true for clients that are about to choose a destination. The others keep their old centres.
      impl: the kind of the random keys (`jax.random.key_impl`).

    Returns:
      The centres after the update.
    """
    due = centres.stale & choosing

    def find(old: jax.Array) -> jax.Array:
        ties = jax.random.wrap_key_data(centres.ties, impl=impl)
        return jnp.where(due[:, None], jax.vmap(partial(known_centres, world, ties))(met), old)

    # The search is a loop for each client, so it is skipped in rounds in which nobody needs it.
    chosen = jax.lax.cond(jnp.any(due), find, lambda old: old, centres.chosen)
    return centres._replace(chosen=chosen, stale=centres.stale & ~due)


def met_mobility(by_centres: bool) -> Mobility:
    """Make the rule ``dam_met`` or ``dcm_met``.

    Args:
      by_centres: whether destinations are the cluster centres of the known static clients (DCM) or all grid points
        (DAM).
    """

    def init(key: jax.Array, world: GridWorld) -> Knowledge:
        if is_many(world):
            return met_many.init(key, world, by_centres)
        num_clients, places = world.start.shape[0], world.grid.shape[0]
        none = jnp.zeros((num_clients, places), bool)
        return Knowledge(
            clients=GridClient(location=world.start, destination=world.start, label_counts=world.label_counts),
            met=now_met(world, world.start, jnp.zeros((num_clients, num_clients), bool)),
            centres=Centres(none, jnp.ones(num_clients, bool), jax.random.key_data(key)) if by_centres else None,
        )

    def step(key: jax.Array, world: GridWorld, state: Knowledge) -> Knowledge:
        if is_many(world):
            return met_many.step(key, world, state)
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

    def centres(world: GridWorld, state: Knowledge) -> jax.Array:
        assert state.centres is not None
        chosen, mobile = state.centres.chosen, world.is_mobile
        if is_many(world):
            return centre_places(world, votes_of(chosen, mobile, world.grid.shape[0]))
        return centre_places(world, jnp.sum(chosen & mobile[:, None], axis=0, dtype=jnp.int32))

    told = centres if by_centres else None
    return mobility_of(init, step, lambda state: state.clients, centres=told)


@MOBILITIES.register("dam_met", MetNumbers)
def dam_met() -> Mobility:
    """DAM that knows only the static clients it has met, after a warm-up of random movement (MADFL eqs. 9 to 12)."""
    return met_mobility(by_centres=False)


@MOBILITIES.register("dcm_met", MetNumbers)
def dcm_met() -> Mobility:
    """DCM that knows only the static clients it has met, after a warm-up of random movement (MADFL eq. 13, alg. 3)."""
    return met_mobility(by_centres=True)
