"""Krum and multi-Krum: the models that lie closest to the others."""

import jax
import jax.numpy as jnp

from mdfl_jax.exchange.neighbourhood import (
    BoundedNumbers,
    Decision,
    Neighbourhood,
    for_one_client,
    mean_of,
    smallest,
    squared_distances,
)


class KrumNumbers(BoundedNumbers):
    """The number of attackers that Krum is made for."""

    def least(self) -> int:
        """Return 2 f + 3, as the paper needs."""
        return 2 * self.max_attackers + 3


def scores(near: Neighbourhood) -> jax.Array:
    """Return the score of each model, [K]: the sum of the squared distances to its n - f - 2 nearest others."""
    nearest = jnp.sort(squared_distances(near.models, near.own, near.counts), axis=1)[:, 1:]  # without itself
    counted = jnp.arange(nearest.shape[1]) < near.size - near.numbers.max_attackers - 2
    return jnp.where(near.counts, jnp.sum(jnp.where(counted, nearest, 0), axis=1), jnp.inf)


def average_best(near: Neighbourhood, count: jax.Array | int) -> Decision:
    """Average the models with the best scores; with fewer than 2 f + 3 models keep the own one."""
    chosen = jnp.where(near.too_few, near.mine, smallest(scores(near), count))
    return Decision(mean_of(near.models, chosen), chosen)


@for_one_client(
    "krum",
    KrumNumbers,
    weighs=False,
    rejects=True,
    formula="x_i+ = the one of the n models x_i and y_j whose squared distances to its n - f - 2 nearest others have "
    "the least sum",
    cite="blanchard2017; fang2022: BRIDGE-K",
)
def krum(near: Neighbourhood) -> Decision:
    """Take the model, of the client's own and those that it hears, that lies closest to the others.

    It needs n >= 2 f + 3 models, its own included, of which at most f are attackers'. A client with fewer keeps its own
    model: with one to three neighbours, as in sparse networks, Krum never takes anything over.
    """
    return average_best(near, 1)


@for_one_client(
    "multi_krum",
    KrumNumbers,
    weighs=False,
    rejects=True,
    formula="x_i+ = mean of the n - f models with the least scores of krum",
    cite="blanchard2017",
)
def multi_krum(near: Neighbourhood) -> Decision:
    """Average the n - f models with the best scores of Krum. It has the condition and the fallback of `krum`."""
    return average_best(near, near.size - near.numbers.max_attackers)
