"""Movement by whom a client has met: DAM and DCM on the grid with `motion.knowledge=met`.

DAM and DCM know the places and label counts of all static clients from the first round. In MADFL (IV-A) mobile clients
collect them "through a warm-up phase", which the paper does not describe further. DADFL (VI) leaves it as future work.

Here this phase is part of the run. A mobile client knows the static clients that it has met: those within Rc of its
first place, or of a place where one of its moves ended. It first moves at random, until it has met the share
``warm_up_met`` of the static clients and at least one. (The minimum of one is our choice: a client that knows nobody
has nothing to move by.) From then on it moves as under DAM or DCM, but with the known static clients only. The static
clients that it meets on the way count from its next destination on. With a share of 1 the phase collects what MADFL's
phase does, and the movement after it is exactly DAM or DCM. With ``tell_met``, mobile clients within Rc of each other,
at their first places or after a move, also tell each other which static clients they know.

Rc is the network's radius. Radii of single clients and failing links affect the exchange of models, but not who is met.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core.geometry import within
from mdfl_jax.core.numbers import Numbers, Setting, number
from mdfl_jax.core.rng import per_client
from mdfl_jax.core.trees import where_rows
from mdfl_jax.mobility.clustering import centre_places, centres_of
from mdfl_jax.mobility.grid import (
    GridClient,
    GridWorld,
    mobility_of,
    nearest_within,
    one_by_one,
    random_step,
)
from mdfl_jax.mobility.label_distances import counts_of, move_by_distribution
from mdfl_jax.mobility.rule import MOST_WITH_MEMORY, Mobility, check_num_clients


class MetNumbers(Numbers):
    """The numbers of rules by which clients know those that they have met."""

    warm_up_met: float = number(0.5, "share of static clients to meet in random movement first", at_least=0, at_most=1)
    tell_met: bool = number(False, "mobile clients in range tell each other whom they met")


class KnowledgeNumbers(MetNumbers):
    """The numbers of DAM and DCM by whom a client has met."""

    def check(self, setting: Setting) -> None:
        """Check that what all clients know fits the memory."""
        check_num_clients(setting, MOST_WITH_MEMORY, "each client remembers whom it met")


def met_enough(world: GridWorld, num_met: jax.Array) -> jax.Array:
    """Find the clients that have met enough static clients to end their warm-up.

    Without static clients everybody has met enough.

    Args:
      world: the grid world, which holds the number ``warm_up_met``.
      num_met: [N] int32, how many static clients each client knows.

    Returns:
      [N] bool, true where the warm-up is over.
    """
    num_static = jnp.sum(~world.is_mobile)
    share = world.numbers.warm_up_met * num_static * (1 - 1e-6)  # 0.2 * 15 must be 3, not slightly more
    return num_met >= jnp.maximum(share, jnp.minimum(num_static, 1))


class Centres(NamedTuple):
    """The cluster centres of the static clients that each client knows.

    Attributes:
      chosen: [N, L] bool, the centres as each client last computed them.
      stale: [N] bool, true where a client has met somebody new since then, or has never computed its centres.
      ties: data of the key that breaks random ties. All clients share it, so that clients that know the same static
        clients choose the same centres.
    """

    chosen: jax.Array
    stale: jax.Array
    ties: jax.Array


class Knowledge(NamedTuple):
    """The clients, and which static clients each of them knows.

    Attributes:
      clients: the clients, as under every rule of the grid.
      met: [N, N] bool, true where the mobile client i knows the static client j, false elsewhere.
      centres: the cluster centres, where these are the destinations; None where all grid points are.
    """

    clients: GridClient
    met: jax.Array
    centres: Centres | None


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


def _step(key: jax.Array, world: GridWorld, state: Knowledge) -> Knowledge:
    """Move all clients for one round; who chooses a destination alone looks at all grid points, one after another."""
    clients, centres = state.clients, state.centres
    num_clients, points = world.start.shape[0], world.grid.shape[0]
    warm = met_enough(world, jnp.sum(state.met, axis=1))
    due = world.is_mobile & warm & (clients.location == clients.destination)
    keys = per_client(key, num_clients)

    def go_on(key: jax.Array, client: GridClient, warm: jax.Array) -> GridClient:
        on = client._replace(location=nearest_within(world, client.location, client.destination))
        return jax.tree.map(partial(jnp.where, warm), on, random_step(key, client, world))

    def choose(_: jax.Array, key: jax.Array, met: jax.Array, stale: Any, row: tuple[GridClient, Any]) -> Any:
        client, chosen = row
        candidates = jnp.ones(points, bool)
        if centres is not None:
            ties = jax.random.wrap_key_data(centres.ties, impl=jax.random.key_impl(key))
            candidates = chosen = jax.lax.cond(stale, lambda: centres_of(world, ties, met), lambda: chosen)
        return move_by_distribution(key, client, world, (counts_of(world, met), candidates)), chosen

    begun = where_rows(world.is_mobile & ~due, jax.vmap(go_on)(keys, clients, warm), clients)
    stale, chosen = (None, None) if centres is None else (centres.stale, centres.chosen)
    clients, chosen = one_by_one(choose, (keys, state.met, stale), (begun, chosen), due)
    met = now_met(world, clients.location, state.met)
    if centres is not None:
        centres = centres._replace(chosen=chosen, stale=(centres.stale & ~due) | jnp.any(met != state.met, axis=1))
    return Knowledge(clients, met, centres)


def met_mobility(by_centres: bool) -> Mobility:
    """Make DAM or DCM on the grid for clients that know those that they have met.

    Args:
      by_centres: whether destinations are the cluster centres of the known static clients (DCM) or all grid points
        (DAM).
    """

    def init(key: jax.Array, world: GridWorld) -> Knowledge:
        num_clients, points = world.start.shape[0], world.grid.shape[0]
        none, ties = jnp.zeros((num_clients, points), bool), jax.random.key_data(key)
        return Knowledge(
            clients=GridClient(location=world.start, destination=world.start, label_counts=world.label_counts),
            met=now_met(world, world.start, jnp.zeros((num_clients, num_clients), bool)),
            centres=Centres(none, jnp.ones(num_clients, bool), ties) if by_centres else None,
        )

    def centres(world: GridWorld, state: Knowledge) -> jax.Array:
        assert state.centres is not None
        votes = jnp.sum(state.centres.chosen & world.is_mobile[:, None], axis=0, dtype=jnp.int32)
        return centre_places(world, votes)

    return mobility_of(init, _step, lambda state: state.clients, centres=centres if by_centres else None)
