"""Neighbour lists mean what matrices mean: the same links in every round, and weights that differ by rounding only."""

import functools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from worlds import matrices

from mdfl_jax.core.links import ALL_PAIRS, as_senders, in_use
from mdfl_jax.core.sharding import Held
from mdfl_jax.networks.contact import Met
from mdfl_jax.networks.costs import CostParams, Work, link_filter
from mdfl_jax.networks.fixed import fixed_graph
from mdfl_jax.networks.graphs import GRAPHS, GraphParams
from mdfl_jax.networks.spatial import SpatialParams, spatial

# A message takes 4 s of contact; a sample 5 ms.
COST = CostParams(seconds_per_sample=np.float32(0.005), bandwidth=np.float32(100.0), link_bits=np.float32(400.0))
N, ROUNDS = 30, 4
CLIENTS = Held(jnp.arange(N, dtype=jnp.int32) % 7, jnp.ones((N, 3), jnp.int32))
GRID = SpatialParams(20, radius=3.0, max_step=4.0)


@functools.cache
def compiled(network):
    return jax.jit(network.init), jax.jit(network.step)


def links_of(network, params, rounds=ROUNDS, seed=0):
    """The links of the first rounds of a network."""
    key, (init, step) = jax.random.key(seed), compiled(network)
    state = init(params, key, CLIENTS)
    for r in range(rounds):
        state, links = step(params, key, jnp.int32(r), state, CLIENTS)
        yield state, links


def alike(of_pairs, listed):
    """Compare the links and weights of a round in both forms; places that are not in use have none."""
    np.testing.assert_array_equal(of_pairs.adjacency, matrices(listed.senders, listed.adjacency))
    np.testing.assert_allclose(of_pairs.mix, matrices(listed.senders, listed.mix), atol=3e-7)
    assert np.sum(listed.adjacency) == np.sum(of_pairs.adjacency)
    np.testing.assert_allclose(np.sum(listed.mix, axis=1), np.sum(of_pairs.mix, axis=1), atol=1e-5)


def test_messages_go_on_with_their_link_whatever_its_place():
    """Contacts come and go at random, so that a link has another place in each round."""
    rule, rng = link_filter(Work(), "resume"), np.random.default_rng(0)
    clients = np.arange(N)
    whole, listed = (rule.init(COST, jax.random.key(0), CLIENTS, places) for places in (0, N + 1))
    carried = 0
    for _ in range(6):
        contact, seconds = np.triu(rng.random((N, N)) < 0.6, 1), np.triu(rng.uniform(0, 3, (N, N)), 1)
        contact, seconds = contact | contact.T, (seconds + seconds.T).astype(np.float32)
        senders = as_senders(jnp.broadcast_to(clients, (N, N)).astype(jnp.int32), contact, contact.sum(axis=1))
        at_places = seconds[clients[:, None], senders.ids]
        wanted, whole = rule.step(COST, whole, None, Met(ALL_PAIRS, contact, lasted=seconds))
        found, listed = rule.step(COST, listed, None, Met(senders, in_use(senders, N), lasted=at_places))
        np.testing.assert_array_equal(matrices(senders, found.heard), wanted.heard)
        carried += int(np.sum(wanted.heard))
    assert carried > 0  # a message takes 4 s, and no contact lasts so long in one round


@pytest.mark.few(2)
@pytest.mark.parametrize("graph", [name for name in GRAPHS if GRAPHS[name].heard])
def test_every_graph_that_has_lists(graph):
    make, params = partial(fixed_graph, N, graph, "uniform", True), GraphParams(link_failure=0.3)
    for (_, of_pairs), (_, listed) in zip(links_of(make(), params), links_of(make(lists=True), params)):
        assert listed.senders.most <= listed.adjacency.shape[1]
        alike(of_pairs, listed)


def test_a_list_that_is_too_short_is_told():
    """Also where only an earlier round needed more."""
    params = GRID._replace(radius=1.0)
    needed = [int(state.needed) for state, _ in links_of(spatial(N, 6, max_neighbours=4), params)]
    degrees = [int(np.sum(links.adjacency, axis=1).max()) for _, links in links_of(spatial(N, 6), params)]
    assert needed == list(np.maximum.accumulate(degrees) + 1)
    assert needed[0] > 5
    assert degrees[1] < degrees[0]
