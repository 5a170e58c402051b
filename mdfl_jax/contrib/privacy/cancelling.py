"""Noise that cancels (DECOR, Allouah et al. 2024): what a client adds to its gradient, a neighbour subtracts.

Two clients in contact share a secret, from which both draw the same noise. An average of the two has none of it; who
does not know the secret sees each of them only with it.
"""

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from mdfl_jax.contrib.privacy.noise import normal
from mdfl_jax.core.rng import number_of
from mdfl_jax.core.types import Algorithm, ClientParams, Extra, Links, RoundContext, RoundStats
from mdfl_jax.exchange.gossip import mix

CANCELLING = number_of("privacy cancelling")  # folded into the key of a step
ROUNDING = 1e-3  # relative, far above that of `inverse_diagonal`
AT_ONCE = 32  # clients against whom the account is computed together


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Cancelling(Extra):
    """The noise that neighbours add and subtract in a round (`mdfl_jax.core.types.Links.get`).

    Attributes:
      between: [N, N] the variance of the noise of each pair, symmetric; 0 where two share none.
    """

    between: jax.Array

    def around(self, algorithm: Algorithm) -> Algorithm:
        """Return the algorithm whose clients add this noise to each gradient."""

        def do_round(hparams: Any, state: Any, links: Links, context: RoundContext) -> tuple[Any, RoundStats]:
            root = root_of(self.between)

            @functools.wraps(context.gradient)
            def noised(models: ClientParams, key: jax.Array, **more: Any) -> tuple[jax.Array, ClientParams]:
                loss, found = context.gradient(models, key, **more)
                own = jax.random.fold_in(key, CANCELLING)
                leaves, tree = jax.tree.flatten(found)
                drawn = [normal(jax.random.fold_in(own, k), x.shape, x.dtype) for k, x in enumerate(leaves)]
                return loss, jax.tree.map(jnp.add, found, mix(root, jax.tree.unflatten(tree, drawn)))

            return algorithm.round(hparams, state, links, context._replace(gradient=noised))

        return algorithm._replace(round=do_round)


def factors(own: jax.Array, between: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return F [N, N] and D [N] with F diag(D) F^T = diag(own) + Laplacian(between), F with a diagonal of ones.

    Clients are eliminated one after another as states of a Markov chain (Grassmann, Taksar and Heyman 1985), without
    any difference of two numbers. So single precision is enough, however large ``between`` is.

    Args:
      own: [N] not negative.
      between: as in `Cancelling`.
    """
    index = jnp.arange(len(own))

    def eliminate(k: jax.Array, state: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        own, between, factor, totals = state
        row = jnp.where(index > k, between[k], 0)
        total = own[k] + jnp.sum(row)
        share = row / jnp.where(total > 0, total, 1)
        own, between = own + share * own[k], between + share[:, None] * row
        return own, between, factor.at[:, k].add(-share), totals.at[k].set(total)

    start = own, between, jnp.eye(len(own), dtype=own.dtype), jnp.zeros_like(own)
    _, _, factor, totals = jax.lax.fori_loop(0, len(own), eliminate, start)
    return factor, totals


def root_of(between: jax.Array) -> jax.Array:
    """Return a root A [N, N] of the covariance A A^T of the sums of pairwise noises; its columns have the sum zero."""
    factor, totals = factors(jnp.zeros(len(between)), between)
    return factor * jnp.sqrt(totals)


def inverse_diagonal(own: jax.Array, between: jax.Array) -> jax.Array:
    """Return the diagonal of (diag(own) + Laplacian(between))^-1, [N]; ``own`` is positive.

    >>> inverse_diagonal(jnp.array([1.0, 1.0]), jnp.array([[0.0, 2.0], [2.0, 0.0]])).round(3).tolist()  # (3, -2; -2, 3)
    [0.6000000238418579, 0.6000000238418579]
    """
    factor, totals = factors(own, between)
    inverse = jax.scipy.linalg.solve_triangular(factor, jnp.eye(len(own)), lower=True, unit_diagonal=True)
    return jnp.sum(jnp.square(inverse) / totals[:, None], axis=0)


def spent_by_step(own: jax.Array, between: jax.Array, length: jax.Array) -> jax.Array:
    """Return [N], mu^2 of each client's step: that of the Gaussian mechanism that tells as much of its sample.

    A step tells of client i by length_i^2 (Sigma^-1)_ii, Sigma being the covariance of all noises (Allouah et al.
    2024, algorithm 2). It is taken against any other client, who knows the noise that it shares, and sees everything.

    Args:
      own: [N] the variance of the noise that each client shares with nobody.
      between: as in `Cancelling`.
      length: [N] how far a sample of each client can move its gradient.
    """
    index = jnp.arange(len(own))

    def against(j: jax.Array) -> jax.Array:
        unknown = (index != j)[:, None] & (index != j)
        return jnp.where(index == j, 0, inverse_diagonal(own, jnp.where(unknown, between, 0)))

    worst = jnp.max(jax.lax.map(against, index, batch_size=AT_ONCE), axis=0)
    return jnp.square(length) * worst * (1 + ROUNDING)
