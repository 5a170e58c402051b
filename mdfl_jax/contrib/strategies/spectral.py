"""Spectral: where a contact most helps the union of recent contacts to hang together.

Reasoning: models agree as fast as the second smallest eigenvalue of the Laplacian of who met whom tells. To first
order, a contact of i and j raises it by (v_i - v_j)^2, where v is the eigenvector. So a client goes where the sum over
the static clients in range is largest, discounted by the way. A contact counts less the longer ago it was.

It must know the places of the static clients and, with an oracle, whom each mobile client met when. Without one, it
knows only its own contacts. No labels.
"""

import jax
import jax.numpy as jnp

from mdfl_jax.core.geometry import within
from mdfl_jax.core.numbers import number
from mdfl_jax.mobility.choosing import Sight, StrategyNumbers, best
from mdfl_jax.mobility.registry import strategy

_STEPS = 64  # power iterations


class SpectralNumbers(StrategyNumbers):
    """The numbers of ``spectral``."""

    memory: float = number(0.8, "what a contact's weight is multiplied by in each round after it", above=0, below=1)
    discount: float = number(0.5, "what a place's worth is multiplied by for each round of the way", above=0, at_most=1)


def fiedler(key: jax.Array, weight: jax.Array, part: jax.Array) -> jax.Array:
    """Approximates the eigenvector of the second smallest eigenvalue of a Laplacian, by `_STEPS` power iterations.

    Where the smallest ones are close, it is a mix of their vectors.

    Args:
      key: typed key of the vector to begin with. If the graph has several components, it decides which of their vectors
        is found.
      weight: [N, N] the symmetric weights of the graph.
      part: [N] bool, the vertices of the graph; the vector is 0 at the others.

    Returns:
      [N], of length 1.
    """
    degree = jnp.sum(weight, axis=1)
    shift = jnp.maximum(2 * jnp.max(degree), 1.0)  # at least the largest eigenvalue

    def iterate(_: int, vector: jax.Array) -> jax.Array:
        vector = vector - (degree * vector - weight @ vector) / shift
        vector = jnp.where(part, vector - jnp.sum(jnp.where(part, vector, 0.0)) / jnp.maximum(jnp.sum(part), 1), 0.0)
        return vector / jnp.maximum(jnp.linalg.norm(vector), 1e-30)

    return jax.lax.fori_loop(0, _STEPS, iterate, jax.random.normal(key, degree.shape))


@strategy(
    "spectral",
    SpectralNumbers,
    formula="score(L) = discount^t(L) sum over j in S(L) of (v_j - v_i)^2\n"
    "v: eigenvector of the second smallest eigenvalue of the Laplacian of contacts of weight memory^age",
    cite="fiedler1973; ghosh2006",
    everywhere=True,
)
def spectral(key: jax.Array, sight: Sight) -> jax.Array:
    """Spectral: to the place where contacts most raise the second eigenvalue of the recent contacts' Laplacian."""
    world, static = sight.world, sight.known
    place = world.grid[world.start]
    standing = within(place, place, world.radius) & static[:, None] & static & ~jnp.eye(len(static), dtype=bool)
    has_met = static & ~static[:, None] & (sight.ages <= sight.round)
    met = jnp.where(has_met, sight.numbers.memory**sight.ages, 0.0)
    key_vector, key = jax.random.split(key)
    weight = jnp.maximum(standing.astype(met.dtype), met + met.T)
    part = static | (jnp.sum(weight, axis=1) > 0) | (jnp.arange(len(static)) == sight.me)
    vector = fiedler(key_vector, weight, part)
    gain = jnp.square(vector - vector[sight.me])
    return best(key, sight.near(gain) * sight.numbers.discount**sight.travel, sight)
