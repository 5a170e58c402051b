"""Road-side units: who meets the server from the places alone, next meetings from the route ahead, pairs that match."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from worlds import played

from mdfl_jax.core.types import NEVER
from mdfl_jax.mobility.plane import Motion
from mdfl_jax.mobility.registry import rule_numbers
from mdfl_jax.networks.spatial import SpatialParams, spatial
from mdfl_jax.networks.wrappers.roadside import RoadsideParams, matching, roadside

N, SLOTS = 10, 60
UNITS = np.array([[100.0, 100.0], [300.0, 300.0]], np.float32)
RANGE = 60.0


def in_the_plane(mobility):
    rules = rule_numbers((mobility,), speed_min=10.0, speed_max=20.0)
    return SpatialParams(num_mobile=8, radius=80.0, motion=Motion(width=400.0, height=400.0, dt=2.0), rules=rules)


STREETS = in_the_plane("manhattan")
PARAMS = RoadsideParams(STREETS, UNITS, RANGE)


@functools.cache  # so that a program serves several tests
def network_with(known_next, one_at_a_time, mobility):
    return roadside(spatial(N, 5, [mobility]), SLOTS, known_next, one_at_a_time)


def history(known_next=True, one_at_a_time=True, mobility="manhattan", params=PARAMS):
    """The last state, the links of the slots, and the places before each slot."""
    network = network_with(known_next, one_at_a_time, mobility)
    states, links = played(network, params, SLOTS)
    return jax.tree.map(lambda leaf: leaf[-1], states), links, network.places(states).position[:-1]


def near_units(places, units=UNITS):
    """[T, N] from places alone, with loops."""
    met = np.zeros(places.shape[:2], bool)
    for t in range(places.shape[0]):
        for i in range(places.shape[1]):
            met[t, i] = any(np.hypot(*(places[t, i].astype(float) - unit)) <= RANGE for unit in units)
    return met


def test_meetings_are_those_of_the_places_and_known_ahead():
    end, links, places = history()
    met = near_units(places)
    assert (links.at_server == met).all()
    assert 0.05 < met.mean() < 0.6
    for i in range(N):
        slots = np.flatnonzero(met[:, i])
        for t in range(SLOTS):
            assert links.last_server[t, i] == max([s for s in slots if s <= t], default=-1)
            assert links.next_server[t, i] == min([s for s in slots if s > t], default=NEVER)
    assert (end.reached == met.any(axis=0)).all()
    assert not end.reached.all()  # two clients stand still, away from the units
    assert (links.next_server[:, ~end.reached] == NEVER).all()


@pytest.mark.long
def test_expected_meetings_follow_the_gaps_seen():
    _, links, places = history(known_next=False)
    met = near_units(places)
    assert (links.at_server == met).all()
    for i in range(N):
        for t in range(SLOTS):
            so_far = np.flatnonzero(met[: t + 1, i])
            if not so_far.size:
                assert links.next_server[t, i] == NEVER
                continue
            mean = (so_far[-1] + 1) / so_far.size
            assert abs(links.next_server[t, i] - max(so_far[-1] + mean, t + 1)) <= 0.5


def test_one_at_a_time_is_a_maximal_matching_of_those_in_range():
    _, pairs, places = history()
    _, every, _ = history(one_at_a_time=False)
    assert every.partner is None
    squared = ((places[:, :, None] - places[:, None]).astype(float) ** 2).sum(axis=-1)
    assert (every.adjacency == (squared <= 80.0**2) & ~np.eye(N, dtype=bool)).all()
    for t in range(SLOTS):
        partner, alone = pairs.partner[t], pairs.partner[t] == np.arange(N)
        assert (partner[partner] == np.arange(N)).all()
        assert all(every.adjacency[t, i, partner[i]] for i in range(N) if not alone[i])
        assert not (every.adjacency[t] & alone[:, None] & alone[None, :]).any()
        assert (pairs.adjacency[t].sum(axis=1) == ~alone).all()
    assert (pairs.partner != np.arange(N)).any()


def test_matchings_are_random():
    """On a path of three clients each of both pairs is as likely as the other."""
    path = jnp.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], bool)
    partner = jax.vmap(lambda k: matching(k, path))(jax.random.split(jax.random.key(0), 2000))
    assert abs(float((partner[:, 1] == 0).mean()) - 0.5) < 0.06
    one_way = jnp.array([[0, 1], [0, 0]], bool)  # heard, but not hearing
    assert matching(jax.random.key(0), one_way).tolist() == [0, 1]
