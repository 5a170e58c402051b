"""Clients that take no part in a round: they keep their state, compute and send nothing, and nobody hears them.

A network says in `Links.active` who takes part. The links of the others are removed here, in one place, and one wrapper
serves the rounds of all algorithms. If `Links.active` is None, everybody takes part and no program has a further
operation. Attackers (`Links.attackers`) may take part without training, or send without changing their own state.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from mdfl_jax.core import contract
from mdfl_jax.core.sharding import everywhere, stacked
from mdfl_jax.core.trees import rows_like, where_rows
from mdfl_jax.core.types import Algorithm, Gradient, Links, RoundContext, RoundStats

Round = Callable[[Any, Any, Links, RoundContext], tuple[Any, RoundStats]]


def links_of_active(links: Links) -> Links:
    """Remove the links from and to clients that take no part in the round, and their meetings with the server.

    The weights of removed links go to the receivers' own models. So rows of the mixing matrix still sum to one, and a
    symmetric matrix stays symmetric. With clocks (`Links.finishes`), clients whose work goes on stay in range.
    """
    if links.active is None:
        return links
    return everywhere(functools.partial(links_among, stay=links.finishes is not None), links, links.active)


def links_among(links: Links, active: jax.Array, stay: bool = False) -> Links:
    """Remove the links from and to all clients but some, [N] bool, as `links_of_active` does.

    Args:
      links: the links of a round.
      active: the clients that keep their links among each other.
      stay: whether the others stay in range, for metrics (`Links.before_picks`).
    """
    me = jnp.arange(active.shape[0], dtype=jnp.int32)
    kept = active[:, None] & links.senders.of(active)
    others = ~links.senders.own(active.shape[0])
    removed = jnp.sum(jnp.where(others & ~kept, links.mix, 0), axis=1)
    partner = links.partner
    if partner is not None:
        partner = jnp.where(active & active[partner], partner, me.astype(partner.dtype))
    among = lambda x: x if x is None or stay else x & kept  # noqa: E731
    return links._replace(
        adjacency=links.adjacency & kept,
        before_picks=links.audible if stay else among(links.before_picks),
        in_radius=among(links.in_radius),
        outage=among(links.outage),
        mix=jnp.where(others & ~kept, 0, links.mix) + links.senders.on_own(removed),
        at_server=None if links.at_server is None else links.at_server & active,
        partner=partner,
    )


def takes_part(links: Links, rows: int) -> jax.Array:
    """Return [rows] bool, the clients that take part in the round; False for rows of padding clients."""
    is_client = jnp.arange(rows) < links.num_clients
    return is_client if links.active is None else is_client & links.active


def round_of_active(algorithm: Algorithm) -> Round:
    """Make the round of an algorithm in which only the active clients of `Links.active` change and count.

    Attackers that do not train have gradients of zero and compute nothing, and those that stand still keep their rows
    of the state.

    An inactive client keeps its rows of the state, and it has sent no message. The loss that is recorded for it is that
    of the model that it keeps. Parts of the state that have no row for each client, such as the model of a server, are
    those after the round.
    """

    def do_round(hparams: Any, state: Any, links: Links, context: RoundContext) -> tuple[Any, RoundStats]:
        active, attackers = links.active, links.attackers
        if attackers is not None:
            context = context._replace(gradient=_without(attackers.untrained, context.gradient))
        following, stats = algorithm.round(hparams, state, links, context)
        if active is None and attackers is None:
            return following, stats
        rows = links.adjacency.shape[0]
        moves = jnp.ones(rows, bool) if active is None else active
        if attackers is not None:
            moves &= ~attackers.still

        def chosen(of_client: bool, new: jax.Array, old: jax.Array) -> jax.Array:
            return jnp.where(rows_like(moves, new), new, old) if of_client else new

        following = jax.tree.map(chosen, stacked(following, rows), following, state)
        computes = jnp.ones(rows, bool) if active is None else active
        if attackers is not None:
            computes &= ~attackers.untrained
        stats = stats._replace(computed=computes if stats.computed is None else computes & stats.computed)
        if active is None:
            return following, stats
        nothing = jax.tree.map(lambda count: jnp.where(active, count, 0), (stats.messages, stats.bits))
        return following, stats._replace(messages=nothing[0], bits=nothing[1])

    return do_round


def gradient_of(clients: jax.Array | None, gradient: Gradient) -> Gradient:
    """Return the gradient function of some clients, [N] bool; that of the others is zero. None: of all clients.

    A task that has the argument ``only`` (`Task.gradient`) leaves the work of the others out.
    """
    if clients is None:
        return gradient
    if contract.has_argument(gradient, "only"):
        return functools.partial(gradient, only=clients)
    return _without(~clients, gradient)


def _without(clients: jax.Array, gradient: Gradient) -> Gradient:
    """Return the gradient function with zero gradients for some clients, [N] bool."""

    @functools.wraps(gradient)
    def of_others(*args: Any, **more: Any) -> tuple[jax.Array, Any]:
        loss, found = gradient(*args, **more)
        return loss, where_rows(clients, jax.tree.map(jnp.zeros_like, found), found)

    return of_others
