"""Nearest-neighbour mixing: every model is first averaged with those nearest to it, before another rule."""

import jax
import jax.numpy as jnp

from mdfl_jax.contrib.robust.rules.krum import KrumNumbers, krum
from mdfl_jax.contrib.robust.rules.trimming import TrimmedMeanNumbers, trimmed_mean
from mdfl_jax.core.numbers import Numbers
from mdfl_jax.exchange.neighbourhood import (
    BoundedNumbers,
    Decision,
    Neighbourhood,
    OneClient,
    for_one_client,
    smallest,
    squared_distances,
)
from mdfl_jax.exchange.rules.coordinates import median
from mdfl_jax.exchange.rules.geometric_median import GeometricMedianNumbers, geometric_median


def mix_nearest(rule: OneClient) -> OneClient:
    """Make a rule that averages each of the n models with the n - f - 1 nearest others before another rule.

    A client with at most 2 f models keeps its own: of these, attackers may be half.
    """

    def mixed(near: Neighbourhood) -> jax.Array:
        count = near.size - near.numbers.max_attackers
        nearest = smallest(squared_distances(near.models, near.own, near.counts), count)
        shares = nearest.astype(near.models.dtype) / jnp.maximum(count, 1)
        models = jnp.where(near.counts[:, None], jnp.matmul(shares, near.models, precision="highest"), near.own)
        own = jnp.sum(jnp.where(near.mine[:, None], models, 0), axis=0)
        found = rule(near._replace(own=own, models=models))
        model = found.model if isinstance(found, Decision) else found
        return jnp.where(near.too_few, near.own, model)

    mixed.__doc__ = (
        f"Average each model with the nearest others, then apply `{rule.__name__}`.\n\n"
        "Nearest-neighbour mixing brings the models of honest clients with different data nearer to each other before\n"
        "the rule compares them. A client with at most 2 f models keeps its own."
    )
    return mixed


class MixedMedianNumbers(BoundedNumbers, GeometricMedianNumbers):
    """The numbers of nearest-neighbour mixing and of the geometric median."""


OF_RULES: dict[OneClient, type[Numbers]] = {
    median: BoundedNumbers,
    trimmed_mean: TrimmedMeanNumbers,
    geometric_median: MixedMedianNumbers,
    krum: KrumNumbers,
}
for _rule, _numbers in OF_RULES.items():
    for_one_client(
        f"nnm_{_rule.__name__}",
        _numbers,
        weighs=False,
        formula=f"y_j <- mean of the n - f models nearest to y_j, its own included;  then {_rule.__name__}",
        cite="allouah2023",
    )(mix_nearest(_rule))
