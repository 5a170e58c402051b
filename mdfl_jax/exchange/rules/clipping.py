"""Clipping: a weighted mean to which each model contributes at most a bounded step."""

import jax
import jax.numpy as jnp

from mdfl_jax.core.numbers import Numbers, number
from mdfl_jax.exchange.neighbourhood import BoundedNumbers, Neighbourhood, for_one_client, weighted_sum


def clipped(near: Neighbourhood, radius: jax.Array) -> jax.Array:
    """Return x_i + sum W_ij clip(y_j - x_i, radius)."""
    factors = shortening(jnp.where(near.others, near.distances, 1), radius)
    shares = jnp.where(near.others, near.weights * factors, 0).astype(near.own.dtype)
    return near.own + weighted_sum(near.models - near.own, shares)


def shortening(lengths: jax.Array, bound: jax.Array) -> jax.Array:
    """Return the factors min(1, bound / length); a length of zero has the factor 1."""
    return jnp.minimum(1, bound / jnp.maximum(lengths, jnp.finfo(lengths.dtype).tiny))


class RadiusNumbers(Numbers):
    """The number of ClippedGossip with a fixed radius."""

    clip_radius: float = number(1.0, "longest step towards a model that is heard, tau", above=0)


@for_one_client(
    "clipped_gossip",
    RadiusNumbers,
    keeps_mean=True,
    formula="x_i+ = x_i + sum W_ij clip(y_j - x_i, tau), clip(z, tau) = min(1, tau / ||z||) z",
    cite="he2022",
)
def clipped_gossip(near: Neighbourhood) -> jax.Array:
    """Go towards each received model, at most a radius far, with the weights of the mixing matrix (ClippedGossip).

    If all models lie within the radius, the result is the mean. The theory assumes doubly stochastic weights and
    attackers with a small total weight. An attacker moves a client by at most W_ij tau in a round.
    """
    return clipped(near, near.numbers.clip_radius)


class ClippedNumbers(BoundedNumbers):
    """The hyperparameter of adaptive clipping: the number of attackers for which the radius is made."""

    def least(self) -> int:
        """Return f + 2: of f + 1 others at least one is honest."""
        return self.max_attackers + 2


@for_one_client(
    "self_centred_clipping",
    ClippedNumbers,
    formula="as clipped_gossip, tau_i = the (f + 1)-th largest ||y_j - x_i||",
    cite="he2022: the code of the authors, with f = 1",
)
def self_centred_clipping(near: Neighbourhood) -> jax.Array:
    """Clip as `clipped_gossip`, at the distance of the (f + 1)-th farthest model: at most f steps are shortened.

    A client that receives at most f models takes the largest distance, as the code of the authors does. Such a client
    clips nothing, and mixes as the mean does.
    """
    others = near.size - 1
    ordered = jnp.sort(jnp.where(near.others, near.distances, jnp.inf))
    place = jnp.where(near.too_few, others - 1, others - 1 - near.numbers.max_attackers)
    return clipped(near, ordered[jnp.maximum(place, 0)])
