"""Thinned networks: how many are picked, when, which weights, what stays, over graphs and over moving clients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from worlds import drawn

from mdfl_jax import UserError
from mdfl_jax.core.types import FIXED, SYMMETRIC
from mdfl_jax.exchange.partial import random_neighbours
from mdfl_jax.networks.fixed import fixed_graph, given
from mdfl_jax.networks.graphs import GraphParams, RegularNumbers
from mdfl_jax.networks.spatial import spatial
from mdfl_jax.networks.wrappers.participation import ParticipationParams, partial_participation, pick_links
from tests.reference import graphs as oracle
from tests.reference import mixing as oracle_mixing


def numbers(inner, participation=1.0, period=1):
    return ParticipationParams(inner, np.float32(participation), np.int32(period))


def picked_by(rule, graph, rates, seeds):
    """[rates, seeds, N, N] what a rule picks of a graph; one program for all rates."""
    program = jax.jit(jax.vmap(rule, in_axes=(0, None, None)))
    keys = jax.random.split(jax.random.key(0), seeds)
    return [np.asarray(program(keys, jnp.asarray(graph), np.float32(rate))) for rate in rates]


def test_each_picks_exactly_its_share():
    """In a graph without a link of both directions the links are the picks: ceil(nu d) of them a row."""
    graph = oracle.links(11, "exponential")  # hops 1, 2, 4, 8, and none of 10, 9, 7, 3
    assert not (graph & graph.T).any()
    rates = (0.2, 0.5, 0.75, 0.8, 1.0)
    for rate, picks in zip(rates, picked_by(pick_links, graph, rates, 300)):
        count = int(np.ceil(rate * 4 - 1e-6))
        assert (picks.sum(axis=2) == count).all()
        assert not (picks & ~graph).any()
        share = picks.mean(axis=0)[graph]
        assert (np.abs(share - count / 4) < 4.5 * np.sqrt(0.25 / 300)).all()


def test_an_exchange_goes_both_ways():
    graph = oracle.links(9, "complete")
    (links,), (picks,) = (picked_by(rule, graph, [0.25], 400) for rule in (pick_links, random_neighbours))
    assert (picks.sum(axis=2) == 2).all()
    np.testing.assert_array_equal(links, picks | picks.swapaxes(1, 2))
    expected = 1 - (1 - 2 / 8) ** 2  # either end picks it
    assert abs(links.sum() / (400 * 72) - expected) < 4.5 * np.sqrt(expected * (1 - expected) / (400 * 36))


def test_one_way_picks_are_heard_by_the_picker_only():
    """As many messages as picks; rows sum to one and columns do not, but they do in the mean over the rounds."""
    n, rounds = 9, 4000
    network = partial_participation(fixed_graph(n, "complete"), picks="one_way")
    links = drawn(network, numbers(GraphParams(), 0.25, 2), 1, rounds)
    heard = links.adjacency[0].sum(axis=2)
    assert (heard[::2] == 2).all()  # nu d = 2 of 8, in each round of the period
    assert not heard[1::2].any()
    assert any((graph != graph.T).any() for graph in links.adjacency[0, ::2])
    mix, graph = links.mix[0, ::2], links.adjacency[0, ::2]
    np.testing.assert_allclose(mix[:50], [oracle_mixing.uniform(found) for found in graph[:50]], atol=1e-6)
    assert np.abs(mix.sum(axis=1) - 1).max() > 0.3
    error = 4.5 * np.sqrt(0.25 * 0.75 / 9 / len(mix))  # of a weight of 1/3 with probability 1/4
    assert np.abs(mix.mean(axis=0) - (np.eye(n) / 3 + ~np.eye(n, dtype=bool) / 12)).max() < error


def test_picks_that_stay_are_connected_and_stay():
    n, seeds = 14, 40
    network = partial_participation(fixed_graph(n, "random_regular"), stay=True)
    links = drawn(network, numbers(GraphParams(RegularNumbers(degree=np.int32(6))), 0.17, 2), seeds, 5)
    used = links.adjacency[:, 0]
    assert all(oracle.connected(graph) for graph in used)
    assert len({graph.tobytes() for graph in used}) == seeds
    assert used.sum() < 0.6 * 6 * n * seeds  # two picks of six, at most four heard in the mean
    assert (used.sum(axis=2) >= 2).all()
    for t in range(5):
        np.testing.assert_array_equal(links.adjacency[:, t], used & (t % 2 == 0))
    np.testing.assert_allclose(links.mix[0, 4], oracle_mixing.metropolis_hastings(used[0]), atol=1e-6)


def test_whatever_cannot_be_thinned_is_used_whole():
    """A ring of which each takes one of two neighbours rarely is connected; then all of it stays."""
    ring = oracle.links(40, "ring")
    links = drawn(partial_participation(given(ring), stay=True), numbers(GraphParams(), 0.5), 5).adjacency[:, 0]
    assert all(oracle.connected(graph) for graph in links)
    assert any((graph == ring).all() for graph in links)


def test_promises():
    fixed, space = fixed_graph(6), spatial(6, 4, ("random_movement",))
    assert partial_participation(fixed, stay=True).gives == fixed.gives
    assert FIXED not in partial_participation(fixed).gives
    assert SYMMETRIC in partial_participation(space).gives
    assert partial_participation(fixed, picks="one_way").gives == fixed.gives - {FIXED, SYMMETRIC}
    with pytest.raises(UserError, match=r"algorithm\.picks is one_way"):
        partial_participation(fixed, stay=True, picks="one_way")
    with pytest.raises(UserError, match="the same links in every round"):
        partial_participation(space, stay=True)
