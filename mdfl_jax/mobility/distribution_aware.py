"""Distribution-aware movement: DAM over the whole grid, DCM over the cluster centres (MADFL IV-B, DADFL IV-B)."""

import jax
import jax.numpy as jnp

from mdfl_jax.geometry import within
from mdfl_jax.mobility.clustering import cluster_centres
from mdfl_jax.mobility.grid import GridClient, GridWorld, grid_mobility, nearest_within, sample_index
from mdfl_jax.mobility.registry import MOBILITIES
from mdfl_jax.mobility.rule import Mobility


def counts_in_range(
    static_position: jax.Array, static_counts: jax.Array, grid: jax.Array, radius: jax.Array | float
) -> jax.Array:
    """Label counts of the static clients within range of each grid point (numerator of MADFL eq. 9): [L, C]."""
    near = within(grid, static_position, radius)
    return jnp.matmul(near.astype(jnp.float32), static_counts.astype(jnp.float32), precision="highest")


def probabilities_from_counts(
    location: jax.Array, own_counts: jax.Array, counts_near: jax.Array, candidates: jax.Array
) -> jax.Array:
    """Destination probabilities (MADFL eqs. 9 to 11 and 13) from the static label counts near each grid point.

    Args:
      location: index of the client's present place in the grid.
      own_counts: [C] label counts of the client itself.
      counts_near: [L, C] label counts of the static clients within range of each grid point.
      candidates: [L] bool, the places that may be chosen.

    Returns:
      [L] probabilities, zero outside the candidates, in proportion to the distance between the label histogram there
      and here; uniform over the candidates where all those distances are zero.
    """
    counts = counts_near + own_counts.astype(jnp.float32)
    total = jnp.sum(counts, axis=1, keepdims=True)
    histogram = counts / jnp.maximum(total, 1.0)  # counts are whole numbers: an empty histogram stays all zeros
    difference = histogram - histogram[location]
    distance = jnp.sqrt(jnp.sum(difference * difference, axis=1))
    # Equal histograms of unequal counts may differ by rounding (1/1 and 3/3 do, once compiled): that is no distance.
    distance = jnp.where(candidates & (distance > 1e-6), distance, 0.0)
    weight = jnp.where(jnp.any(distance > 0), distance, candidates.astype(jnp.float32))
    return weight / jnp.maximum(jnp.sum(weight), jnp.finfo(jnp.float32).tiny)


def destination_probabilities(
    location: jax.Array,
    own_counts: jax.Array,
    static_position: jax.Array,
    static_counts: jax.Array,
    grid: jax.Array,
    radius: jax.Array | float,
    candidates: jax.Array,
) -> jax.Array:
    """Where a mobile client wants to go next (MADFL eqs. 9 to 11 for DAM, 13 for DCM).

    Args:
      location: index of the client's present place in ``grid``.
      own_counts: [C] label counts of the client itself.
      static_position: [Ns, 2] places of the static clients, in grid units.
      static_counts: [Ns, C] their label counts.
      grid: [L, 2] grid points.
      radius: communication radius Rc, in grid units.
      candidates: [L] bool, the whole grid (DAM) or the cluster centres (DCM).

    Returns:
      [L] probabilities; see `probabilities_from_counts` for the settled corner cases.
    """
    counts_near = counts_in_range(static_position, static_counts, grid, radius)
    return probabilities_from_counts(jnp.asarray(location), own_counts, counts_near, candidates)


def move_by_distribution(
    key: jax.Array, client: GridClient, world: GridWorld, plan: tuple[jax.Array, jax.Array]
) -> GridClient:
    """One round of one client: draw a destination if the last one is reached, then go towards it (MADFL alg. 4).

    Args:
      key: of this client and round.
      client: which moves.
      world: the grid, and how far a client goes in a round.
      plan: [L, C] label counts of the static clients near each grid point, and [L] bool which may be a destination.
    """
    counts_near, candidates = plan
    arrived = client.location == client.destination
    can_choose = jnp.any(candidates)  # without a static client DCM has no centre: stay

    def draw() -> jax.Array:
        weight = probabilities_from_counts(client.location, client.label_counts, counts_near, candidates)
        return sample_index(key, weight)

    destination = jax.lax.cond(arrived & can_choose, draw, lambda: client.destination)
    location = nearest_within(world, client.location, destination)
    return client._replace(location=location, destination=destination)


def _counts_near(world: GridWorld) -> jax.Array:
    static_counts = jnp.where(world.is_mobile[:, None], 0, world.label_counts)
    return counts_in_range(world.grid[world.start], static_counts, world.grid, world.radius)


@MOBILITIES.register("dam")
def dam() -> Mobility:
    """Distribution-aware movement over all grid points (MADFL eqs. 9 to 12)."""

    def prepare(key: jax.Array, world: GridWorld) -> tuple[jax.Array, jax.Array]:
        del key
        return _counts_near(world), jnp.ones(world.grid.shape[0], bool)

    return grid_mobility(move_by_distribution, prepare)


@MOBILITIES.register("dcm")
def dcm() -> Mobility:
    """Distribution-aware movement over the cluster centres of the static clients (MADFL eq. 13, algorithm 3)."""

    def prepare(key: jax.Array, world: GridWorld) -> tuple[jax.Array, jax.Array]:
        static_position = world.grid[world.start]
        centres = cluster_centres(key, world.grid, static_position, world.radius, present=~world.is_mobile)
        return _counts_near(world), centres

    return grid_mobility(move_by_distribution, prepare)
