"""Attackers who need to know nothing: they send something else than their vector."""

import jax
import jax.numpy as jnp

from mdfl_jax.attacks.registry import ATTACKS, Attack
from mdfl_jax.core.numbers import Numbers, number
from mdfl_jax.core.types import ClientParams


class SignFlipNumbers(Numbers):
    """The number of the sign flip."""

    flip_scale: float = number(1.0, "length of what is sent, in lengths of the vector", above=0)


def sign_flip(numbers: SignFlipNumbers, key: jax.Array, vectors: ClientParams, honest: jax.Array) -> ClientParams:
    """Return the vectors with the opposite sign."""
    return jax.tree.map(lambda x: -jnp.asarray(numbers.flip_scale, x.dtype) * x, vectors)


ATTACKS.register("sign_flip", SignFlipNumbers, "Attackers send their vector with the opposite sign.",
                 formula="y_j = -s x_j", cite="he2022: bit flipping")(Attack(sign_flip))  # fmt: skip


class GaussianNumbers(Numbers):
    """The number of the noise."""

    deviation: float = number(1.0, "standard deviation of every coordinate", above=0, finite=True)


def gaussian(numbers: GaussianNumbers, key: jax.Array, vectors: ClientParams, honest: jax.Array) -> ClientParams:
    """Return vectors of noise, drawn anew in every exchange."""
    leaves, structure = jax.tree.flatten(vectors)
    keys = [jax.random.fold_in(key, index) for index in range(len(leaves))]
    draws = [jax.random.normal(own, x.shape, x.dtype) for own, x in zip(keys, leaves)]
    return jax.tree.unflatten(structure, [jnp.asarray(numbers.deviation, x.dtype) * x for x in draws])


ATTACKS.register("gaussian", GaussianNumbers, "Attackers send noise.", formula="y_j ~ N(0, s^2 I)",
                 cite="blanchard2017")(Attack(gaussian))  # fmt: skip
