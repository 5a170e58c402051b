"""What the networks with a server share: slots of meetings, known or expected, and pairs of clients (FedMobile 3)."""

import jax
import jax.numpy as jnp

from mdfl_jax.types import BEFORE, NEVER, Links


def expected_next(last: jax.Array, mean: jax.Array, slot: jax.Array) -> jax.Array:
    """[N] int32 slots of the next meetings as expected: a mean gap after the last, and after this slot in any case.

    Args:
      last: [N] int32 last meetings.
      mean: mean gap, one for all or [N], in slots; ``inf`` where nothing is known of it.
      slot: [] int32.

    >>> expected_next(jnp.array([-1, 4, 4]), jnp.array([jnp.inf, 2.5, 30.0]), 9).tolist() == [NEVER, 10, 34]
    True
    """
    after = jnp.minimum(jnp.round(mean), NEVER // 2).astype(jnp.int32)
    return jnp.where(jnp.isinf(mean), NEVER, jnp.maximum(last + after, slot + 1)).astype(jnp.int32)


def observed_mean(last: jax.Array, met: jax.Array) -> jax.Array:
    """[N] mean gap of the ``met`` meetings so far, the first one counted from the start; ``inf`` before any."""
    return jnp.where(met > 0, (last - BEFORE) / jnp.maximum(met, 1), jnp.inf)


def random_pairs(key: jax.Array, num_clients: int, rate: jax.Array | float) -> jax.Array:
    """Partners of floor(rho N / 2) disjoint pairs, drawn uniformly (FedMobile appendix B).

    Args:
      key: of this slot.
      num_clients: N.
      rate: rho in [0, 1], share of the clients that have a partner.

    Returns:
      [N] int32, a client's own index where it is alone.
    """
    order = jax.random.permutation(key, num_clients).astype(jnp.int32)
    num_pairs = jnp.floor(jnp.asarray(rate, jnp.float32) * num_clients / 2 + 1e-4).astype(jnp.int32)
    place = jnp.arange(num_clients, dtype=jnp.int32)
    paired = place < 2 * num_pairs
    # The places 2k and 2k + 1 are a pair; the last of an odd number has no mate.
    mate = order[jnp.minimum(place ^ 1, num_clients - 1)]
    return jnp.zeros(num_clients, jnp.int32).at[order].set(jnp.where(paired, mate, order))


def pair_links(partner: jax.Array, at_server: jax.Array, last: jax.Array, following: jax.Array) -> Links:
    """Links of disjoint pairs, the weights one half each; a client alone keeps its model.

    The matrices are made where an algorithm reads them, and not at all in a compiled program that does not.

    Args:
      partner: [N] int32, see `mdfl_jax.types.Links`.
      at_server: [N] bool.
      last: [N] int32.
      following: [N] int32 next meetings.
    """
    client = jnp.arange(partner.shape[0], dtype=jnp.int32)
    mate = partner[:, None] == client
    alone = client[:, None] == client
    return Links(mate & ~alone, 0.5 * mate + 0.5 * alone, at_server, last, following, partner)
