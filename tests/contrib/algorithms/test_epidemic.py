"""Whom epidemic learning sends to: laws of what is drawn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mdfl_jax.contrib.algorithms.peers import random_receivers, random_regular_part


def test_local_receivers_are_uniform_and_bounded_by_who_hears():
    keys = jax.random.split(jax.random.key(0), 2000)
    many = jax.jit(jax.vmap(random_receivers, in_axes=(0, None, None)))
    sent = np.asarray(many(keys, ~jnp.eye(7, dtype=bool), 2))
    assert (sent.sum(axis=1) == 2).all()
    share = sent.mean(axis=0)[~np.eye(7, dtype=bool)]
    assert (np.abs(share - 1 / 3) < 4.5 * np.sqrt(2 / 9 / 2000)).all()
    one_way = np.zeros((7, 7), bool)
    one_way[0, 1:] = True  # client 0 hears all, nobody hears it
    few = np.asarray(many(keys[:3], jnp.asarray(one_way), 2))
    np.testing.assert_array_equal(few, np.broadcast_to(one_way, few.shape))


@pytest.mark.few(2)
@pytest.mark.parametrize(("n", "degree"), [(7, 3), (20, 7), (6, 2), (8, 7), (9, 4)])
def test_oracle_graphs_are_regular_symmetric_and_alike_for_all(n, degree):
    """Where the sum of the degrees would be odd, one client has one link less."""
    draw = jax.jit(jax.vmap(random_regular_part, in_axes=(0, None, None)))
    graphs = np.asarray(draw(jax.random.split(jax.random.key(n), 500), ~jnp.eye(n, dtype=bool), degree))
    assert (graphs == graphs.swapaxes(1, 2)).all()
    assert not graphs[:, np.arange(n), np.arange(n)].any()
    assert graphs.sum(axis=2).max() <= degree
    regular = graphs.sum(axis=(1, 2)) == n * degree - n * degree % 2
    assert regular.mean() > 0.95
    share = graphs.mean(axis=0)[~np.eye(n, dtype=bool)]
    wanted = (degree - n * degree % 2 / n) / (n - 1)
    assert (np.abs(share - wanted) < 5 * np.sqrt(wanted * (1 - wanted) / 500) + 0.01).all()


@pytest.mark.parametrize("seed", range(3))
def test_oracle_graphs_inside_a_network_are_maximal(seed):
    """Nobody has more links than asked, and no two in range both lack one and are not linked."""
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((12, 12)) < 0.35, 1)
    adjacency = upper | upper.T
    adjacency[3, 4], adjacency[4, 3] = True, False  # of one direction: not used
    found = np.asarray(random_regular_part(jax.random.key(seed), jnp.asarray(adjacency), 3))
    mutual = adjacency & adjacency.T
    assert (found == found.T).all()
    assert not (found & ~mutual).any()
    lacks = found.sum(axis=1) < np.minimum(3, mutual.sum(axis=1))
    assert found.sum(axis=1).max() <= 3
    assert not (mutual & ~found & lacks[:, None] & lacks[None, :]).any()
