"""Radios: a radius a client, and links that fail at random."""

import jax
import jax.numpy as jnp


def draw_radii(key: jax.Array, radius: jax.Array, spread: jax.Array, num_clients: int) -> jax.Array:
    """A radius a client, uniform in [1 - spread, 1 + spread] times the given one.

    Args:
      key: typed key.
      radius: one for all or [N].
      spread: in [0, 1]; 0 leaves the radius as it is.
      num_clients: N.

    Returns:
      [N].
    """
    factor = 1 + spread * jax.random.uniform(key, (num_clients,), minval=-1.0, maxval=1.0)
    radius = jnp.asarray(radius, jnp.float32)
    return jnp.where(jnp.isinf(radius), radius, radius * factor)  # infinity times 0 is no radius


def failure_probability(
    squared_distance: jax.Array, radius: jax.Array, failure: jax.Array, fading: jax.Array
) -> jax.Array:
    """Probability that a link fails in one direction: failure + fading (d / R)^2, at most 1.

    Args:
      squared_distance: [N, N] d^2, the smallest of the round where contact is swept.
      radius: [] or [N, N] R, the distance up to which the two hear each other.
      failure: probability at no distance.
      fading: what is added to it at distance R.

    Returns:
      [N, N].
    """
    share = squared_distance / jnp.maximum(jnp.square(radius), jnp.finfo(jnp.float32).tiny)
    return jnp.clip(failure + fading * jnp.clip(share, 0, 1), 0, 1)


def surviving(key: jax.Array, contact: jax.Array, probability: jax.Array) -> jax.Array:
    """The links that hold, drawn for each direction on its own: [N, N] bool, [i, j] where i hears j.

    Args:
      key: typed key of the round.
      contact: [N, N] bool.
      probability: [N, N] or [] that a link fails; 0 never does, 1 always.
    """
    return contact & (jax.random.uniform(key, contact.shape) >= probability)
