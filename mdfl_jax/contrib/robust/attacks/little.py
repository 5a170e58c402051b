"""A little is enough: the attack knows the models of all clients (`mdfl_jax.attacks.members.omniscient`)."""

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtri

from mdfl_jax.attacks.members.omniscient import mean
from mdfl_jax.attacks.registry import ATTACKS, Attack, Target
from mdfl_jax.core.numbers import Numbers, number

FARTHEST = 5.0  # deviations; the bound of z where honest clients are few


class LittleNumbers(Numbers):
    """The number of "a little is enough"."""

    deviations: float = number(0.0, "deviations from the honest mean, z; 0: by how many are heard", at_least=0)


def little(target: Target) -> jax.Array:
    """Return mean - z deviation of the honest models, coordinate by coordinate."""
    honest, attackers = jnp.sum(target.honest), jnp.sum(target.attackers)
    middle = mean(target)
    squares = jnp.where(target.honest[:, None], jnp.square(target.models - middle), 0)
    deviation = jnp.sqrt(jnp.sum(squares, axis=0) / jnp.maximum(honest - 1, 1))
    supporters = (honest + attackers) // 2 + 1 - attackers
    share = jnp.maximum(honest - supporters, 0) / jnp.maximum(honest, 1)  # an attacker may hear nobody
    z = jnp.clip(ndtri(share.astype(jnp.float32)), 0, FARTHEST)
    z = jnp.where(target.numbers.deviations > 0, target.numbers.deviations, z)
    return middle - z.astype(middle.dtype) * deviation


ATTACKS.register(
    "a_little_is_enough",
    LittleNumbers,
    "Attackers send the honest mean, moved by as many deviations as still look honest.",
    formula="y = mean - z deviation of the honest models;  Phi(z) = (n - m - s) / (n - m), s = floor(n / 2 + 1) - m, "
    "m of the n models are attackers'; 0 <= z <= 5",
    cite="baruch2019; he2022",
)(Attack(to_each=little, trains=False))
