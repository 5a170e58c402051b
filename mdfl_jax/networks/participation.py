"""Some neighbours at a time, some rounds only: PaME's setting (V-D) for algorithms that do not pick neighbours."""

import zlib
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.errors import UserError
from mdfl_jax.exchange.partial import random_neighbours
from mdfl_jax.metrics.registry import of_inner
from mdfl_jax.networks.connected import until_connected
from mdfl_jax.networks.mixing import metropolis_hastings
from mdfl_jax.rng import stream, stream_at
from mdfl_jax.types import FIXED, Clients, Links, Network

OWN = zlib.crc32(b"participation") & 0x7FFFFFFF  # folded into a stream that the inner network draws from too


class ThinnedParams(NamedTuple):
    """Traced numbers of a thinned network.

    Attributes:
      inner: of the network that is thinned.
      participation: share of its neighbours that a client picks, nu in [0, 1].
      period: rounds from one communication to the next, kappa >= 1, one for all.
    """

    inner: Any
    participation: Any = 1.0
    period: Any = 1


class ThinnedState(NamedTuple):
    """The inner network's state and, where the picks stay, the links [N, N] bool; else None."""

    inner: Any
    links: jax.Array | None


def pick_links(key: jax.Array, adjacency: jax.Array, rate: jax.Array | float) -> jax.Array:
    """Links of a round: each client picks ceil(nu d_i) neighbours uniformly, and an exchange goes both ways.

    Args:
      key: one for all clients.
      adjacency: [N, N] bool, [i, j] where i hears j.
      rate: nu in [0, 1].

    Returns:
      [N, N] bool, a part of ``adjacency``: the union of the picks; of a link of one direction only that direction.
    """
    picked = random_neighbours(key, adjacency, rate)
    return (picked | picked.T) & adjacency


def thinned(network: Network, stay: bool = False) -> Network:
    """A network of which a part is used, as the participation and period that PaME V-D sets for all its rivals.

    In rounds that the period does not divide there are no links and every client keeps its model. In the others each
    client picks ceil(nu d_i) of its d_i neighbours, which makes it hear nu d_i to 2 nu d_i or so of them, as whoever
    picks it is heard too. The weights are Metropolis-Hastings on these links; where nu is 1, the inner network's.

    Args:
      network: the inner one; ``hparams.network`` becomes a `ThinnedParams` around its numbers.
      stay: the picks are drawn once a seed and stay, for algorithms that keep copies of their neighbours' models;
        drawn again until they connect whom the inner links connect, 100 times at most, then all links stay.

    Returns:
      A network that gives what the inner one gives; FIXED, which now says "the same links in every round in which
      there are any", only with ``stay``.

    Raises:
      UserError: for ``stay`` over links that change, or a network with a server, whose pairs are drawn already.
    """
    if "at_server" in network.gives:
        raise UserError("algorithm.participation and the periods must be 1 on a network with a server")
    if stay and FIXED not in network.gives:
        raise UserError("picks can stay only over the same links in every round, which this network does not give")

    def init(params: ThinnedParams, key: jax.Array, clients: Clients) -> ThinnedState:
        inner = network.init(params.inner, key, clients)
        if not stay:
            return ThinnedState(inner, None)
        whole = network.step(params.inner, key, jnp.int32(0), inner, clients)[1].adjacency
        draw = lambda k: pick_links(k, whole, params.participation)  # noqa: E731
        own = jax.random.fold_in(stream(key, "placement"), OWN)
        return ThinnedState(inner, until_connected(draw, own, lambda _: whole, like=whole))

    def step(
        params: ThinnedParams, key: jax.Array, round_index: jax.Array, state: ThinnedState, clients: Clients
    ) -> tuple[ThinnedState, Links]:
        inner, links = network.step(params.inner, key, round_index, state.inner, clients)
        kept = state.links
        if kept is None:
            own = jax.random.fold_in(stream_at(key, "link", round_index), OWN)
            kept = pick_links(own, links.adjacency, params.participation)
        turn = round_index % jnp.maximum(jnp.asarray(params.period, jnp.int32), 1) == 0
        mix = jnp.where(jnp.asarray(params.participation) >= 1, links.mix, metropolis_hastings(kept))
        mix = jnp.where(turn, mix, jnp.eye(network.num_clients, dtype=mix.dtype))
        return ThinnedState(inner, state.links), links._replace(adjacency=kept & turn, mix=mix)

    return Network(
        num_clients=network.num_clients,
        gives=network.gives if stay else network.gives - {FIXED},
        init=init,
        step=step,
        places=lambda state: network.places(state.inner),
        metrics=of_inner(network, lambda state: state.inner),
    )
