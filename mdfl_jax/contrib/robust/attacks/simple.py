"""Attackers who need to know nothing: they send a multiple of their vector, a constant, or what another one sends."""

import jax
import jax.numpy as jnp

from mdfl_jax.attacks.registry import ATTACKS, Attack
from mdfl_jax.core.numbers import Numbers, number
from mdfl_jax.core.types import ClientParams


class ScaledNumbers(Numbers):
    """The number of scaling."""

    scale: float = number(10.0, "factor of what is sent", finite=True)


def scaled(numbers: ScaledNumbers, key: jax.Array, vectors: ClientParams, honest: jax.Array) -> ClientParams:
    """Return the vectors times a factor."""
    return jax.tree.map(lambda x: jnp.asarray(numbers.scale, x.dtype) * x, vectors)


ATTACKS.register("scaled", ScaledNumbers, "Attackers send their vector times a factor.", formula="y_j = s x_j")(
    Attack(scaled)
)


class ConstantNumbers(Numbers):
    """The number of the constant vector."""

    value: float = number(1.0, "value of every coordinate", finite=True)


def constant(numbers: ConstantNumbers, key: jax.Array, vectors: ClientParams, honest: jax.Array) -> ClientParams:
    """Return vectors of one value."""
    return jax.tree.map(lambda x: jnp.broadcast_to(jnp.asarray(numbers.value, x.dtype), x.shape), vectors)


ATTACKS.register("constant", ConstantNumbers, "Attackers send one value in every coordinate.", formula="y_j = c")(
    Attack(constant)
)


def zero(numbers: Numbers, key: jax.Array, vectors: ClientParams, honest: jax.Array) -> ClientParams:
    """Return vectors of zeros."""
    return jax.tree.map(jnp.zeros_like, vectors)


ATTACKS.register("zero", doc="Attackers send zeros.", formula="y_j = 0")(Attack(zero))


def mimic(numbers: Numbers, key: jax.Array, vectors: ClientParams, honest: jax.Array) -> ClientParams:
    """Return the vector of the first honest client that takes part in the round, for all; if none does, their own."""
    victim, some = jnp.argmax(honest), jnp.any(honest)
    return jax.tree.map(lambda x: jnp.where(some, x[victim], x), vectors)


ATTACKS.register(
    "mimic",
    doc="Attackers all send what the first honest client of the round sends, so that this client counts too much. "
    "In a round without one they send their own.",
    formula="y_j = x_v for one honest client v",
    cite="karimireddy2022",
)(Attack(mimic))

ATTACKS.register(
    "replay",
    doc="Attackers keep the state that they have when the attack begins, and send in each round what follows from it.",
    formula="y_j of the state in which the attack begins, without gradients",
)(Attack(trains=False, moves_on=False))
