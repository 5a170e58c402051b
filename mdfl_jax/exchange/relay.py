"""Relays between clients: search intervals, and the clients that qualify as relays in them (FedMobile 4.1 and 4.2).

In an upload from i to j, client i sends its cumulative update to j, which meets the server sooner. In a download of i
from j, client i takes the global model of j, which met the server more recently. All exchanges of a slot happen at
once, with the updates and models that clients hold after the slot's meetings with the server. So no update or model
passes two links in one slot.

**Compressed updates** (appendix E). A client's private update n_i is the sum of its own local steps since it last sent
an update. When the client gives its cumulative update m_i to a relay, it replaces n_i by C(n_i). So it sends m_i + eps
with eps = C(n_i) - n_i, and keeps m_i = -eps and n_i = 0. The client's next upload to the server corrects the error, so
nothing is lost.

**Automatic search intervals.** The bound of FedMobile's theorem 1 is smaller for a smaller C = max(Delta - theta,
Theta), and by proposition 1 the middle of an interval should be Delta / 2. But the theorem assumes that a relay is met
in every interval, and by proposition 2 a longer interval makes this more likely. Both results together give the length:

Let Delta be a client's gap between two meetings (it knows or expects its next meeting). Let rho be its probability to
meet another client in a slot, and let the interval be [(1 - u) Delta / 2, (1 + u) Delta / 2]. If the client meets a
relay in the interval, the server lacks no step that is older than C = (1 + u) Delta / 2 slots; otherwise, none that is
older than Delta.

A relay met s slots before the end of the interval is in time if its own next meeting is at most s slots away. For a
random client of a renewal process with gaps near Delta this has probability s / Delta. So the interval has no relay
with probability prod (1 - rho s / Delta), about exp(-rho (u Delta)^2 / (2 Delta)) = exp(-k u^2) with k = rho Delta / 2.

The mean of the bound, Delta - (1 - exp(-k u^2)) (1 - u) Delta / 2, is smallest where 2 k u (1 - u) = exp(k u^2) - 1.
This equation has one root in (0, 2/3]. The root u tends to 2/3 if contacts are rare, and to 0 if they are very
frequent. By the symmetry of lemmas 1 and 2 the same interval, counted back from the next meeting, is used for
downloads.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core.links import Senders
from mdfl_jax.core.message_bits import Bits, add_bits, as_bits, count_bits, dense_bits, no_bits, total_bits, words
from mdfl_jax.core.metric import CLIENTS, HOLDS, Metric, record
from mdfl_jax.core.numbers import Numbers
from mdfl_jax.core.sharding import choose
from mdfl_jax.core.trees import ravel, rows_like
from mdfl_jax.core.types import BEFORE, NEVER, Array, ClientParams, Links, Meetings
from mdfl_jax.exchange.compressors import COMPRESSORS, bits_of, compressed

_HALVINGS = 16  # bisection steps; the interval, measured in slots, is then exact to 2/3 / 2^16 of a gap


def meetings_of(links: Links) -> Meetings:
    """Read the meetings from the links of a slot, on a network with a server."""
    assert links.server is not None
    return links.server._replace(last=jnp.maximum(links.server.last, BEFORE))


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

    Client j qualifies if last_i + theta <= t <= last_i + Theta, next_j <= last_i + Theta and next_j < next_i.

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

    Client j qualifies if next_i - Omega <= t <= next_i - omega, last_j >= next_i - Omega and last_j > last_i.

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
      partner: [N] int32 if links are pairs: one gather is then enough; None for a sum by receiver.

    Returns:
      [N, ...] the updates held after the exchange.
    """
    if partner is None:
        return leaf.at[relays.to].add(jnp.where(rows_like(relays.gives, sent), sent, 0))
    gets = relays.gives[partner] & (relays.to[partner] == jnp.arange(partner.shape[0]))
    return leaf + jnp.where(rows_like(gets, sent), sent[partner], 0)


def relayed(relays: Relays, senders: Senders) -> jax.Array:
    """Return [N, K] bool, who received from whom in a slot: relays their updates, clients their relays' models."""
    me = jnp.arange(relays.to.shape[0], dtype=jnp.int32)[:, None]
    updates = senders.of(relays.gives) & (senders.of(relays.to) == me)
    return updates | (relays.takes[:, None] & (senders.of(me[:, 0]) == relays.source[:, None]))


class Private(NamedTuple):
    """The state that clients keep for the compression.

    Attributes:
      update: [N, ...] n_i.
      mixed: [N] bool, whether m_i holds more than n_i: updates of others, or an earlier error of its own.
    """

    update: ClientParams
    mixed: jax.Array


