"""Links that are removed: too short contacts, dropped or resumed, and slow clients; what is left is mixed as usual."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import costs as oracle
from worlds import holding, played

from mdfl_jax import UserError
from mdfl_jax.core.links import ALL_PAIRS
from mdfl_jax.core.types import FIXED, SYMMETRIC
from mdfl_jax.mobility.plane import Motion
from mdfl_jax.networks import GraphParams, fixed_graph, spatial
from mdfl_jax.networks import given as given_matrices
from mdfl_jax.networks.costs import SHORT_CONTACTS, CostParams, Work, client_speeds, in_time, link_filter
from mdfl_jax.networks.spatial import SpatialParams
from tests.reference import mixing as oracle_mixing

N, ROUNDS = 9, 8
COST = CostParams(bandwidth=np.float32(100.0), link_bits=np.float32(40.0), latency=np.float32(0.1))  # 0.5 s a message


CLIENTS = holding(np.arange(1, N + 1))


def links_of(network, params, rounds=ROUNDS):
    """The links of each round, [R, N, N], and the places before each round, [R, N, 2]."""
    states, links = played(network, params, rounds, CLIENTS)
    return links, network.places(states).position[:-1]


@functools.cache
def network_with(short_contact, contact, mixing, deadline):
    slow = link_filter(Work(), short_contact, deadline)
    return spatial(N, 7, ("static", "random_movement"), mixing, contact, link_filter=slow)


def world(short_contact="ignore", contact="swept", mixing="metropolis_hastings", deadline=False, **changes):
    params = SpatialParams(
        num_mobile=np.int32(6), radius=np.float32(3.0), mobility=np.int32(1), motion=Motion(dt=np.float32(1.0))
    )
    filtered = COST if deadline or short_contact != "ignore" else None
    params = params._replace(link_filter=filtered)
    return network_with(short_contact, contact, mixing, deadline), params._replace(**changes)


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 1.5)), min_size=1, max_size=30), st.floats(0.1, 4))
@settings(deadline=None, max_examples=60, derandomize=True)
@pytest.mark.parametrize("name", ["resume", "next_contact"])
def test_messages_that_go_on_arrive_in_the_round_in_which_they_are_complete(name, rounds, need):
    rule = SHORT_CONTACTS[name]
    contact, seconds = (np.array(column) for column in zip(*rounds))
    lasted = np.concatenate([[0], np.cumsum(seconds if name == "resume" else np.where(contact, seconds, 0))])
    if np.abs(lasted[:, None] - lasted - need).min() < 1e-3:  # single precision may judge such a duration either way
        return
    state, found = rule.init(1, 0), []
    for is_contact, second in rounds:
        contacts, durations = np.array([[is_contact]]), np.array([[second]], np.float32)
        carries, state = rule.step(np.float32(need), state, contacts, durations, ALL_PAIRS)
        found.append(bool(carries[0, 0]))
    np.testing.assert_array_equal(found, oracle.resumed(contact, seconds, need, forgets=name == "resume"))


def test_a_message_as_long_as_the_contact_is_carried():
    """Ten rounds of 0.1 s are one second, also in single precision."""
    rule = SHORT_CONTACTS["resume"]
    state, one = rule.init(2, 0), np.full((2, 2), 0.1, np.float32)
    found = []
    for _ in range(20):
        carries, state = rule.step(jnp.float32(1.0), state, jnp.ones((2, 2), bool), one, ALL_PAIRS)
        found.append(bool(carries[0, 1]))
    assert np.flatnonzero(found).tolist() == [9, 19]
    assert SHORT_CONTACTS["drop"].step(jnp.float32(0.1), None, jnp.ones((2, 2), bool), one, ALL_PAIRS)[0].all()


@pytest.mark.few(1)
@pytest.mark.parametrize("rule", ["resume", "drop"])
def test_links_of_moving_clients_are_the_contacts_that_are_long_enough(rule):
    """Against the oracle's durations from the recorded places, whose paths are straight."""
    network, params = world(rule)
    plain, places = links_of(*world())
    links, _ = links_of(network, params)
    times = np.tile([0.0, 1.0], (N, 1))
    durations = [np.zeros((N, N))]
    for before, after in itertools.pairwise(places):
        durations.append(oracle.exact_contact(times, np.stack([before, after], axis=1), 3.0))
    durations = np.array(durations)
    short = 0
    for i in range(N):
        for j in range(N):
            contact, seconds = plain.adjacency[:, i, j], durations[:, i, j]
            expected = contact & (seconds >= 0.5) if rule == "drop" else oracle.resumed(contact, seconds, 0.5)
            np.testing.assert_array_equal(links.adjacency[:, i, j], expected)
            short += (contact & ~expected).sum()
    assert short > 5  # some contacts are too short
    assert links.adjacency.any()


