"""Neighbour lists mean what matrices mean: the same links in every round, and weights that differ by rounding only."""

import functools
import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from worlds import matrices

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.links import ALL_PAIRS, as_senders, in_use
from mdfl_jax.core.message_bits import messages_sent
from mdfl_jax.core.sharding import Held, draw_pairs, pad_links
from mdfl_jax.exchange.gossip import mix
from mdfl_jax.exchange.partial import random_neighbours
from mdfl_jax.mobility import MOBILITIES, Movement
from mdfl_jax.mobility.plane import Motion
from mdfl_jax.networks.contact import Met, contact_list
from mdfl_jax.networks.costs import CostParams, Work, link_filter
from mdfl_jax.networks.fixed import fixed_graph
from mdfl_jax.networks.graphs import GRAPHS, GraphParams
from mdfl_jax.networks.mixing import MIXINGS
from mdfl_jax.networks.spatial import SpatialParams, spatial
from mdfl_jax.networks.wrappers.participation import PICKS, ParticipationParams, partial_participation
from mdfl_jax.networks.wrappers.roadside import RoadsideParams, roadside
from mdfl_jax.traces.trace import ContactTable

# A message takes 4 s of contact; a sample 5 ms.
COST = CostParams(seconds_per_sample=np.float32(0.005), bandwidth=np.float32(100.0), link_bits=np.float32(400.0))
N, ROUNDS = 30, 4
CLIENTS = Held(jnp.arange(N, dtype=jnp.int32) % 7, jnp.ones((N, 3), jnp.int32))
PLANE = SpatialParams(20, radius=120.0, motion=Motion(600.0, 600.0, 10.0), radius_spread=0.4)
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


def agree(make, params, neighbours=24, **options):
    """Compare the links of both forms; return the number of links in all rounds."""
    seen = 0
    both = zip(links_of(make(), params, **options), links_of(make(max_neighbours=neighbours), params, **options))
    for (_, of_pairs), (state, listed) in both:
        needed = getattr(state, "spatial", getattr(state, "inner", state)).needed
        assert listed.senders.ids is not None
        assert needed <= neighbours + 1
        alike(of_pairs, listed)
        seen += int(np.sum(of_pairs.adjacency))
    assert 0 < seen < N * N * ROUNDS
    return seen


CASES = dict.fromkeys([
    *itertools.product(MIXINGS, ["grid"], ["swept"], [True]),
    *itertools.product(["metropolis_hastings"], ["plane", "grid"], ["disc", "swept"], [False, True]),
])  # fmt: skip


@pytest.mark.few(3)
@pytest.mark.parametrize(("mixing", "world", "contact", "fails"), CASES)
def test_mixing_contact_and_failing_links(mixing, world, contact, fails):
    rules, params = (("dcm", "random_movement"), GRID) if world == "grid" else (("random_walk",), PLANE)
    make = partial(spatial, N, 12, rules, mixing=mixing, contact=contact, links_fail=fails)
    agree(make, params._replace(link_failure=0.3, link_fading=0.2))


@pytest.mark.few(1)
@pytest.mark.parametrize("short_contact", ["drop", "resume"])
@pytest.mark.parametrize("contact", ["disc", "swept"])
def test_short_contacts_and_slow_clients(short_contact, contact):
    cost = COST._replace(deadline=np.float32(0.02))
    slow = link_filter(Work(), short_contact, deadline=True)
    make = partial(spatial, N, mobility=("random_waypoint",), contact=contact, link_filter=slow)
    agree(make, PLANE._replace(link_filter=cost), neighbours=N - 1 if contact == "swept" else 24)  # all clients, or few


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


@pytest.mark.few(1)
@pytest.mark.parametrize("fails", [False, True])
def test_contact_lists(fails):
    rng = np.random.default_rng(0)
    edges = rng.integers(0, N, (400, 2)).astype(np.int32)
    edges = edges[edges[:, 0] != edges[:, 1]]
    offsets = np.array([0, 90, 91, 91, 240, len(edges)])
    params = SpatialParams(trace=contact_list(ContactTable(edges, offsets, N)), link_failure=0.5)
    agree(partial(spatial, N, mobility=("contacts",), links_fail=fails), params, rounds=5)


