"""Graphs against plain constructions; degrees, connectivity and weights; the statistics of those drawn by chance."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import chi2
from worlds import drawn

from mdfl_jax.contrib.graphs.small_world import SmallWorldNumbers
from mdfl_jax.networks.fixed import fixed_graph, given
from mdfl_jax.networks.graphs import (
    ErdosRenyiNumbers,
    GraphParams,
    RegularNumbers,
    make_connected,
    until_connected,
)
from tests.reference import graphs as oracle


def test_random_regular_is_uniform():
    """Of the 70 cubic graphs on 6 labelled clients 10 are K_3,3 (no triangle) and 60 prisms; all links are alike."""
    seeds = 1400
    cubic = GraphParams(RegularNumbers(degree=np.int32(3)))
    graphs = drawn(fixed_graph(6, "random_regular"), cubic, seeds).adjacency[:, 0]
    kinds, counts = np.unique([graph.tobytes() for graph in graphs], return_counts=True)
    assert len(kinds) == 70
    assert ((counts - seeds / 70) ** 2 / (seeds / 70)).sum() < chi2.ppf(0.9999, 69)
    bipartite = np.einsum("sij,sjk,ski->s", *[graphs.astype(int)] * 3) == 0
    assert abs(bipartite.mean() - 1 / 7) < 4 * np.sqrt(6 / 49 / seeds)
    rows, columns = np.triu_indices(6, 1)
    edges = graphs[:, rows, columns].sum(axis=0)
    # Links of one graph are not independent; 15 of 3/5 each have less variance than this bound.
    assert ((edges - 0.6 * seeds) ** 2 / (0.6 * 0.4 * seeds)).sum() < chi2.ppf(0.9999, 15)


def test_erdos_renyi_has_its_frequency_and_is_connected():
    """At p = 0.5 and N = 12 nearly every draw is connected; at p = 0.2 they are drawn again until they are."""
    network = fixed_graph(12, "erdos_renyi")
    numbers = lambda p, allow=False: GraphParams(  # noqa: E731
        ErdosRenyiNumbers(probability=np.float32(p)), allow_disconnected=np.bool_(allow)
    )
    graphs = drawn(network, numbers(0.5), 200).adjacency[:, 0]
    rows, columns = np.triu_indices(12, 1)
    edges = graphs[:, rows, columns]
    assert (graphs == graphs.swapaxes(1, 2)).all()
    assert abs(edges.mean() - 0.5) < 4 * 0.5 / np.sqrt(edges.size) + 0.002  # 0.6 % of the draws were made again
    each = edges.sum(axis=0)
    assert ((each - 100) ** 2 / 50).sum() < chi2.ppf(0.9999, len(rows))
    sparse = drawn(network, numbers(0.2), 200).adjacency[:, 0]
    assert all(oracle.connected(graph) for graph in sparse)
    loose = drawn(network, numbers(0.2, True), 200).adjacency[:, 0]
    assert not all(oracle.connected(graph) for graph in loose)
    assert abs(loose[:, rows, columns].mean() - 0.2) < 4 * 0.4 / np.sqrt(loose.shape[0] * len(rows))


def test_small_world_is_the_lattice_rewired():
    n, k = 20, 4
    lattice = oracle.links(n, "ring") | np.eye(n, k=2, dtype=bool) | np.eye(n, k=-2, dtype=bool)
    lattice |= np.eye(n, k=n - 2, dtype=bool) | np.eye(n, k=2 - n, dtype=bool)
    network = fixed_graph(n, "small_world")
    for rewire in (0, 0.3, 1.0):
        params = GraphParams(SmallWorldNumbers(degree=np.int32(k), rewire=np.float32(rewire)))
        graphs = drawn(network, params, 100).adjacency[:, 0]
        assert (graphs == lattice).all() == (rewire == 0)
        assert (graphs.sum(axis=(1, 2)) == n * k).all()
        assert (graphs == graphs.swapaxes(1, 2)).all()
        assert not graphs[:, np.arange(n), np.arange(n)].any()
        assert (graphs.sum(axis=2) >= k // 2).all()  # each keeps its own end of k / 2 links
        assert all(oracle.connected(graph) for graph in graphs)
        if rewire == 0.3:  # a link stays, or comes back: one of 15 or 16 free ends a rewired link is a lattice place
            kept = (graphs & lattice).sum(axis=(1, 2)).mean() / (n * k)
            assert 0.7 - 0.03 < kept < 0.7 + 0.06


def test_disconnected_draws_are_joined_and_tries_bounded():
    parts = np.zeros((6, 6), bool)
    for i, j in ((0, 3), (1, 4), (4, 5)):
        parts[i, j] = parts[j, i] = True
    whole = np.asarray(make_connected(jnp.asarray(parts)))
    expected = parts.copy()
    for i, j in ((0, 1), (1, 2)):
        expected[i, j] = expected[j, i] = True
    np.testing.assert_array_equal(whole, expected)
    never = jax.jit(lambda key: until_connected(lambda k: jnp.asarray(parts), key))(jax.random.key(0))
    np.testing.assert_array_equal(never, expected)


def test_given_matrices_are_cycled():
    rng = np.random.default_rng(0)
    weights = rng.random((3, 4, 4)) + np.eye(4)
    weights[1, 0, 2] = 0
    weights /= weights.sum(axis=2, keepdims=True)
    links = drawn(given(weights), GraphParams(), 1, 7)
    for t in range(7):
        np.testing.assert_allclose(links.mix[0, t], weights[t % 3], rtol=1e-6)
        np.testing.assert_array_equal(links.adjacency[0, t], (weights[t % 3] > 0) & ~np.eye(4, dtype=bool))
    ring, star = oracle.links(4, "ring"), oracle.links(4, "star")
    # The numbers' matrices stand in for those that the network was made with.
    swapped = drawn(given(ring), GraphParams(matrices=star[None]), 1)
    np.testing.assert_array_equal(swapped.adjacency[0, 0], star)
