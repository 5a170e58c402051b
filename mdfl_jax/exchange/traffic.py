"""The traffic of a server and relays: messages by kind, and their bits (as in `mdfl_jax.core.message_bits`)."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core.message_bits import Bits, add_bits, count_bits, no_bits, total_bits, words
from mdfl_jax.core.metric import CLIENTS, HOLDS, Metric, record
from mdfl_jax.exchange.relay import Relays


class Traffic(NamedTuple):
    """The messages of each client by kind, and their bits. Uploads and downloads are whole models of one size.

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
    uploads: jax.Array, downloads: jax.Array, relays: Relays, update_bits: jax.Array | int, model_bits: int
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
    return Traffic(
        uploads=a.uploads + b.uploads,
        downloads=a.downloads + b.downloads,
        relayed_updates=a.relayed_updates + b.relayed_updates,
        relayed_models=a.relayed_models + b.relayed_models,
        direct_bits=add_bits(a.direct_bits, b.direct_bits),
        relayed_bits=add_bits(a.relayed_bits, b.relayed_bits),
    )


def _messages(at: Any, kind: str) -> jax.Array:
    """Return [N] int32, the messages of one kind, for an algorithm whose state has a field ``traffic``."""
    return getattr(at.algorithm_state.traffic, kind)


def _bits(at: Any, kind: str) -> jax.Array:
    """Return [N, 2] uint32, the bits of one kind, in the form of `mdfl_jax.core.message_bits.words`."""
    return words(getattr(at.algorithm_state.traffic, kind))


_OF_BITS: dict[str, Any] = {"shape": (CLIENTS, 2), "unit": "bits", "on_host": total_bits, "scale": 1e6}

TRAFFIC_METRICS = (
    Metric("uploads", partial(_messages, kind="uploads"), HOLDS, unit="messages"),
    Metric("downloads", partial(_messages, kind="downloads"), HOLDS, unit="messages"),
    Metric("relayed_updates", partial(_messages, kind="relayed_updates"), HOLDS, unit="messages"),
    Metric("relayed_models", partial(_messages, kind="relayed_models"), HOLDS, unit="messages"),
    Metric("direct_bits", partial(_bits, kind="direct_bits"), HOLDS, **_OF_BITS),
    Metric("relayed_bits", partial(_bits, kind="relayed_bits"), HOLDS, **_OF_BITS),
)
"""The fields of `Traffic`, counted since the start, as metrics of an algorithm whose state has a field ``traffic``."""


def _upload_carrier(view: Any) -> jax.Array:
    """Return [N] int16, the relay that took each client's update in a round; -1 where none did."""
    relays: Relays = view.stats.details
    return jnp.where(relays.gives, relays.to, -1)


def _download_carrier(view: Any) -> jax.Array:
    """Return [N] int16, the relay from which each client took a model in a round; -1 where it took none."""
    relays: Relays = view.stats.details
    return jnp.where(relays.takes, relays.source, -1)


RELAYED_UPLOAD = record("relay_upload", _upload_carrier, -1, dtype="int16")
"""The record of the relayed updates, of an algorithm whose `RoundStats.details` are `Relays`."""

RELAYED_DOWNLOAD = record("relay_download", _download_carrier, -1, dtype="int16")
"""The record of the relayed models."""
