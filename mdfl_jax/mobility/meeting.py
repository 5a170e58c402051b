"""What clients know under ``dam_met`` and ``dcm_met``: the state of these rules, and when a client knows enough."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.mobility.grid import GridClient, GridWorld


class Centres(NamedTuple):
    """The cluster centres of the static clients that each client knows.

    Attributes:
      chosen: [N, L] bool, the centres as each client last computed them; for many clients, [N, L / 32] uint32 bits.
      stale: [N] bool, true where a client has met somebody new since then, or has never computed its centres.
      ties: data of the key that breaks random ties. All clients share it, so that clients that know the same static
        clients choose the same centres.
    """

    chosen: jax.Array
    stale: jax.Array
    ties: jax.Array


class Knowledge(NamedTuple):
    """The clients, and which static clients each of them knows.

    Attributes:
      clients: the clients, as under every rule of the grid.
      met: [N, N] bool, true where the mobile client i knows the static client j, false elsewhere; for many clients,
        [N, N / 32] uint32 bits.
      centres: the cluster centres, where these are the destinations; None where all grid points are.
    """

    clients: GridClient
    met: jax.Array
    centres: Centres | None


def met_enough(world: GridWorld, num_met: jax.Array) -> jax.Array:
    """Find the clients that have met enough static clients to end their warm-up.

    Without static clients everybody has met enough.

    Args:
      world: the grid world, which holds the number ``warm_up_met``.
      num_met: [N] int32, how many static clients each client knows.

    Returns:
      [N] bool, true where the warm-up is over.
    """
    num_static = jnp.sum(~world.is_mobile)
    share = world.numbers.warm_up_met * num_static * (1 - 1e-6)  # 0.2 * 15 must be 3, not slightly more
    return num_met >= jnp.maximum(share, jnp.minimum(num_static, 1))
