"""Attackers who know the models of all clients: each client hears the same vector from all attackers beside it.

In the papers attackers see what a server gets. Here they see, for each client, its own model and those of the honest
clients that it hears, as in the code of He, Karimireddy and Jaggi.
"""

import jax
import jax.numpy as jnp

from mdfl_jax.attacks.registry import ATTACKS, Attack, Target
from mdfl_jax.core.numbers import Numbers, number


def mean(target: Target) -> jax.Array:
    """Return the mean of the honest models, [d]."""
    count = jnp.maximum(jnp.sum(target.honest), 1).astype(target.own.dtype)
    return jnp.sum(jnp.where(target.honest[:, None], target.models, 0), axis=0) / count


class InnerProductNumbers(Numbers):
    """The number of inner-product manipulation."""

    strength: float = number(0.1, "length of what is sent, in lengths of the honest mean, epsilon", above=0)


def inner_product(target: Target) -> jax.Array:
    """Return the honest mean with the opposite sign, shortened."""
    return -target.numbers.strength.astype(target.own.dtype) * mean(target)


ATTACKS.register(
    "inner_product",
    InnerProductNumbers,
    "Attackers send the honest mean with the opposite sign, so that the result points the wrong way.",
    formula="y = -epsilon mean of the honest models",
    cite="xie2020; he2022",
)(Attack(to_each=inner_product, trains=False))


class DissensusNumbers(Numbers):
    """The number of dissensus."""

    apart: float = number(1.0, "how far clients are held apart; 1: gossip stands still, epsilon", above=0)


def dissensus(target: Target) -> jax.Array:
    """Return the model that undoes what the client would take over from honest clients."""
    weigh = lambda which: jnp.where(which, target.weights, 0).astype(target.own.dtype)  # noqa: E731
    pull = jnp.sum(weigh(target.honest)[:, None] * (target.models - target.own), axis=0)
    share = jnp.sum(weigh(target.attackers))
    against = pull / jnp.where(share > 0, share, 1)
    return target.own - target.numbers.apart.astype(target.own.dtype) * against


ATTACKS.register(
    "dissensus",
    DissensusNumbers,
    "Attackers push each client away from the honest clients that it hears, so that no consensus is reached.",
    formula="y = x_i - epsilon sum over honest j of W_ij (x_j - x_i) / sum over attackers j of W_ij",
    cite="he2022",
)(Attack(to_each=dissensus))
