"""Who relays for whom: search intervals, and the clients that qualify in them (FedMobile 4.1 and 4.2).

An upload from i to j: i sends its cumulative update to j, which meets the server sooner. A download of i from j: i
takes the global model of j, which met the server later. A slot's exchanges are of what clients hold when the slot's
meetings with the server are over, all at once, so that nothing travels two links in a slot.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.rows import rows_like
from mdfl_jax.types import BEFORE, NEVER, Array, Links


class Meetings(NamedTuple):
    """Meetings with the server, as a slot's links tell them.

    Attributes:
      now: [N] bool.
      last: [N] int32 slot of the last one, this slot's included; -1 before the first.
      following: [N] int32 slot of the next one, after this slot.
    """

    now: jax.Array
    last: jax.Array
    following: jax.Array


def meetings_of(links: Links, num_clients: int) -> Meetings:
    """The meetings of a slot; on a network without a server nobody ever meets it."""
    if links.at_server is None or links.last_server is None or links.next_server is None:
        nobody = jnp.zeros(num_clients, jnp.int32)
        return Meetings(nobody > 0, nobody + BEFORE, nobody + NEVER)
    return Meetings(links.at_server, jnp.maximum(links.last_server, BEFORE), links.next_server)


class Search(NamedTuple):
    """Search intervals, in slots, one for all or [N]; in the paper's letters theta, Theta, omega, Omega.

    Attributes:
      upload_from: of updates, from last + theta
      upload_until: to last + Theta.
      download_from: of models, to next - omega
      download_until: from next - Omega.
    """

    upload_from: Array
    upload_until: Array
    download_from: Array
    download_until: Array


class Relays(NamedTuple):
    """The exchanges of a slot.

    Attributes:
      gives: [N] bool, whose update is relayed; it is sent once.
      to: [N] int32 to whom; a client's own index where it gives nothing.
      takes: [N] bool, who takes a model.
      source: [N] int32 from whom; a client's own index where it takes none.
    """

    gives: jax.Array
    to: jax.Array
    takes: jax.Array
    source: jax.Array


def upload_relay(
    slot: jax.Array, search: Search, last: jax.Array, following: jax.Array, relay_following: jax.Array
) -> jax.Array:
    """Where a client is a qualified upload relay (FedMobile 4.1): last_i + theta <= t <= last_i + Theta,
    next_j <= last_i + Theta and next_j < next_i.

    Args:
      slot: t.
      search: its upload interval, of i.
      last: of i, with what ``following`` broadcasts to.
      following: next meetings of i.
      relay_following: next meetings of j.
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
    """Where a client is a qualified download relay (FedMobile 4.2): next_i - Omega <= t <= next_i - omega,
    last_j >= next_i - Omega and last_j > last_i.

    With several downloads in an interval (FedMobile 6) i may have a model that is as fresh by then, so j's must be of
    a later slot as well, psi_j > psi_i; for the first download of an interval that follows from the rest.

    Args:
      slot: t.
      search: its download interval, of i.
      last: of i.
      following: next meetings of i.
      version: psi of i, the slot of its global model.
      relay_last: last meetings of j.
      relay_version: psi of j.
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
    """The exchanges of a slot: with a client's partner, or, where it can talk to several, with one of them.

    Of several qualified relays, updates go to the one that meets the server next, and models come from the one of the
    latest version; among equals the first.

    Args:
      slot: [] int32 t.
      search: the intervals.
      links: of the slot.
      meetings: with the server.
      version: [N] int32 psi.
      may_give: [N] bool, whose uploads of the interval are not used up.
      may_take: [N] bool, the same of downloads.
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
    i = lambda x: x[:, None]  # noqa: E731
    up = links.adjacency.T & upload_relay(slot, rows, i(last), i(following), following)
    down = links.adjacency & download_relay(slot, rows, i(last), i(following), i(version), last, version)
    soonest = jnp.argmin(jnp.where(up, following, jnp.iinfo(jnp.int32).max), axis=1).astype(jnp.int32)
    freshest = jnp.argmax(jnp.where(down, version, jnp.iinfo(jnp.int32).min), axis=1).astype(jnp.int32)
    gives, takes = jnp.any(up, axis=1) & may_give, jnp.any(down, axis=1) & may_take
    return Relays(gives, jnp.where(gives, soonest, me), takes, jnp.where(takes, freshest, me))


def handed_over(leaf: jax.Array, sent: jax.Array, relays: Relays, partner: jax.Array | None) -> jax.Array:
    """What relays receive is added to a stacked leaf (COMBINE, FedMobile 4.1): leaf_j + the sum of sent_i over i -> j.

    Args:
      leaf: [N, ...] what clients hold, those that give having reset it.
      sent: [N, ...] what those that give send.
      relays: of the slot.
      partner: [N] int32 where links are pairs: then it is one gather, else a sum by receiver.
    """
    if partner is None:
        return leaf.at[relays.to].add(jnp.where(rows_like(relays.gives, sent), sent, 0))
    gets = relays.gives[partner] & (relays.to[partner] == jnp.arange(partner.shape[0]))
    return leaf + jnp.where(rows_like(gets, sent), sent[partner], 0)