def no_private(client_params: ClientParams) -> Private:
    """Return the state before the first local step, for models ``client_params`` [N, ...]: all n_i are zero."""
    num_clients = jax.tree.leaves(client_params)[0].shape[0]
    return Private(jax.tree.map(jnp.zeros_like, client_params), jnp.zeros(num_clients, bool))


def manipulate(
    compressor: str, numbers: Numbers, key: jax.Array, private: Private, relays: Relays
) -> tuple[ClientParams, Bits]:
    """Compress the private updates of a slot, and count the bits of relayed updates.

    Args:
      compressor: a name of `COMPRESSORS`.
      numbers: the compressor's numbers.
      key: the key of the slot's random draws.
      private: the state before the slot's exchanges.
      relays: the exchanges of the slot. If no client gives an update, nothing is compressed (except on a mesh).

    Returns:
      (eps [N, ...], the bits of a relayed update, [N]). The bits are those of C(n_i) where m_i = n_i. Otherwise they
      are those of a whole model, since the message also holds updates of others or an earlier error.
    """
    rule, whole = COMPRESSORS[compressor], as_bits(dense_bits(private.update))

    def make() -> tuple[ClientParams, Bits]:
        rows, unravel = ravel(private.update)
        message = compressed(rule, numbers, key, rows)
        bits = bits_of(rule, numbers, message)
        return unravel(message.value - rows), jax.tree.map(partial(jnp.where, private.mixed), whole, bits)

    def nothing() -> tuple[ClientParams, Bits]:
        bits = Bits(*(jnp.full(private.mixed.shape, word) for word in whole))
        return jax.tree.map(jnp.zeros_like, private.update), bits

    return choose(jnp.any(relays.gives), make, nothing)


def after_exchange(private: Private, uploads: jax.Array, relays: Relays) -> Private:
    """Return the state after a slot's exchanges: n_i is zero where it was uploaded or relayed; ``mixed`` is updated.

    Args:
      private: the state before the exchanges.
      uploads: [N] bool, the clients that uploaded to the server.
      relays: the exchanges of the slot; a client that gave its update keeps an error.
    """
    gets = jnp.zeros_like(private.mixed).at[relays.to].max(relays.gives)
    clear = uploads | relays.gives
    update = jax.tree.map(lambda n: jnp.where(rows_like(clear, n), 0, n), private.update)
    return Private(update, (private.mixed & ~clear) | relays.gives | gets)


