"""Destinations of distribution-aware movement drawn by rejection, without a look at all grid points.

MADFL's eqs. 10 and 11 draw a destination with a probability proportional to the distance of two label histograms. Such
a distance is at most the root of two. So a candidate that is drawn uniformly, and then accepted with the probability
distance / root of two, has exactly this law. All candidates without a static client in range have one distance, which
is known, so these are drawn with this distance as their bound and are always accepted. This keeps the tries few where
static clients are few. If no try is accepted, the client is drawn by the whole law instead. The tries are independent
of each other, so what they were does not change the law of the draw that follows.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.mobility.grid import GridClient
from mdfl_jax.mobility.label_histograms import SMALLEST_DISTANCE, distances, histograms

LARGEST_DISTANCE = 2**0.5 * (1 + 1e-6)  # a distance may be rounded up


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