@pytest.mark.long
def test_in_range_at_the_beginning_lasts_for_the_whole_round():
    """With the disc a contact lasts dt. A message of half a second takes 1, 2 or 5 rounds of 0.5, 0.3 or 0.1 s."""
    still = np.int32(0)
    plain = links_of(*world(contact="disc", mobility=still))[0].adjacency[:1]
    assert plain.any()
    for dt, every in ((0.5, 1), (0.3, 2), (0.1, 5)):
        motion = Motion(dt=np.float32(dt))
        resumed = links_of(*world("resume", "disc", motion=motion, mobility=still), rounds=10)[0].adjacency
        turns = (np.arange(10) + 1) % every == 0
        np.testing.assert_array_equal(resumed, turns[:, None, None] & plain)
        dropped = links_of(*world("drop", "disc", motion=motion, mobility=still))[0].adjacency
        np.testing.assert_array_equal(dropped, np.repeat(plain & (every == 1), ROUNDS, axis=0))
        # 0.3 s are 0.2 s besides the latency, and 20 bits; 0.1 s none
        cost = COST._replace(link_least=np.float32(20.0))
        parts = links_of(*world("largest", "disc", motion=motion, mobility=still, link_filter=cost))[0]
        np.testing.assert_array_equal(parts.adjacency, np.repeat(plain & (dt > 0.1), ROUNDS, axis=0))
        if dt > 0.1:
            np.testing.assert_allclose(parts.budget[parts.adjacency], np.inf if dt == 0.5 else 20, rtol=1e-5)


def test_slow_clients_have_no_links_in_a_graph_either():
    """Of clients with 1 to 9 samples of a second each, 5 seconds are enough for the first five."""
    slow = link_filter(Work(), deadline=True)
    network = fixed_graph(N, "ring", link_filter=slow)
    cost = CostParams(seconds_per_sample=np.float32(1.0), deadline=np.float32(5.0))
    links, _ = links_of(network, GraphParams(link_filter=cost), rounds=3)
    plain, _ = links_of(fixed_graph(N, "ring"), GraphParams(), rounds=3)
    fast = np.arange(N) < 5
    np.testing.assert_array_equal(links.adjacency, plain.adjacency & fast[:, None] & fast)
    np.testing.assert_allclose(links.mix[0], oracle_mixing.metropolis_hastings(links.adjacency[0]), atol=1e-6)
    assert {SYMMETRIC, FIXED} <= network.gives
    assert SYMMETRIC not in fixed_graph(N, "ring", "uniform", link_filter=slow).gives


@pytest.mark.parametrize(("each", "count"), [(0.6, 7), (0.1, 3), (0.01, 20)])
def test_who_ends_at_the_deadline_is_in_time(each, count):
    """0.6 s times 7 is more than 4.2 s in single precision."""
    cost, held = CostParams(np.float32(each), deadline=np.float32(each * count)), jnp.array([count, count + 1])
    assert in_time(cost, Work(), jax.random.key(0), held).tolist() == [True, False]


def test_promises_and_refusals():
    assert link_filter(Work()) is None
    assert FIXED in spatial(4, 3, ("static",), link_filter=link_filter(Work(), deadline=True)).gives
    assert FIXED not in spatial(4, 3, ("static",), link_filter=link_filter(Work(), "drop")).gives
    with pytest.raises(UserError, match="unknown rule for short contacts 'dorp'"):
        link_filter(Work(), "dorp")
    short = link_filter(Work(), "resume")
    with pytest.raises(UserError, match="no contact durations"):
        fixed_graph(N, "ring", link_filter=short)
    with pytest.raises(UserError, match=r"cost\.deadline needs links"):
        given_matrices(np.eye(3), link_filter=link_filter(Work(), deadline=True))


def test_speeds_have_mean_one_and_are_the_seeds():
    params = CostParams(speed_spread=np.float32(0.5))
    draw = lambda seed: np.asarray(client_speeds(params, jax.random.key(seed), 20_000))  # noqa: E731
    speeds = draw(3)
    np.testing.assert_array_equal(speeds, draw(3))
    assert (speeds != draw(4)).all()
    assert abs(speeds.mean() - 1) < 4.5 * speeds.std() / np.sqrt(20_000)
    assert abs(np.log(speeds).std() - 0.5) < 0.02
    assert (client_speeds(CostParams(), jax.random.key(0), 5) == 1).all()
    dealt = [sorted(np.asarray(client_speeds(CostParams(speed_ratio=4.0), jax.random.key(k), 7))) for k in (0, 1)]
    assert dealt == [[1 / 16, 1 / 16, 1 / 4, 1 / 4, 1, 1, 1]] * 2
    np.testing.assert_array_equal(client_speeds(CostParams(speeds=[2, 0.5]), jax.random.key(0), 2), [2, 0.5])
