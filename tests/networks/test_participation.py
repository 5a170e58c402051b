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
from mdfl_jax.networks.spatial import SpatialParams, spatial
from mdfl_jax.networks.wrappers.participation import ParticipationParams, partial_participation, pick_links
from tests.reference import graphs as oracle
from tests.reference import mixing as oracle_mixing

SPACE = SpatialParams(num_mobile=4, radius=np.float32(3.0), mobility=1)


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


def test_one_way_weights_are_of_the_larger_number_of_picks():
    """On a star the centre picks three of six and a leaf its only neighbour; the slow oracle has the weights."""
    graph = oracle.links(7, "star")
    links = drawn(partial_participation(given(graph), picks="one_way"), numbers(GraphParams(), 0.5), 2, 20)
    for found, mix in zip(links.adjacency.reshape(-1, 7, 7), links.mix.reshape(-1, 7, 7)):
        assert sorted(found.sum(axis=1)) == [1, 1, 1, 1, 1, 1, 3]
        np.testing.assert_allclose(mix, oracle_mixing.metropolis_hastings(found), atol=1e-6)
        np.testing.assert_allclose(mix.sum(axis=1), 1, atol=1e-6)


@pytest.mark.few(1)
@pytest.mark.parametrize("inner", ["graph", "space"])
def test_links_weights_and_periods_of_every_round(inner):
    """Over a graph and over moving clients: no link outside the inner ones, none between periods, MH weights."""
    n, rounds = 10, 12
    network, params = {
        "graph": (fixed_graph(n, "complete"), GraphParams()),
        "space": (spatial(n, 6, ("static", "random_movement")), SPACE),
    }[inner]
    whole = drawn(network, params, 3, rounds)
    thinned = partial_participation(network)
    for rate, period in ((0.3, 1), (0.3, 3), (1.0, 4)):
        links = drawn(thinned, numbers(params, rate, period), 3, rounds)
        assert not (links.adjacency & ~whole.adjacency).any()
        for s in range(3):
            for t in range(rounds):
                found = links.adjacency[s, t]
                assert (found == found.T).all()
                np.testing.assert_allclose(links.mix[s, t], oracle_mixing.metropolis_hastings(found), atol=1e-6)
                if t % period:
                    assert not found.any()
                    np.testing.assert_array_equal(links.mix[s, t], np.eye(n))
                else:
                    degree = whole.adjacency[s, t].sum(axis=1)
                    assert (found.sum(axis=1) >= np.ceil(rate * degree - 1e-6)).all()
        if rate < 1 and inner == "graph" and period == 1:
            assert len({graph.tobytes() for graph in links.adjacency.reshape(-1, n, n)}) == 3 * rounds
    plain = drawn(thinned, numbers(params), 3, rounds)  # all of it, always: the inner network
    np.testing.assert_array_equal(plain.adjacency, whole.adjacency)
    np.testing.assert_array_equal(plain.mix, whole.mix)


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
