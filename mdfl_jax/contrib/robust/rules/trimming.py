"""Trimmed means, coordinate by coordinate."""

from typing import Any

import jax
import jax.numpy as jnp

from mdfl_jax.core.numbers import number
from mdfl_jax.exchange.neighbourhood import BoundedNumbers, Neighbourhood, RobustNumbers, for_one_client, sum_of_ranked
from mdfl_jax.exchange.partial import floor_of


def middle_sum(near: Neighbourhood, among: jax.Array, cut: jax.Array) -> jax.Array:
    """Sum each coordinate over the models ``among``, [K] bool, without the ``cut`` largest and smallest values."""
    place = jnp.arange(near.models.shape[0])
    kept = (place >= cut) & (place < jnp.sum(among, dtype=jnp.int32) - cut)
    return sum_of_ranked(near.models, among, kept.astype(near.own.dtype))


def trimmed(near: Neighbourhood, cut: jax.Array) -> jax.Array:
    """Average the client's own model with the values of the others, without the ``cut`` largest and smallest."""
    others = near.size - 1
    total = near.own + middle_sum(near, near.others, cut)
    return jnp.where(others < 2 * cut + 1, near.own, total / (others - 2 * cut + 1))


class TrimmedMeanNumbers(BoundedNumbers):
    """The number of attackers that the trimmed mean is made for."""

    def least(self) -> int:
        """Return 2 f + 2: the client's own model is never trimmed."""
        return 2 * self.max_attackers + 2


@for_one_client(
    "trimmed_mean",
    TrimmedMeanNumbers,
    weighs=False,
    formula="x_i+ = (x_i + sum of the y_j heard, without the f largest and f smallest of each coordinate) / (n - 2 f), "
    "with n models, the own one included",
    cite="fang2022: BRIDGE-T; yin2018",
)
def trimmed_mean(near: Neighbourhood) -> jax.Array:
    """Average each coordinate without the f largest and the f smallest values of the others (BRIDGE-T).

    It needs 2 f + 1 others, of which at most f are attackers. A client that hears fewer keeps its own model.
    """
    return trimmed(near, near.numbers.max_attackers)


@for_one_client(
    "trimmed_mean_of_all",
    BoundedNumbers,
    weighs=False,
    formula="x_i+ = (sum of x_i and the y_j heard, without the f largest and f smallest of each coordinate) "
    "/ (n - 2 f), with n models, the own one included",
    cite="yin2018",
)
def trimmed_mean_of_all(near: Neighbourhood) -> jax.Array:
    """Average each coordinate without the f largest and the f smallest values of all models.

    The client's own value may be among those that are cut, as where a server aggregates. It needs 2 f + 1 models, its
    own included, of which at most f are attackers'. A client with fewer keeps its own model.
    """
    cut = near.numbers.max_attackers
    total = middle_sum(near, near.counts, cut)
    return jnp.where(near.too_few, near.own, total / jnp.maximum(near.size - 2 * cut, 1))


class TrimmedShareNumbers(RobustNumbers):
    """The number of the trimmed mean whose cut grows with the neighbourhood."""

    trim: float = number(0.2, "share of the values that is left out at each end", at_least=0, below=0.5)

    def bears(self, size: Any) -> Any:
        """Return what is cut at each end, floor(trim (n - 1))."""
        return floor_of(self.trim, size - 1)


@for_one_client(
    "trimmed_share",
    TrimmedShareNumbers,
    weighs=False,
    formula="as trimmed_mean, with f = floor(trim (n - 1))",
    cite="fang2022: BRIDGE-T; yin2018",
)
def trimmed_share(near: Neighbourhood) -> jax.Array:
    """Average each coordinate without a share of the largest and of the smallest values of the others.

    The number that is cut follows from how many a client hears. With few neighbours nothing is cut: it is then the mean
    of all, which no attacker finds hard.
    """
    return trimmed(near, near.numbers.bears(near.size))
