"""Further rules that clip what is heard: by the norm, and at the radius of ClippedGossip's theory."""

import jax
import jax.numpy as jnp

from mdfl_jax.core.numbers import Numbers, number
from mdfl_jax.exchange.neighbourhood import Neighbourhood, for_one_client, smallest, weighted_sum
from mdfl_jax.exchange.rules.clipping import ClippedNumbers, clipped, shortening


def others_share(near: Neighbourhood, which: jax.Array) -> jax.Array:
    """Return the sum of the mixing weights of some of the others, []."""
    return jnp.sum(jnp.where(near.others & which, near.weights, 0))


class NormNumbers(Numbers):
    """The number of norm clipping."""

    max_norm: float = number(1.0, "longest model that is heard, in lengths of the client's own", above=0)


@for_one_client(
    "norm_clipping",
    NormNumbers,
    formula="x_i+ = W_ii x_i + sum over the others of W_ij y_j min(1, c ||x_i|| / ||y_j||)",
    cite="sun2019",
)
def norm_clipping(near: Neighbourhood) -> jax.Array:
    """Average the models as the mean does, after those that are longer than the client's own are shortened.

    The paper bounds the norm of updates that a server gets. Clients here hear whole models, so the bound is in lengths
    of their own. It stops scaled models, and no attack that keeps the length.
    """
    factors = shortening(jnp.linalg.norm(near.models, axis=1), near.numbers.max_norm * jnp.linalg.norm(near.own))
    heard = jnp.where(near.others, near.weights * factors, 0).astype(near.own.dtype)
    rest = 1 - others_share(near, near.others)
    return rest * near.own + weighted_sum(near.models, heard)


@for_one_client(
    "clipped_gossip_adaptive",
    ClippedNumbers,
    formula="as clipped_gossip, tau_i^2 = sum of W_ij ||y_j - x_i||^2 over all but the f farthest / sum of W_ij over "
    "these f",
    cite="he2022",
)
def clipped_gossip_adaptive(near: Neighbourhood) -> jax.Array:
    """Clip as `clipped_gossip`, at the radius of its theory.

    The f farthest models are taken for those of attackers, whom the theory knows. A client that hears at most f others
    has the radius 0 and keeps its own model: all of them may be attackers.
    """
    trusted = smallest(jnp.where(near.others, near.distances, jnp.inf), near.size - 1 - near.numbers.max_attackers)
    trusted &= near.others
    spread = jnp.sum(jnp.where(trusted, near.weights * jnp.square(jnp.where(trusted, near.distances, 0)), 0))
    doubted = others_share(near, ~trusted)
    radius = jnp.where(doubted > 0, jnp.sqrt(spread / jnp.where(doubted > 0, doubted, 1)), jnp.inf)
    return clipped(near, radius)
