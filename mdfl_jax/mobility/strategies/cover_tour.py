"""A tour of the cluster centres: nearest neighbours first, improved by 2-opt, the mobile clients spread along it.

Reasoning: a draw may return to a centre at once and leave another centre for long. A tour visits each centre once in a
turn, with short ways. M clients that are spread along the tour visit each centre M times in a turn.

The client must know the places of the static clients, and its own number among the mobile clients. It needs no labels.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core.geometry import squared_distance
from mdfl_jax.mobility.choosing import Sight, Sites
from mdfl_jax.mobility.grid import GridWorld
from mdfl_jax.mobility.registry import strategy
from mdfl_jax.mobility.rule import ORACLE

LEAST_GAIN = 1e-4  # grid units, so that rounding makes no endless improvement


class Tour(NamedTuple):
    """A tour.

    Attributes:
      order: [K] int32, the candidates in the order of the tour, the valid ones first.
      turn: [K] int32, the place of each candidate in the tour.
      length: [] int32, how many are valid.
    """

    order: jax.Array
    turn: jax.Array
    length: jax.Array


def nearest_first(distance: jax.Array, valid: jax.Array) -> jax.Array:
    """Order candidates [K] by going to the nearest one not yet visited; those not valid come last."""
    count = valid.shape[0]

    def visit(k: jax.Array, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        order, left = state
        away = jnp.where(k > 0, distance[order[k - 1]], 0.0) + jnp.where(valid, 0.0, 1e9)
        following = jnp.argmin(jnp.where(left, away, jnp.inf)).astype(jnp.int32)
        return order.at[k].set(following), left.at[following].set(False)

    return jax.lax.fori_loop(0, count, visit, (jnp.zeros(count, jnp.int32), jnp.ones(count, bool)))[0]


def two_opt(distance: jax.Array, order: jax.Array, length: jax.Array) -> jax.Array:
    """Shortens a closed tour by the best reversal of a part of it, until there is none.

    Args:
      distance: [K, K] distances of the candidates.
      order: [K] int32, the tour, of which the first ``length`` entries count.
      length: [] int32.

    Returns:
      [K] int32, the tour.
    """
    at = jnp.arange(order.shape[0])

    def gains(order: jax.Array) -> jax.Array:
        following = order[jnp.where(at + 1 < length, at + 1, 0)]
        step = distance[order, following]
        crossed = distance[order][:, order] + distance[following][:, following]
        allowed = (at[:, None] < at) & (at < length)
        return jnp.where(allowed, step[:, None] + step - crossed, 0.0)

    def improve(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        order, gain = state
        first, last = jnp.divmod(jnp.argmax(gain), at.shape[0])  # the part after first, up to last, is reversed
        order = order[jnp.where((at > first) & (at <= last), first + 1 + last - at, at)]
        return order, gains(order)

    start = (order, gains(order))
    return jax.lax.while_loop(lambda state: jnp.max(state[1]) > LEAST_GAIN, improve, start)[0]


def plan_tour(key: jax.Array, world: GridWorld, sites: Sites) -> Tour:
    """Plans the tour of the candidates; it does not depend on the key."""
    place, length = world.grid[sites.place], jnp.sum(sites.valid)
    distance = jnp.sqrt(squared_distance(place, place))
    order = two_opt(distance, nearest_first(distance, sites.valid), length)
    turn = jnp.zeros_like(order).at[order].set(jnp.arange(order.shape[0], dtype=order.dtype))
    return Tour(order, turn, length)


@strategy(
    "cover_tour",
    knowledge=(ORACLE,),
    formula="the next of K cluster centres on the tour; client r of M begins at centre r K / M",
    cite="croes1958",
    prepare=plan_tour,
)
def cover_tour(key: jax.Array, sight: Sight) -> jax.Array:
    """Cover tour: along a short tour of the cluster centres, on which the mobile clients begin spread out."""
    tour: Tour = sight.plan
    begin = sight.rank * tour.length // jnp.maximum(sight.num_mobile, 1)
    here = tour.turn[jnp.argmax(sight.here & sight.valid)]
    following = jnp.where(sight.round == 0, begin, here + 1) % jnp.maximum(tour.length, 1)
    return tour.order[following]
