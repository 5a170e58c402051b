"""Road-side units: pairs of clients in range that are drawn."""

import jax
import jax.numpy as jnp

from mdfl_jax.networks.wrappers.roadside import matching


def test_matchings_are_random():
    """On a path of three clients each of both pairs is as likely as the other."""
    path = jnp.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], bool)
    partner = jax.vmap(lambda k: matching(k, path))(jax.random.split(jax.random.key(0), 2000))
    assert abs(float((partner[:, 1] == 0).mean()) - 0.5) < 0.06
    one_way = jnp.array([[0, 1], [0, 0]], bool)  # heard, but not hearing
    assert matching(jax.random.key(0), one_way).tolist() == [0, 1]
