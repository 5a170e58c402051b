"""Which clients move: the first M in any order, or those with the most or the least data, or in the middle or outside.

The papers let the first M clients move. Data and places are drawn without regard to a client's number, so these are M
clients at random.
"""

import jax
import jax.numpy as jnp

MOVERS = ("first", "most_data", "least_data", "most_central", "least_central")


def moving(choice: jax.Array, num_mobile: jax.Array, samples: jax.Array, place: jax.Array) -> jax.Array:
    """Choose the clients that move.

    Args:
      choice: [] int32, an index of `MOVERS`. Central is who is near the mean of all first places, and so has the
        smallest mean squared distance from all clients.
      num_mobile: [] int32, M.
      samples: [N] int32, the samples of each client.
      place: [N, D] float32, the first places.

    Returns:
      [N] bool, true for M clients. Of equal ones the first are taken.
    """
    outside = jnp.sum(jnp.square(place - jnp.mean(place, axis=0)), axis=1)
    data = samples.astype(outside.dtype)
    scores = jnp.stack([jnp.zeros_like(data), data, -data, -outside, outside])
    order = jnp.argsort(-scores[jnp.asarray(choice, jnp.int32)], stable=True)
    return jnp.zeros(len(samples), bool).at[order].set(jnp.arange(len(samples)) < num_mobile)
