"""Gossip learning: a client whose work ends sends its model to a random other one, which merges the two by age."""

import jax
import jax.numpy as jnp

from mdfl_jax.algorithms.adpsgd import in_pairs
from mdfl_jax.algorithms.local import Settings
from mdfl_jax.algorithms.registry import register
from mdfl_jax.core.types import Algorithm, Links

MERGES = "x_i <- (t_i x_i + t_j x_j) / (t_i + t_j);  t_i <- max(t_i, t_j)"


def by_age(links: Links, age: jax.Array) -> jax.Array:
    """Return the weight of each model that is heard, [N, K]: its share of the works that have made it and one's own."""
    theirs = links.senders.of(age)
    both = theirs + age[:, None]
    return jnp.where(links.adjacency, jnp.where(both > 0, theirs / jnp.maximum(both, 1), 0.5), 0.0)


@register(
    "push",
    ignores=("compressor",),
    formula=f"x_j <- x_j - eta grad f(y_j), t_j <- t_j + 1;  sent to one random i:  {MERGES}",
    cite="ormandi2013; hegedus2021",
)
def push(settings: Settings = Settings()) -> Algorithm:
    """Gossip learning by pushes: whose work ends sends its model to a random neighbour, which merges it by age.

    The age t of a model is the number of works that have made it. A client follows the gradient of the model y with
    which its work began (with a work of one round it has merged before it), and merges what comes meanwhile. A client
    takes at most one model a round, and `network.mixing` is not used.
    """
    return in_pairs(settings, by_age, pulls=False, update_first=True, sends_age=True)


@register(
    "push_pull",
    ignores=("compressor",),
    formula=f"x_j <- x_j - eta grad f(y_j), t_j <- t_j + 1;  i random, both send:  {MERGES}",
    cite="ormandi2013; hegedus2021",
)
def push_pull(settings: Settings = Settings()) -> Algorithm:
    """Gossip learning by pushes and pulls: as `push`, and the neighbour answers with its own model.

    Both then have the same model.
    """
    return in_pairs(settings, by_age, pulls=True, update_first=True, sends_age=True)
