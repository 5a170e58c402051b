"""Shadowing between two moving clients: a function of their places, drawn once for a seed.

Obstacles make a signal weaker or stronger by a normal number of decibel, which changes slowly as clients move. With one
end fixed, its correlation falls as exp(-moved / distance) with the metres that the other end moves (Gudmundson, 1991).
Between two moving clients both ends count alike: exp(-(moved_i + moved_j) / distance) (Wang, Tameh and Nix, 2008).

A sum of sinusoids over both places has these correlations. Its frequencies are drawn from the spectrum of
exp(-r / distance) in the plane, which is a Cauchy distribution: a normal vector divided by a normal number. So places
decide the shadowing of a pair, both directions have the same, and nothing is carried from round to round.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core.geometry import squared_distance
from mdfl_jax.networks.contact import Met

WAVES = 32  # the excess kurtosis of their sum is -1.5 / 32


class Waves(NamedTuple):
    """The sinusoids: frequencies [WAVES, 2] of the places of both clients, phases [WAVES], and the distance [] m."""

    first: jax.Array
    second: jax.Array
    phase: jax.Array
    distance: jax.Array


def draw_waves(key: jax.Array, distance: jax.Array) -> Waves:
    """Draw the sinusoids of a seed.

    Args:
      key: typed key.
      distance: [] metres after which the correlation is 1 / e.
    """
    keys = jax.random.split(key, 5)
    normal = [jax.random.normal(k, (WAVES, size), jnp.float32) for k, size in zip(keys[:4], (2, 1, 2, 1))]
    frequency = lambda vector, number: vector / number / distance  # noqa: E731
    phase = jax.random.uniform(keys[4], (WAVES,), maxval=2 * jnp.pi)
    return Waves(frequency(*normal[:2]), frequency(*normal[2:]), phase, jnp.asarray(distance, jnp.float32))


def shadowing(waves: Waves, met: Met) -> jax.Array:
    """Compute the shadowing of all pairs at their places, [N, K] with mean zero and variance one, symmetric.

    Both directions of a sinusoid are added. They have the correlation exp(-2 d / distance) at the distance d, so the
    sum is divided by its deviation.
    """
    place, senders = met.position, met.senders
    assert place is not None
    first, second = (jnp.matmul(place, k.T, precision="highest") for k in (waves.first, waves.second))
    first = first + waves.phase
    cos_1, sin_1, cos_2, sin_2 = jnp.cos(first), jnp.sin(first), jnp.cos(second), jnp.sin(second)

    def with_wave(m: int, total: jax.Array) -> jax.Array:
        mine, theirs = (lambda x: x[:, m, None]), (lambda x: senders.of(x[:, m]))
        there = mine(cos_1) * theirs(cos_2) - mine(sin_1) * theirs(sin_2)
        back = mine(cos_2) * theirs(cos_1) - mine(sin_2) * theirs(sin_1)
        return total + there + back

    total = jax.lax.fori_loop(0, WAVES, with_wave, jnp.zeros(met.heard.shape, jnp.float32))
    total = (total + senders.opposite(total)) / 2  # sums are rounded in another order in the opposite direction
    apart = jnp.sqrt(
        squared_distance(place, place)
        if senders.ids is None
        else jnp.sum(jnp.square(place[:, None] - place[senders.ids]), axis=2)
    )
    return total / jnp.sqrt(WAVES * (1 + jnp.exp(-2 * apart / waves.distance)))
