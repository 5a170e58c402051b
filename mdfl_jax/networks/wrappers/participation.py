"""Partial participation of neighbours and communication in some rounds only.

This is PaME's setting (V-D), for algorithms that do not pick neighbours themselves.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.links import ALL_PAIRS, Senders
from mdfl_jax.core.rng import number_of, stream, stream_at
from mdfl_jax.core.types import FIXED, SYMMETRIC, Clients, Links, Network
from mdfl_jax.exchange.partial import random_neighbours
from mdfl_jax.metrics.values import HEARD, components
from mdfl_jax.networks.graphs import heard_over_hops, until_connected
from mdfl_jax.networks.mixing import metropolis_hastings
from mdfl_jax.networks.wrappers.wrapper import wrap

# The picks fold this number into the key, since the inner network draws from the same streams.
_OWN = number_of("participation")
PICK_DIRECTIONS = ("both_ways", "one_way")
"""Who sends if one of two clients has picked the other: both of them, or only the picked client."""


class ParticipationParams(NamedTuple):
    """Traced numbers of a thinned network.

    Attributes:
      inner: the numbers of the network that is thinned.
      participation: nu in [0, 1], the share of its neighbours that a client picks.
      period: kappa >= 1, the number of rounds from one communication to the next, the same for all clients.
    """

    inner: Any
    participation: Any = 1.0
    period: Any = 1


class ParticipationState(NamedTuple):
    """The state of a thinned network.

    Attributes:
      inner: the state of the inner network.
      links: [N, K] bool, the picked links if they are drawn once for a seed; None if they are drawn in every round.
    """

    inner: Any
    links: jax.Array | None


def pick_links(
    key: jax.Array,
    adjacency: jax.Array,
    rate: jax.Array | float,
    senders: Senders = ALL_PAIRS,
    picks: str = "both_ways",
) -> jax.Array:
    """Draw the links of a round: each client picks ceil(nu d_i) of its d_i neighbours, and hears them.

    Args:
      key: one typed key for all clients.
      adjacency: [N, K] bool; [i, j] is true where i hears the sender at place j.
      rate: nu in [0, 1].
      senders: the clients for which the places stand.
      picks: one of `PICK_DIRECTIONS`.

    Returns:
      [N, K] bool, a subset of ``adjacency``: i hears j if i has picked j or, where exchanges go both ways, if j has
      picked i and ``adjacency`` has this direction of the link.
    """
    picked = random_neighbours(key, adjacency, rate, senders)
    if picks == "one_way":
        return picked
    return (picked | senders.opposite(picked)) & adjacency


def _picks_that_stay(key: jax.Array, links: Links, rate: jax.Array | float) -> jax.Array:
    """Draw links as `pick_links` until they connect the same clients as all links do; if no draw does, keep all."""
    whole, senders = links.adjacency, links.senders
    draw = lambda k: pick_links(k, whole, rate, senders)  # noqa: E731
    reach = heard_over_hops if senders.ids is None else partial(components, senders=senders)
    return until_connected(draw, key, lambda _: whole, like=whole, reach=reach)


def _check(network: Network, stay: bool, picks: str) -> None:
    """Check that a network can be thinned in this way; the arguments are those of `partial_participation`."""
    if "server" in network.gives:
        raise UserError("algorithm.participation and the periods must be 1 on a network with a server")
    if stay and FIXED not in network.gives:
        raise UserError("picks can stay only over the same links in every round, which this network does not give")
    if stay and picks == "one_way":
        raise UserError("algorithm.picks is one_way; picks that stay must be both_ways")
    if stay and network.lists and SYMMETRIC not in network.gives:  # components know no directions
        raise UserError("picks can stay over neighbour lists only with symmetric mixing weights")


def partial_participation(network: Network, stay: bool = False, picks: str = "both_ways") -> Network:
    """Make a network that uses a part of another network's links, as PaME V-D does for all algorithms it compares with.

    There are links only in rounds whose index is a multiple of the period; in other rounds every client keeps its
    model. Each client picks ceil(nu d_i) of its d_i neighbours. A client also receives from the clients that pick it,
    so it receives from about nu d_i to 2 nu d_i clients. The weights are Metropolis-Hastings on these links. If nu is
    1, the weights are those of the inner network. All other neighbours stay in range (`Links.audible`), for metrics.

    If picks are one-way, a client receives only from the clients that it has picked, and there are as many messages as
    in PaME. The weights are 1 / (1 + max(k_i, k_j)), where i receives from k_i clients. Rows sum to one, but columns do
    not, so an exchange changes the mean of the models. If nu d_i is whole for every client, the weights are doubly
    stochastic in the mean over the picks: nu / (1 + nu max(d_i, d_j)) in both directions.

    Args:
      network: the inner network. ``hparams.network`` becomes a `ParticipationParams` that contains its numbers.
      stay: if true, the picks are drawn once for each seed and stay, for algorithms that keep copies of their
        neighbours' models. The picks are drawn until they connect the same clients as the inner links, at most 100
        times; if no draw does, all links stay.
      picks: one of `PICK_DIRECTIONS`.

    Returns:
      A network that gives what the inner one gives, without FIXED unless ``stay`` is true. FIXED then means the same
      links in every round that has links. A network with one-way picks does not give SYMMETRIC.

    Raises:
      UserError: for ``stay`` over links that change, over neighbour lists whose mixing matrix is not symmetric, or with
        one-way picks; or for a network with a server, whose pairs are already drawn.
    """
    _check(network, stay, picks)

    def init(params: ParticipationParams, key: jax.Array, clients: Clients) -> ParticipationState:
        inner = network.init(params.inner, key, clients)
        if not stay:
            return ParticipationState(inner, None)
        links = network.step(params.inner, key, jnp.int32(0), inner, clients)[1]
        own = jax.random.fold_in(stream(key, "placement"), _OWN)
        return ParticipationState(inner, _picks_that_stay(own, links, params.participation))

    def step(
        params: ParticipationParams, key: jax.Array, round_index: jax.Array, state: ParticipationState, clients: Clients
    ) -> tuple[ParticipationState, Links]:
        inner, links = network.step(params.inner, key, round_index, state.inner, clients)
        kept = state.links
        if kept is None:
            own = jax.random.fold_in(stream_at(key, "link", round_index), _OWN)
            kept = pick_links(own, links.adjacency, params.participation, links.senders, picks)
        turn = round_index % jnp.maximum(jnp.asarray(params.period, jnp.int32), 1) == 0
        mix = jnp.where(jnp.asarray(params.participation) >= 1, links.mix, metropolis_hastings(kept, links.senders))
        mix = jnp.where(turn, mix, links.senders.own(network.num_clients).astype(mix.dtype))
        picked = links._replace(adjacency=kept & turn, mix=mix).of_channel(audible=links.audible)
        return ParticipationState(inner, state.links), picked

    gives = network.gives - ({SYMMETRIC} if picks == "one_way" else set()) - (set() if stay else {FIXED})
    return wrap(network, init=init, step=step, gives=gives, metrics=(HEARD,))
