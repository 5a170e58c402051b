"""Label distances near grid points (MADFL eqs. 9 and 10), and the draw of destinations by them (eqs. 11 and 13).

A destination is drawn with a probability proportional to the distance of two label histograms. For many clients it is
drawn by rejection, without a look at all grid points. The distance of two histograms is at most the root of two. So a
candidate that is drawn uniformly, and then accepted with the probability distance / root of two, has exactly this law.

All candidates without a static client in range have the same, known distance. With this distance as their bound they
are always accepted, so few tries are needed where static clients are few. If no try is accepted, the destination is
drawn by the whole law instead. The tries are independent, so rejected tries do not change the law of this draw.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core.geometry import within
from mdfl_jax.mobility.discs import summed_at, sums_in_range
from mdfl_jax.mobility.grid import GridClient, GridWorld, grid_size, is_dense, nearest_within, sample_index

# Equal histograms of unequal counts may differ by rounding (1/1 and 3/3 do, once compiled). Their distance is zero.
SMALLEST_DISTANCE = 1e-6
LARGEST_DISTANCE = 2**0.5 * (1 + 1e-6)  # a distance may be rounded up


def counts_in_range(
    static_position: jax.Array, static_counts: jax.Array, grid: jax.Array, radius: jax.Array | float
) -> jax.Array:
    """Sum the label counts of the static clients within range of each grid point (numerator of MADFL eq. 9).

    Args:
      static_position: [Ns, 2] places of the static clients, in grid units.
      static_counts: [Ns, C] label counts of the static clients.
      grid: [L, 2] grid points.
      radius: communication radius Rc, in grid units.

    Returns:
      [L, C] float32 label counts.
    """
    near = within(grid, static_position, radius)
    return jnp.matmul(near.astype(jnp.float32), static_counts.astype(jnp.float32), precision="highest")


def counts_of(world: GridWorld, known: jax.Array) -> jax.Array:
    """Sum the label counts of some clients at their first places, near each grid point.

    Sums of whole numbers are exact, so both ways to compute them give the same numbers.

    Args:
      world: the grid world.
      known: [N] bool, the clients that count.

    Returns:
      [L, C] float32 label counts.
    """
    counts, size = jnp.where(known[:, None], world.label_counts, 0), grid_size(world)
    if is_dense(world.start.shape[0], world.grid.shape[0]):
        return counts_in_range(world.grid[world.start], counts, world.grid, world.radius)
    near = sums_in_range(summed_at(world.start, counts, size), world.radius)
    return near.reshape(size * size, -1).astype(jnp.float32)


def histograms(counts_near: jax.Array, own_counts: jax.Array) -> jax.Array:
    """Compute a client's label histograms at grid points, [L, C] (MADFL eq. 9).

    Args:
      counts_near: [L, C] label counts of the static clients near the points.
      own_counts: [C] label counts of the client itself.
    """
    counts = counts_near + own_counts.astype(jnp.float32)
    total = jnp.sum(counts, axis=1, keepdims=True)
    return counts / jnp.maximum(total, 1.0)  # counts are whole numbers, so an empty histogram stays zero


def distances(histogram: jax.Array, reference: jax.Array) -> jax.Array:
    """Compute the Euclidean distances [L] of histograms [L, C] from a reference [C] (MADFL eq. 10)."""
    difference = histogram - reference
    return jnp.sqrt(jnp.sum(difference * difference, axis=1))


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
      distance: [L] distances from the histogram at the client's place (`distances`).
      candidates: [L] bool, the grid points that may be chosen.

    Returns:
      [L] probabilities, as of `probabilities_from_counts`.
    """
    distance = jnp.where(candidates & (distance > SMALLEST_DISTANCE), distance, 0.0)
    weight = jnp.where(jnp.any(distance > 0), distance, candidates.astype(jnp.float32))
    return weight / jnp.maximum(jnp.sum(weight), jnp.finfo(jnp.float32).tiny)


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


class Candidates(NamedTuple):
    """The grid points that may be a destination, as two lists, and what is known of all of them.

    Attributes:
      counts_near: [L, C] label counts of the static clients within range of each grid point.
      near: [L] int32, the indices of the candidates with samples of static clients in range, and then zeros.
      bare: [L] int32, the indices of the other candidates, and then zeros.
      num_near, num_bare: [] int32, how many there are of each.
      alike: [] bool, true if the draw is uniform for every client: there is one candidate, or the counts are the same
        at all grid points.
    """

    counts_near: jax.Array
    near: jax.Array
    bare: jax.Array
    num_near: jax.Array
    num_bare: jax.Array
    alike: jax.Array


def list_candidates(counts_near: jax.Array, candidates: jax.Array) -> Candidates:
    """List the candidates.

    Args:
      counts_near: [L, C] label counts of the static clients within range of each grid point.
      candidates: [L] bool, the grid points that may be chosen.
    """
    some = jnp.any(counts_near > 0, axis=1)
    of_each = [candidates & some, candidates & ~some]
    near, bare = (jnp.nonzero(mask, size=len(mask), fill_value=0)[0].astype(jnp.int32) for mask in of_each)
    num_near, num_bare = (jnp.sum(mask, dtype=jnp.int32) for mask in of_each)
    alike = jnp.all(counts_near == counts_near[:1]) | (num_near + num_bare == 1)
    return Candidates(counts_near, near, bare, num_near, num_bare, alike)


class _Try(NamedTuple):
    done: jax.Array
    place: jax.Array
    accepted: jax.Array


def try_to_draw(
    key: jax.Array, client: GridClient, candidates: Candidates, tries: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Try to draw the next destination of one client (MADFL eqs. 9 to 11 and 13).

    Args:
      key: typed key of this client in this round.
      client: the client.
      candidates: the candidates.
      tries: [] int32, how often a candidate is drawn at most.

    Returns:
      [] int32 the last place drawn, and [] bool whether it is accepted.
    """
    own, here = client.label_counts, candidates.counts_near[client.location]
    reference = histograms(here[None], own)[0]
    of_bare = distances(histograms(jnp.zeros_like(here)[None], own), reference)[0]
    of_bare = jnp.where(of_bare > SMALLEST_DISTANCE, of_bare, 0.0)
    bound_near, bound_bare = (jnp.where(candidates.alike, 1.0, bound) for bound in (LARGEST_DISTANCE, of_bare))
    weight_near, weight_bare = bound_near * candidates.num_near, bound_bare * candidates.num_bare

    def again(last: _Try) -> _Try:
        words = jax.random.bits(jax.random.fold_in(key, last.done), (3,), jnp.uint32)
        share, limit = (words[:2] >> 8).astype(jnp.float32) * 2.0**-24  # uniform in [0, 1)
        is_near = share * (weight_near + weight_bare) >= weight_bare
        count = jnp.where(is_near, candidates.num_near, candidates.num_bare).astype(jnp.uint32)
        index = words[2] % jnp.maximum(count, 1)
        place = jnp.where(is_near, candidates.near[index], candidates.bare[index])
        distance = distances(histograms(candidates.counts_near[place][None], own), reference)[0]
        accepted = jnp.where(is_near, (distance > SMALLEST_DISTANCE) & (limit * LARGEST_DISTANCE < distance), True)
        return _Try(last.done + 1, place, (candidates.alike | accepted) & (count > 0))

    start = _Try(jnp.int32(0), client.location, jnp.bool_(False))
    found = jax.lax.while_loop(lambda last: ~last.accepted & (last.done < tries), again, start)
    return found.place, found.accepted


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
