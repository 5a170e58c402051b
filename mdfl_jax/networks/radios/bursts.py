"""Bursts of outage: each pair of clients is in a good or a bad state, a Markov chain over the rounds.

This is the channel of Gilbert (1960) and Elliott (1963), a round at a time: in the bad state nothing arrives. The chain
of a pair begins in its stationary distribution when the two clients come within range, so neither form of the links
must remember all pairs.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core.links import carried, no_senders
from mdfl_jax.networks.contact import Met


class Burst(NamedTuple):
    """The states of the pairs that are within range.

    Attributes:
      known: [N, K] int32, 0 where the two were not within range in the last round, 1 in a good and 2 in a bad state.
      ids: [N, K] int32, the clients of the places (`mdfl_jax.core.links.Senders.ids`); None in the dense form.
    """

    known: jax.Array
    ids: jax.Array | None

    @property
    def under_way(self) -> jax.Array:
        """[N, K] bool, the pairs in a burst."""
        return self.known == 2


def no_bursts(num_clients: int, places: int) -> Burst:
    """Return the state before the first round; ``places`` is K of neighbour lists, 0 if links are matrices."""
    ids = no_senders(num_clients, places).ids if places else None
    return Burst(jnp.zeros((num_clients, places or num_clients), jnp.int32), ids)


def after_a_round(begin: jax.Array, end: jax.Array, bursts: Burst, met: Met, draws: jax.Array) -> Burst:
    """Return the states in the next round.

    Args:
      begin: [] the probability that a burst begins after a round.
      end: [] the probability that it ends.
      bursts: the states in the round before.
      met: who is within range.
      draws: [N, K] uniform draws of the pairs, the same in both directions.
    """
    before = bursts.known if bursts.ids is None else carried(bursts.ids, bursts.known, met.senders)
    stationary = begin / jnp.maximum(begin + end, jnp.finfo(jnp.float32).tiny)
    chance = jnp.stack([stationary, jnp.asarray(begin), 1 - jnp.asarray(end)])[before]
    now = jnp.where(draws < chance, 2, 1)
    return Burst(jnp.where(met.heard, now, 0).astype(jnp.int32), met.senders.ids)
