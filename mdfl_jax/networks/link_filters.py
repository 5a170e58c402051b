"""The communication radius of each client, links that fail at random, and rules that remove contacts.

A `LinkFilter` removes contacts before the mixing matrix is made. The rules themselves are in `mdfl_jax.contrib.radios`
(signals that are too weak) and in `mdfl_jax.networks.costs` (clients that are too slow, contacts that are too short).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core.links import ALL_PAIRS, Senders
from mdfl_jax.core.metric import Metric
from mdfl_jax.core.types import Clients
from mdfl_jax.networks.contact import Met


def draw_radii(key: jax.Array, radius: jax.Array, spread: jax.Array, num_clients: int) -> jax.Array:
    """Draw a radius for each client, uniform in [1 - spread, 1 + spread] times the given one.

    Args:
      key: typed key.
      radius: one radius for all clients or [N]. ``inf`` stays ``inf``.
      spread: in [0, 1]. With 0 the radius is not changed.
      num_clients: N.

    Returns:
      [N] radii.
    """
    factor = 1 + spread * jax.random.uniform(key, (num_clients,), minval=-1.0, maxval=1.0)
    radius = jnp.asarray(radius, jnp.float32)
    return jnp.where(jnp.isinf(radius), radius, radius * factor)  # inf times 0 would be NaN


def failure_probability(
    squared_distance: jax.Array, radius: jax.Array, failure: jax.Array, fading: jax.Array
) -> jax.Array:
    """Compute the probability that a link fails in one direction: failure + fading (d / R)^2, at most 1.

    Args:
      squared_distance: [N, K] d^2 of each link. With swept contact, it is the smallest one of the movement.
      radius: [] or [N, K] R, the distance up to which the two clients hear each other.
      failure: the probability at distance 0.
      fading: the increase of the probability from distance 0 to distance R.

    Returns:
      [N, K] probabilities.
    """
    share = squared_distance / jnp.maximum(jnp.square(radius), jnp.finfo(jnp.float32).tiny)
    return jnp.clip(failure + fading * jnp.clip(share, 0, 1), 0, 1)


def surviving(key: jax.Array, contact: jax.Array, probability: jax.Array, senders: Senders = ALL_PAIRS) -> jax.Array:
    """Draw the links that do not fail, independently for each direction.

    Args:
      key: typed key of the round.
      contact: [N, K] bool, the links before any of them fails.
      probability: [N, K] or [], the probability that a link fails. With 0 it never fails, with 1 always.
      senders: the clients for which the places stand. The same links survive in both forms.

    Returns:
      [N, K] bool; [i, j] is true where i hears the sender at place j.
    """
    return contact & (senders.uniform(key, contact.shape[0]) >= probability)


class LinkFilter(NamedTuple):
    """A rule that removes contacts, as pure functions.

    The mixing matrix of a round is made from the contacts that are left. A filter removes both directions of a contact
    or none, so that it keeps the promise `mdfl_jax.core.types.SYMMETRIC` of a network.

    Attributes:
      init: (numbers, key, clients, K) -> the state before the first round. ``key`` is the key of the seed; K is 0 if
        links are matrices.
      step: (numbers, state, key, met) -> (what is left of it, state). ``met`` are the contacts of the round
        (`mdfl_jax.networks.contact.Met`); a filter may also tell the rate of a link, and bring its radius down. ``key``
        is that of the stream "link" in the round.
      keeps_fixed: whether it removes the same contacts in every round, so that a network whose links are the same in
        every round keeps this promise (`mdfl_jax.core.types.FIXED`).
      needs_seconds: whether it calls ``met.seconds``.
      needs_distances: whether it reads ``met.squared``.
      metrics: the metrics of what it does; they read the links of a round.
    """

    init: Callable[[Any, jax.Array, Clients, int], Any]
    step: Callable[[Any, Any, jax.Array, Met], tuple[Met, Any]]
    keeps_fixed: bool = False
    needs_seconds: bool = False
    needs_distances: bool = False
    metrics: tuple[Metric, ...] = ()


def chained(filters: Sequence[LinkFilter]) -> LinkFilter | None:
    """Make one filter of several, which are applied one after another; None of none.

    The numbers and the state are tuples, in the order of the filters; those of a single filter are its own.
    """
    if len(filters) < 2:
        return filters[0] if filters else None

    def init(numbers: Any, key: jax.Array, clients: Clients, places: int) -> tuple[Any, ...]:
        return tuple(each.init(own, key, clients, places) for each, own in zip(filters, numbers, strict=True))

    def step(numbers: Any, states: Any, key: jax.Array, met: Met) -> tuple[Met, tuple[Any, ...]]:
        after = []
        for each, own, state in zip(filters, numbers, states, strict=True):
            met, state = each.step(own, state, key, met)
            after.append(state)
        return met, tuple(after)

    return LinkFilter(
        init,
        step,
        keeps_fixed=all(each.keeps_fixed for each in filters),
        needs_seconds=any(each.needs_seconds for each in filters),
        needs_distances=any(each.needs_distances for each in filters),
        metrics=tuple(metric for each in filters for metric in each.metrics),
    )
