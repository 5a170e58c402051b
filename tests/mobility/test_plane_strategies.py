"""The strategies in the plane, against loops over clients and the points of the lattice."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import strategies as oracle
from tiny import tiny_config

from mdfl_jax import UserError
from mdfl_jax.mobility import MOBILITIES
from mdfl_jax.mobility.plane import Motion, PlaneWorld
from mdfl_jax.mobility.plane_strategy import LARGEST, SIDE, lattice
from mdfl_jax.study import make_study

MOBILE, STATIC, ROUNDS, RADIUS, SPEED, DT = 3, 7, 25, 60.0, 10.0, 8.0
ALL, SIZE = MOBILE + STATIC, np.array([400.0, 300.0])
POINTS = np.asarray(lattice(jnp.asarray(SIZE, jnp.float32)))
NAMES = [
    *("age_aware", "coordinated", "cover_tour", "dcm", "dcm_weighted", "learnt", "spectral", "staleness", "waiting"),
    *("waiting_met", "learnt_met", "spectral_met"),
]


def world(name, seed, **numbers):
    rng = np.random.default_rng(seed)
    motion = Motion(width=SIZE[0], height=SIZE[1], dt=DT, boundary=0, warm_up=0)
    return PlaneWorld(
        size=jnp.asarray(SIZE, jnp.float32),
        start=jnp.asarray(rng.random((ALL, 2)) * SIZE, jnp.float32),
        is_mobile=jnp.arange(ALL) < MOBILE,
        label_counts=jnp.asarray(rng.integers(0, 9, (ALL, 3)), jnp.int32),
        radius=jnp.float32(RADIUS),
        motion=jax.tree.map(jnp.asarray, motion),
        numbers=MOBILITIES.numbers(name)(speed_min=SPEED, speed_max=SPEED, **numbers).typed(),
    )


@functools.cache
def program(name):
    rule = MOBILITIES[name]()
    return jax.jit(rule.init), jax.jit(rule.step)


def played(name, seed, rounds=ROUNDS, **numbers):
    """The world, the states, and the places [T + 1, N, 2]."""
    w, (init, step) = world(name, seed, **numbers), program(name)
    states = [init(jax.random.key(7), w)]
    for t in range(rounds):
        states.append(step(jax.random.fold_in(jax.random.key(seed), t), w, states[-1]))
    return w, states, np.array([np.asarray(s.clients.position) for s in states])


@pytest.mark.few(3)
@pytest.mark.parametrize("name", NAMES)
def test_clients_go_straight_to_points_of_the_lattice_as_fast_as_they_may(name):
    w, states, places = played(f"{name}_plane", seed=1)
    np.testing.assert_array_equal(
        places[:, MOBILE:], np.broadcast_to(np.asarray(w.start)[MOBILE:], places[:, MOBILE:].shape)
    )
    assert len(np.unique(np.round(places[:, 0]), axis=0)) > 3
    for before, after in itertools.pairwise(states):
        goal = POINTS[np.asarray(after.memory.clients.destination)][:MOBILE]
        at, now = (np.asarray(s.clients.position)[:MOBILE] for s in (before, after))
        way = np.linalg.norm(goal - at, axis=1)
        part = np.minimum(SPEED * DT / np.maximum(way, 1e-6), 1.0)[:, None]
        np.testing.assert_allclose(now, at + part * (goal - at), atol=0.05)
        np.testing.assert_allclose(np.asarray(after.path.points)[:MOBILE, -1], now, atol=1e-3)
        np.testing.assert_allclose(np.asarray(after.path.points)[:MOBILE, 0], at, atol=1e-3)


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(3))
def test_waiting_goes_where_most_waits_in_the_plane_too(seed):
    w, states, places = played("waiting_plane", seed)
    static = np.asarray(w.start, float)[MOBILE:]
    for now, i in itertools.product(range(ROUNDS), range(MOBILE)):
        age = oracle.ages(places[:, :MOBILE], static, RADIUS, now)[i]
        worth = oracle.waiting(places[now, i], POINTS, static, RADIUS, age, SPEED * DT, 0.5, 2.0)
        assert worth[int(states[now + 1].memory.clients.destination[i])] >= worth.max() * (1 - 1e-4)


def test_a_tour_of_the_plane_goes_on_from_centre_to_centre():
    _, states, _ = played("cover_tour_plane", seed=1, rounds=60)
    tour, sites = states[0].memory.plan, states[0].memory.sites
    length, order = int(tour.length), np.asarray(tour.order)
    places = np.asarray(sites.place)[order[:length]].tolist()
    for i in range(MOBILE):
        to = [places.index(int(s.memory.clients.destination[i])) for s in states[1:]]
        turns = [(now - before) % length for before, now in itertools.pairwise(to)]
        assert set(turns) == {0, 1}  # on the way, or to the next one
        assert sum(turns) > length
    begun = {int(states[1].memory.clients.destination[i]) for i in range(MOBILE)}
    assert len(begun) == MOBILE


@pytest.mark.parametrize("seed", range(3))
def test_who_was_in_range_at_the_ends_of_rounds_is_remembered(seed):
    w, states, places = played("dcm_plane", seed)
    static = np.asarray(w.start, float)[MOBILE:]
    for now in (0, 5, ROUNDS):
        expected = now - oracle.ages(places[:, :MOBILE], static, RADIUS, now)
        np.testing.assert_array_equal(np.asarray(states[now].memory.last)[:MOBILE, MOBILE:], expected)


def test_a_client_on_its_way_keeps_its_destination_unless_it_thinks_again():
    _, states, _ = played("dcm_plane", seed=0)
    kept = 0
    for before, after in itertools.pairwise(states):
        left = np.asarray(before.clients.time_left)[:MOBILE]
        under_way = (left > 0) & np.isfinite(left)
        same = np.asarray(before.memory.clients.destination == after.memory.clients.destination)[:MOBILE]
        assert same[under_way].all()
        kept += under_way.sum()
    assert kept > 3


def test_centres_cover_every_static_client_that_a_point_covers():
    w, states, _ = played("dcm_plane", seed=2, rounds=1)
    sites = states[0].memory.sites
    centres = POINTS[np.asarray(sites.place)[np.asarray(sites.valid)]]
    for place in np.asarray(w.start)[MOBILE:]:
        if oracle.in_range(place, POINTS, RADIUS).any():
            assert oracle.in_range(place, centres, RADIUS).any()


def test_dcm_draws_its_first_centre_in_proportion_to_label_distance():
    w = world("dcm_plane", 3)
    state = program("dcm_plane")[0](jax.random.key(7), w)
    keys = jax.random.split(jax.random.key(0), 3000)
    step = MOBILITIES["dcm_plane"]().step
    moved = jax.jit(jax.vmap(lambda k: step(k, w, state).memory.clients.destination))
    drawn = np.asarray(moved(keys))
    start, labels = np.asarray(w.start, float), np.asarray(w.label_counts)
    sites = np.asarray(state.memory.sites.place)[np.asarray(state.memory.sites.valid)]
    for i in range(MOBILE):
        seen = start[MOBILE:], labels[MOBILE:], labels[i], RADIUS
        away = np.array([oracle.label_distance(POINTS[s], start[i], *seen) for s in sites])
        found = np.array([(drawn[:, i] == s).mean() for s in sites])
        np.testing.assert_allclose(found, away / away.sum(), atol=0.035)


def test_they_share_a_program_with_random_waypoint_and_many_clients_are_refused():
    sweep = "network.mobility=random_waypoint," + ",".join(f"{name}_plane" for name in NAMES)
    changes = {"network.mobility": "waiting_plane", "network.radius": 60.0, "motion.dt": 5.0}
    assert len(make_study(tiny_config(**changes, sweep=sweep)).groups) == 1
    with pytest.raises(UserError, match=f"network.num_clients is {LARGEST + 1}; with network.mobility waiting_plane"):
        make_study(tiny_config(**changes, **{"network.num_clients": LARGEST + 1}))
    assert len(POINTS) == SIDE * SIDE
