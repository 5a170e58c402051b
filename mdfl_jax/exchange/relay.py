"""Relays between clients: search intervals, and the clients that qualify as relays in them (FedMobile 4.1 and 4.2).

In an upload from i to j, client i sends its cumulative update to j, which meets the server sooner. In a download of i
from j, client i takes the global model of j, which met the server later. All exchanges of a slot happen at once, with
what clients hold after the slot's meetings with the server. So nothing is sent over two links in one slot.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core.trees import rows_like
from mdfl_jax.core.types import BEFORE, NEVER, Array, Links


class Meetings(NamedTuple):
    """The clients' meetings with the server, as seen in one slot.

    Attributes:
      now: [N] bool, whether the client meets the server in this slot.
      last: [N] int32 the slot of the last meeting, including this slot; -1 before the first meeting.
      following: [N] int32 the slot of the next meeting after this slot.
    """

    now: jax.Array
    last: jax.Array
    following: jax.Array


def meetings_of(links: Links, num_clients: int) -> Meetings:
    """Read the meetings from a slot's links. On a network without a server no client ever meets it."""
    if links.at_server is None or links.last_server is None or links.next_server is None:
        nobody = jnp.zeros(num_clients, jnp.int32)
        return Meetings(nobody > 0, nobody + BEFORE, nobody + NEVER)
    return Meetings(links.at_server, jnp.maximum(links.last_server, BEFORE), links.next_server)


class Search(NamedTuple):
    """The search intervals in slots; each field is one number for all clients, or [N].

    Updates are relayed in the slots last + theta .. last + Theta, and models in next - Omega .. next - omega, where
    last and next are the slots of the client's last and next meetings with the server.

    Attributes:
      upload_from: theta.
      upload_until: Theta.
      download_from: omega.
      download_until: Omega.
    """

    upload_from: Array
    upload_until: Array
    download_from: Array
    download_until: Array


class Relays(NamedTuple):
    """The exchanges of a slot.

    Attributes:
      gives: [N] bool, the clients that send their update to a relay; each update is sent once.
      to: [N] int32 the relay that receives the update; a client's own index where it gives nothing.
      takes: [N] bool, the clients that take a model from a relay.
      source: [N] int32 the relay that sends the model; a client's own index where it takes none.
    """

    gives: jax.Array
    to: jax.Array
    takes: jax.Array
    source: jax.Array


def upload_relay(
    slot: jax.Array, search: Search, last: jax.Array, following: jax.Array, relay_following: jax.Array
) -> jax.Array:
    """Return whether client j is a qualified upload relay of client i (FedMobile 4.1).

    It is if last_i + theta <= t <= last_i + Theta, next_j <= last_i + Theta and next_j < next_i.

    Args:
      slot: t.
      search: the search intervals of i.
      last: the slots of the last meetings of i.
      following: the slots of the next meetings of i.
      relay_following: the slots of the next meetings of j.

    Returns:
      bool, of the shape to which the arguments broadcast.
    """
    end = last + search.upload_until
    searches = (last + search.upload_from <= slot) & (slot <= end)
    return searches & (relay_following <= end) & (relay_following < following)


def download_relay(
    slot: jax.Array,
    search: Search,
    last: jax.Array,
    following: jax.Array,
    version: jax.Array,
    relay_last: jax.Array,
    relay_version: jax.Array,
) -> jax.Array:
    """Return whether client j is a qualified download relay of client i (FedMobile 4.2).

    It is if next_i - Omega <= t <= next_i - omega, last_j >= next_i - Omega and last_j > last_i.

    If an interval may have several downloads (FedMobile 6), client i may already have a model as recent as the one of
    j. So the model of j must also be of a later slot, psi_j > psi_i. For the first download of an interval this follows
    from the other conditions.

    Args:
      slot: t.
      search: the search intervals of i.
      last: the slots of the last meetings of i.
      following: the slots of the next meetings of i.
      version: psi_i, the slots of the global models of i.
      relay_last: the slots of the last meetings of j.
      relay_version: psi_j, the slots of the global models of j.

    Returns:
      bool, of the shape to which the arguments broadcast.
    """
    begin = following - search.download_until
    searches = (begin <= slot) & (slot <= following - search.download_from)
    return searches & (relay_last >= begin) & (relay_last > last) & (relay_version > version)


def find(
    slot: jax.Array,
    search: Search,
    links: Links,
    meetings: Meetings,
    version: jax.Array,
    may_give: jax.Array,
    may_take: jax.Array,
) -> Relays:
    """Find the exchanges of a slot: with a client's partner where links are pairs, else with one of its neighbours.

    Of several qualified relays, the one that meets the server next gets the update, and the one with the latest version
    gives the model. Among equals it is the first.

    Args:
      slot: [] int32 t.
      search: the search intervals.
      links: the links of the slot.
      meetings: the meetings with the server.
      version: [N] int32 psi, the slots of the clients' global models.
      may_give: [N] bool, the clients that may still upload by relay before their next meeting with the server.
      may_take: [N] bool, the same for downloads by relay.

    Returns:
      The exchanges.
    """
    me, partner = jnp.arange(version.shape[0], dtype=jnp.int32), links.partner
    last, following = meetings.last, meetings.following
    if partner is not None:
        other = partner != me
        up = other & upload_relay(slot, search, last, following, following[partner])
        down = download_relay(slot, search, last, following, version, last[partner], version[partner])
        gives, takes = up & may_give, other & down & may_take
        return Relays(gives, jnp.where(gives, partner, me), takes, jnp.where(takes, partner, me))

    rows = Search(*(jnp.asarray(field)[:, None] if jnp.ndim(field) else field for field in search))
    i, senders = lambda x: x[:, None], links.senders
    after, before, latest = (senders.of(x) for x in (following, last, version))
    up = senders.opposite(links.adjacency) & upload_relay(slot, rows, i(last), i(following), after)
    down = links.adjacency & download_relay(slot, rows, i(last), i(following), i(version), before, latest)
    soonest = senders.at(jnp.argmin(jnp.where(up, after, jnp.iinfo(jnp.int32).max), axis=1))
    freshest = senders.at(jnp.argmax(jnp.where(down, latest, jnp.iinfo(jnp.int32).min), axis=1))
    gives, takes = jnp.any(up, axis=1) & may_give, jnp.any(down, axis=1) & may_take
    return Relays(gives, jnp.where(gives, soonest, me), takes, jnp.where(takes, freshest, me))


def handed_over(leaf: jax.Array, sent: jax.Array, relays: Relays, partner: jax.Array | None) -> jax.Array:
    """Add the received updates to a stacked leaf (COMBINE, FedMobile 4.1): leaf_j + the sum of sent_i over i -> j.

    Args:
      leaf: [N, ...] the updates that clients hold, already reset for the clients that give.
      sent: [N, ...] the updates that the giving clients send.
      relays: the exchanges of the slot.
      partner: [N] int32 where links are pairs, so that one gather is enough; None for a sum by receiver.

    Returns:
      [N, ...] the updates held after the exchange.
    """
    if partner is None:
        return leaf.at[relays.to].add(jnp.where(rows_like(relays.gives, sent), sent, 0))
    gets = relays.gives[partner] & (relays.to[partner] == jnp.arange(partner.shape[0]))
    return leaf + jnp.where(rows_like(gets, sent), sent[partner], 0)