@pytest.mark.few(2)
@pytest.mark.parametrize("graph", [name for name in GRAPHS if GRAPHS[name].heard])
def test_every_graph_that_has_lists(graph):
    make, params = partial(fixed_graph, N, graph, "uniform", True), GraphParams(link_failure=0.3)
    for (_, of_pairs), (_, listed) in zip(links_of(make(), params), links_of(make(lists=True), params)):
        assert listed.senders.most <= listed.adjacency.shape[1]
        alike(of_pairs, listed)


@pytest.mark.few(1)
@pytest.mark.parametrize("picks", PICKS)
def test_participation(picks):
    make = lambda **o: partial_participation(spatial(N, 12, ("random_movement",), **o), picks=picks)  # noqa: E731
    agree(make, ParticipationParams(GRID, 0.4, 2))


@pytest.mark.long
def test_picks_that_stay():
    make = lambda **o: partial_participation(spatial(N, mobility=(Movement("static", world="plane"),), **o), stay=True)  # noqa: E731
    links = agree(make, ParticipationParams(PLANE, 0.3, 2))
    assert links < agree(make, ParticipationParams(PLANE, 1.0, 2))
    with pytest.raises(UserError, match="over neighbour lists only with symmetric mixing weights"):
        make(max_neighbours=24, mixing="uniform")


@pytest.mark.few(1)
@pytest.mark.parametrize("one_at_a_time", [True, False])
def test_roadside_pairs(one_at_a_time):
    make = lambda **o: roadside(spatial(N, 12, ("random_movement",), **o), ROUNDS, True, one_at_a_time)  # noqa: E731
    params = RoadsideParams(GRID, np.array([[6.0, 6.0]], np.float32), 2.0)
    if not one_at_a_time:
        agree(make, params)
        return
    both = zip(links_of(make(), params), links_of(make(max_neighbours=24), params))
    for (_, of_pairs), (_, listed) in both:
        np.testing.assert_array_equal(of_pairs.partner, listed.partner)
        alike(of_pairs, listed)


@pytest.mark.long
def test_every_mobility_rule_of_a_world_moves_alike():
    """Movement does not depend on the form of the links."""
    of_grid = {name: rule for name in MOBILITIES if (rule := MOBILITIES[name]()).world == "grid"}
    rules = tuple(name for name, rule in of_grid.items() if not rule.compare)  # which needs matrices of links
    make = functools.cache(partial(spatial, N, 12, rules))  # one program of each form for all rules
    for k in range(len(rules)):
        agree(make, GRID._replace(mobility=jnp.int32(k)), rounds=2)


def test_a_list_that_is_too_short_is_told():
    """Also where only an earlier round needed more."""
    params = GRID._replace(radius=1.0)
    needed = [int(state.needed) for state, _ in links_of(spatial(N, 6, max_neighbours=4), params)]
    degrees = [int(np.sum(links.adjacency, axis=1).max()) for _, links in links_of(spatial(N, 6), params)]
    assert needed == list(np.maximum.accumulate(degrees) + 1)
    assert needed[0] > 5
    assert degrees[1] < degrees[0]


@pytest.mark.long
def test_padding_clients_have_no_links_and_change_no_draw():
    network = spatial(N, mobility=("random_waypoint",), contact="disc", max_neighbours=24)
    *_, (_, links) = links_of(network, PLANE, rounds=2)
    padded = pad_links(links, N + 2)
    draw = partial(random_neighbours, jax.random.key(3), rate=0.5)
    pick = lambda adjacency, senders: draw(adjacency, senders=senders)  # noqa: E731
    picked, of_padded = jax.jit(lambda: [draw_pairs(pick, given) for given in (links, padded)])()
    assert picked.any()
    np.testing.assert_array_equal(picked, of_padded[:N])
    assert not of_padded[N:].any()
    np.testing.assert_array_equal(messages_sent(of_padded, padded.senders)[:N], messages_sent(picked, links.senders))
    models = jnp.arange(2.0 * (N + 2)).reshape(N + 2, 2)
    mixed = mix(padded.mix, models, senders=padded.senders)
    np.testing.assert_array_equal(mixed[N:], models[N:])
    np.testing.assert_array_equal(mixed[:N], mix(links.mix, models[:N], senders=links.senders))