def best_share(rate: Array) -> jax.Array:
    """Return the share u of a gap that is searched: the root in (0, 2/3] of 2 k u (1 - u) = exp(k u^2) - 1.

    Args:
      rate: k = rho Delta / 2 > 0, half the mean number of slots with a contact in a gap; any shape.

    Returns:
      u, float32, of the shape of ``rate``.

    >>> [round(float(best_share(k)), 3) for k in (1e-3, 1.0, 10.0, 1000.0)]
    [0.667, 0.621, 0.421, 0.07]
    """
    k = jnp.asarray(rate, jnp.float32)

    def halve(_: int, bounds: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = bounds
        u = (low + high) / 2
        too_long = jnp.expm1(k * u * u) > 2 * k * u * (1 - u)
        return jnp.where(too_long, low, u), jnp.where(too_long, u, high)

    low, high = jax.lax.fori_loop(0, _HALVINGS, halve, (jnp.zeros_like(k), jnp.full_like(k, 2 / 3)))
    return (low + high) / 2


def automatic(meetings: Meetings, contacts: jax.Array, slot: jax.Array) -> Search:
    """Compute the search intervals of each client in this slot.

    rho is estimated as (contacts + 1) / (slots + 2), the posterior mean under a uniform prior.

    Args:
      meetings: the meetings with the server. The gap of a client is the time from its last to its next meeting. A
        client whose next meeting is not known has the mean gap of the other clients.
      contacts: [N] int32 slots so far, including this one, in which the client met another client.
      slot: [] int32, from 0.

    Returns:
      The intervals, [N] int32 each.
    """
    known = meetings.following < NEVER
    gap = jnp.where(known, meetings.following - meetings.last, 0).astype(jnp.float32)
    mean = jnp.sum(gap) / jnp.maximum(jnp.sum(known), 1)
    gap = jnp.where(known, gap, mean)
    share = best_share((contacts + 1) / (slot + 3) * gap / 2)
    begin = jnp.floor((1 - share) * gap / 2).astype(jnp.int32)
    end = jnp.ceil((1 + share) * gap / 2).astype(jnp.int32)
    return Search(begin, end, begin, end)


class Traffic(NamedTuple):
    """The messages of each client by kind, and their bits. Each upload or download is one whole model.

    Attributes:
      uploads: [N] int32 messages from client i to the server.
      downloads: [N] int32 messages from the server to client i.
      relayed_updates: [N] int32 messages with an update, from client i to a relay.
      relayed_models: [N] int32 messages with a model, from client i as a relay to others.
      direct_bits: the bits of uploads and downloads.
      relayed_bits: the bits of the relayed updates and models that client i sent.
    """

    uploads: jax.Array
    downloads: jax.Array
    relayed_updates: jax.Array
    relayed_models: jax.Array
    direct_bits: Bits
    relayed_bits: Bits

    @property
    def messages(self) -> jax.Array:
        """All messages, [N] int32. A download from the server counts for the client that receives it."""
        return self.uploads + self.downloads + self.relayed_updates + self.relayed_models

    @property
    def bits(self) -> Bits:
        """The bits of all messages."""
        return add_bits(self.direct_bits, self.relayed_bits)


def no_traffic(num_clients: int) -> Traffic:
    """Return counts of zero for N clients."""
    zero, none = jnp.zeros(num_clients, jnp.int32), no_bits(num_clients)
    return Traffic(zero, zero, zero, zero, none, none)


def slot_traffic(
    uploads: jax.Array, downloads: jax.Array, relays: Relays, update_bits: Bits, model_bits: int
) -> Traffic:
    """Count the messages of one slot.

    Args:
      uploads: [N] bool, the clients that upload to the server.
      downloads: [N] bool, the clients that download from the server.
      relays: the slot's exchanges between clients.
      update_bits: the bits of a relayed update, one number for all clients or [N].
      model_bits: the bits of a whole model.

    Returns:
      The counts of this slot, [N].
    """
    models = jnp.zeros(uploads.shape, jnp.int32).at[relays.source].add(relays.takes.astype(jnp.int32))
    up, down, updates = (mask.astype(jnp.int32) for mask in (uploads, downloads, relays.gives))
    relayed = add_bits(count_bits(updates, update_bits), count_bits(models, model_bits))
    return Traffic(up, down, updates, models, count_bits(up + down, model_bits), relayed)


def add_traffic(a: Traffic, b: Traffic) -> Traffic:
    """Return the sum of two traffic counts."""
    uploads, downloads, updates, models = (x + y for x, y in zip(a[:4], b[:4]))
    direct, relayed = add_bits(a.direct_bits, b.direct_bits), add_bits(a.relayed_bits, b.relayed_bits)
    return Traffic(uploads, downloads, updates, models, direct, relayed)


def _messages(at: Any, kind: str) -> jax.Array:
    """Return [N] int32, the messages of one kind, for an algorithm whose state has a field ``traffic``."""
    return getattr(at.algorithm_state.traffic, kind)


def _bits(at: Any, kind: str) -> jax.Array:
    """Return [N, 2] uint32, the bits of one kind, in the form of `mdfl_jax.core.message_bits.words`."""
    return words(getattr(at.algorithm_state.traffic, kind))


_OF_BITS: dict[str, Any] = {"shape": (CLIENTS, 2), "unit": "bits", "on_host": total_bits, "scale": 1e6}

TRAFFIC_METRICS = tuple(
    Metric(kind, partial(_bits, kind=kind), HOLDS, **_OF_BITS)
    if kind.endswith("bits")
    else Metric(kind, partial(_messages, kind=kind), HOLDS, unit="messages")
    for kind in Traffic._fields
)
"""The fields of `Traffic`, counted since the start, as metrics of an algorithm whose state has a field ``traffic``."""


def _carrier(view: Any, sends: str, by: str) -> jax.Array:
    """Return [N] int16, the relay of each client in a round; -1 for a client without one."""
    relays: Relays = view.stats.report.details
    return jnp.where(getattr(relays, sends), getattr(relays, by), -1)


RELAYED_UPLOAD = record("relay_upload", partial(_carrier, sends="gives", by="to"), -1, dtype="int16")
"""The record of the relayed updates, of an algorithm whose `Report.details` are `Relays`."""

RELAYED_DOWNLOAD = record("relay_download", partial(_carrier, sends="takes", by="source"), -1, dtype="int16")
"""The record of the relayed models."""
