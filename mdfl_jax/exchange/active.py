"""Who takes part in a round. A client that takes no part keeps its state, computes nothing, and sends nothing.

A network sets `Links.active`, the clients that take part. This module removes the links of the others, and wraps the
rounds of all algorithms in the same way. If `Links.active` is None, all clients take part, and no operation is added to
the program.
"""

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from mdfl_jax.core import contract
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.sharding import everywhere, stacked
from mdfl_jax.core.trees import rows_like, where_rows
from mdfl_jax.core.types import Algorithm, Channel, Extra, Gradient, Links, Meetings, RoundContext, RoundStats


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Finishing(Extra):
    """The clients whose local work ends in a round. With clocks, a work takes each client its own number of rounds.

    The other clients continue their work, and their gradients are zero. Without this record, every client finishes one
    work in each round.

    Attributes:
      who: [N] bool.
    """

    who: jax.Array

    def around(self, algorithm: Algorithm) -> Algorithm:
        """Return the algorithm whose round computes gradients only for these clients."""

        def do_round(hparams: Any, state: Any, links: Links, context: RoundContext) -> tuple[Any, RoundStats]:
            context = context._replace(gradient=gradient_of(self.who, context.gradient))
            following, stats = algorithm.round(hparams, state, links, context)
            return following, computed_by(self.who, stats)

        return algorithm._replace(round=do_round)


def links_of_active(links: Links) -> Links:
    """Remove the links from and to clients that take no part in the round, and their meetings with the server.

    The weights of removed links go to the receivers' own models. So the rows of the mixing matrix still sum to one, and
    a symmetric matrix stays symmetric. Clients whose work continues (`Finishing`) stay in range.

    Raises:
      UserError: if the meetings with the server are known, which a client would miss.
    """
    if links.active is None:
        return links
    if links.server is not None and links.server.last is not None:
        raise UserError("a wrapper leaves clients out of rounds, but server.pattern says whom the server meets in them")
    return everywhere(functools.partial(links_among, stay=links.get(Finishing) is not None), links, links.active)


def leave_out(links: Links, others: jax.Array) -> Links:
    """Return the links of a round in which some clients, [N] bool, take no part, besides those that already take none.

    A wrapper calls this and does not set `Links.active` itself, since wrappers around it read the links, too.
    """
    there = ~others
    among = links_among(links, there)
    return among._replace(active=there if links.active is None else there & links.active)


def links_among(links: Links, active: jax.Array, stay: bool = False) -> Links:
    """Remove the links from and to all clients but some, [N] bool, as `links_of_active` does.

    Args:
      links: the links of a round.
      active: the clients that keep their links among each other.
      stay: whether the others stay in range, for metrics (`Links.audible`).
    """
    me = jnp.arange(active.shape[0], dtype=jnp.int32)
    kept = active[:, None] & links.senders.of(active)
    others = ~links.senders.own(active.shape[0])
    removed = jnp.sum(jnp.where(others & ~kept, links.mix, 0), axis=1)
    partner, server, audible = links.partner, links.server, links.channel.audible
    if partner is not None:
        partner = jnp.where(active & active[partner], partner, me.astype(partner.dtype))
    if stay:
        audible = links.audible
    elif audible is not None:
        audible = audible & kept
    among = links._replace(
        adjacency=links.adjacency & kept,
        mix=jnp.where(others & ~kept, 0, links.mix) + links.senders.on_own(removed),
        partner=partner,
        server=server and server._replace(now=server.now & active),
        extra=links.extra if stay else tuple(extra.among(kept, active) for extra in links.extra),
    )
    return among.of_channel(audible=audible)


def takes_part(links: Links) -> jax.Array:
    """Return [N] bool, the clients that take part in the round."""
    return jnp.ones(links.num_clients, bool) if links.active is None else links.active


def in_round(algorithm: Algorithm, links: Links) -> Algorithm:
    """Return the algorithm as it computes a round with these links: changed by the wrappers, for the active clients.

    An inactive client keeps its rows of the state and sends no message. Its recorded loss is the loss of the kept
    model. Parts of the state without a row for each client, such as a server's model, are those after the round.
    """
    if links.active is not None:
        algorithm = _of_active(algorithm, links.active)
    for extra in reversed(links.extra):  # the first wrapper is the outermost
        algorithm = extra.around(algorithm)
    return algorithm


def _of_active(algorithm: Algorithm, active: jax.Array) -> Algorithm:
    def do_round(hparams: Any, state: Any, links: Links, context: RoundContext) -> tuple[Any, RoundStats]:
        following, stats = algorithm.round(hparams, state, links, context)
        messages, bits = jax.tree.map(lambda count: jnp.where(active, count, 0), (stats.messages, stats.bits))
        stats = computed_by(active, stats._replace(messages=messages, bits=bits))
        return where_moving(active, following, state), stats

    return algorithm._replace(round=do_round)


def where_moving(moves: jax.Array, following: Any, state: Any, of_all: bool = True) -> Any:
    """Return an algorithm's state in which only the rows of some clients, [N] bool, have changed.

    Args:
      moves: the clients whose rows change.
      following: the state after the change.
      state: the state before.
      of_all: whether parts of the state without a row for each client change, too.
    """

    def chosen(of_client: bool, new: jax.Array, old: jax.Array) -> jax.Array:
        if not of_client:
            return new if of_all else old
        return jnp.where(rows_like(moves, new), new, old)

    return jax.tree.map(chosen, stacked(following, moves.shape[0]), following, state)


def computed_by(clients: jax.Array, stats: RoundStats) -> RoundStats:
    """Return the statistics of a round in which at most these clients, [N] bool, computed gradients."""
    computed = stats.report.computed
    return stats._replace(report=stats.report._replace(computed=clients if computed is None else clients & computed))


def gradient_of(clients: jax.Array, gradient: Gradient) -> Gradient:
    """Return the gradient function of some clients, [N] bool; the gradients of the others are zero.

    A task whose gradient has the argument ``only`` (`Task.gradient`) does not compute the others.
    """
    if contract.has_argument(gradient, "only"):
        return functools.partial(gradient, only=clients)
    return gradient_without(~clients, gradient)


def gradient_without(clients: jax.Array, gradient: Gradient) -> Gradient:
    """Return the gradient function with zero gradients for some clients, [N] bool."""

    @functools.wraps(gradient)
    def of_others(*args: Any, **more: Any) -> tuple[jax.Array, Any]:
        loss, found = gradient(*args, **more)
        return loss, where_rows(clients, jax.tree.map(jnp.zeros_like, found), found)

    return of_others


def heard_links(links: Links, stats: RoundStats) -> Links:
    """Return the links of a round over which messages were received (`RoundStats.heard`).

    Args:
      links: the links of the round.
      stats: the statistics of the round.
    """
    heard = stats.heard
    if heard is None:
        return links_of_speakers(links, stats.messages)
    server = links.server if heard.server is None else Meetings(heard.server.now)
    channel = Channel(rate=links.channel.rate, bits=heard.channel.bits)
    return Links(heard.adjacency, links.mix, heard.senders, server=server, channel=channel)


def links_of_speakers(links: Links, messages: jax.Array) -> Links:
    """Return the links of all clients that sent messages, [N]: each message goes over all links of its sender."""
    speaks = links.senders.of(messages > 0)
    return links._replace(adjacency=links.adjacency & speaks, partner=None).of_channel(audible=None)
