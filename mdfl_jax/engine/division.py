"""How the run of a key divides the data among its clients."""

from typing import Any

import jax
import jax.numpy as jnp

from mdfl_jax.core.client_padding import Held
from mdfl_jax.core.parts import Parts
from mdfl_jax.core.rng import stream
from mdfl_jax.core.types import Hparams


def divided(parts: Parts, data: Any, hparams: Hparams, key: jax.Array) -> Any:
    """Return the data of the clients in the run of a key, from ``Task.partition``; the run itself is not needed.

    Args:
      parts: the parts of the simulation.
      data: the task's data.
      hparams: the numbers of the run.
      key: the seed's key.
    """
    places = _first_places(parts, hparams, key)
    return parts.task.partition(data, hparams.task, stream(key, "partition"), *places)


def owner(parts: Parts, data: Any, hparams: Hparams, key: jax.Array) -> jax.Array:
    """Return the client that holds each training sample in the run of a key, [n] int32; -1 for nobody."""
    assert parts.task.owner is not None
    places = _first_places(parts, hparams, key)
    return parts.task.owner(data, hparams.task, stream(key, "partition"), *places)


def _first_places(parts: Parts, hparams: Hparams, key: jax.Array) -> tuple[jax.Array, ...]:
    """Return the places before the first round, [N, 2], for a task that divides the data by them, else nothing.

    The network is given clients that all hold one sample of one label. The places do not depend on the data, so they
    are those of the run.
    """
    num_clients, network = parts.task.num_clients, parts.network
    if not parts.task.by_place:
        return ()
    nothing_known = Held(jnp.ones(num_clients, jnp.int32), jnp.ones((num_clients, 1), jnp.int32))
    return (network.places(network.init(hparams.network, key, nothing_known)).position,)
