"""Distribution-aware movement (MADFL IV-B, DADFL IV-B).

Under DAM every grid point may be a destination, under DCM only the cluster centres of the static clients.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from mdfl_jax.mobility.clustering import centre_places, centres_of
from mdfl_jax.mobility.grid import GridClient, GridWorld, grid_mobility, nearest_within, sample_index
from mdfl_jax.mobility.label_histograms import SMALLEST_DISTANCE, counts_in_range, counts_of, distances, histograms
from mdfl_jax.mobility.registry import MOBILITIES
from mdfl_jax.mobility.rejection import list_candidates, try_to_draw
from mdfl_jax.mobility.rule import Mobility


def probabilities_from_counts(
    location: jax.Array, own_counts: jax.Array, counts_near: jax.Array, candidates: jax.Array
) -> jax.Array:
    """Compute a client's destination probabilities from the static label counts near each grid point.

    The formulas are MADFL eqs. 9 to 11 (DAM) and 13 (DCM).

    Args:
      location: index of the client's present grid point.
      own_counts: [C] label counts of the client itself.
      counts_near: [L, C] label counts of the static clients within range of each grid point.
      candidates: [L] bool, the grid points that may be chosen.

    Returns:
      [L] probabilities, zero outside the candidates. A candidate's probability is proportional to the Euclidean
      distance between the label histogram at the candidate and the one at ``location``. Where all these distances are
      zero, the probabilities are uniform over the candidates.
    """
    histogram = histograms(counts_near, own_counts)
    return probabilities_of(distances(histogram, histogram[location]), candidates)


def probabilities_of(distance: jax.Array, candidates: jax.Array) -> jax.Array:
    """Compute destination probabilities from distances of label histograms (MADFL eqs. 11 and 13).

    Args:
      distance: [L] distances from the histogram at the client's place (`mdfl_jax.mobility.label_histograms`).
      candidates: [L] bool, the grid points that may be chosen.

    Returns:
      [L] probabilities, as of `probabilities_from_counts`.
    """
    distance = jnp.where(candidates & (distance > SMALLEST_DISTANCE), distance, 0.0)
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
    """Compute the probabilities of a mobile client's next destination (MADFL eqs. 9 to 11 for DAM, 13 for DCM).

    Args:
      location: index in ``grid`` of the client's present place.
      own_counts: [C] label counts of the client itself.
      static_position: [Ns, 2] places of the static clients, in grid units.
      static_counts: [Ns, C] label counts of these clients.
      grid: [L, 2] grid points.
      radius: communication radius Rc, in grid units.
      candidates: [L] bool, true at all grid points (DAM) or at the cluster centres (DCM).

    Returns:
      [L] probabilities. `probabilities_from_counts` says what they are in the corner cases.
    """
    counts_near = counts_in_range(static_position, static_counts, grid, radius)
    return probabilities_from_counts(jnp.asarray(location), own_counts, counts_near, candidates)


def move_by_distribution(
    key: jax.Array, client: GridClient, world: GridWorld, plan: tuple[jax.Array, jax.Array]
) -> GridClient:
    """Move one client for one round (MADFL alg. 4).

    A client that has reached its destination draws a new one. It then moves towards its destination.

    Args:
      key: typed key of this client in this round.
      client: the client that moves.
      world: the grid world, which holds the largest step of a round.
      plan: two arrays: [L, C] label counts of the static clients near each grid point, and [L] bool, true at the grid
        points that may be a destination.

    Returns:
      The client after the round.
    """
    counts_near, candidates = plan
    arrived = client.location == client.destination
    can_choose = jnp.any(candidates)  # without static clients DCM has no centres, and clients stay

    def draw() -> jax.Array:
        weight = probabilities_from_counts(client.location, client.label_counts, counts_near, candidates)
        return sample_index(key, weight)

    destination = jax.lax.cond(arrived & can_choose, draw, lambda: client.destination)
    location = nearest_within(world, client.location, destination)
    return client._replace(location=location, destination=destination)


def quickly(
    world: GridWorld, plan: tuple[jax.Array, jax.Array]
) -> Callable[[jax.Array, GridClient, jax.Array], tuple[GridClient, jax.Array]]:
    """Make the quick form of `move_by_distribution`, which `mdfl_jax.mobility.grid.grid_mobility` explains.

    Args:
      world: the grid world.
      plan: as for `move_by_distribution`.
    """
    listed = list_candidates(*plan)

    def move(key: jax.Array, client: GridClient, tries: jax.Array) -> tuple[GridClient, jax.Array]:
        keeps = (client.location != client.destination) | (listed.num_near + listed.num_bare == 0)
        drawn, accepted = try_to_draw(key, client, listed, jnp.where(keeps, 0, tries))
        destination = jnp.where(keeps, client.destination, drawn)
        location = nearest_within(world, client.location, destination)
        return client._replace(location=location, destination=destination), keeps | accepted

    return move


@MOBILITIES.register("dam")
def dam() -> Mobility:
    """Distribution-aware movement (DAM): all grid points may be destinations (MADFL eqs. 9 to 12)."""

    def prepare(key: jax.Array, world: GridWorld) -> tuple[jax.Array, jax.Array]:
        del key
        return counts_of(world, ~world.is_mobile), jnp.ones(world.grid.shape[0], bool)

    return grid_mobility(move_by_distribution, prepare, quick=quickly)


@MOBILITIES.register("dcm")
def dcm() -> Mobility:
    """Distribution-aware cluster-centre movement (DCM): to cluster centres of the static clients (MADFL eq. 13).

    MADFL algorithm 3 chooses the centres.
    """

    def prepare(key: jax.Array, world: GridWorld) -> tuple[jax.Array, jax.Array]:
        return counts_of(world, ~world.is_mobile), centres_of(world, key, ~world.is_mobile)

    def centres(world: GridWorld, plan: tuple[jax.Array, jax.Array]) -> jax.Array:
        return centre_places(world, plan[1].astype(jnp.int32))

    return grid_mobility(move_by_distribution, prepare, centres, quickly)
