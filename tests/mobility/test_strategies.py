"""The strategies against loops over clients and places, and what each of them promises."""

import functools
import itertools
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import strategies as oracle
from strategy_world import GRID, MOBILE, RADIUS, SIZE, STATIC, STEP, world

from mdfl_jax import UserError
from mdfl_jax.config import default_config
from mdfl_jax.mobility import MOBILITIES
from mdfl_jax.mobility.sight import Sight, Sites, drawn, look
from mdfl_jax.mobility.strategies.cover_tour import nearest_first, two_opt
from mdfl_jax.mobility.strategies.spectral import fiedler
from mdfl_jax.mobility.strategy import LARGEST
from mdfl_jax.study import make_study

ROUNDS = 30
WITH_ORACLE = ("age_aware", "coordinated", "cover_tour", "dcm_weighted", "spectral", "staleness", "waiting")
MET = tuple(f"{name}_met" for name in WITH_ORACLE if name != "cover_tour")


@functools.cache
def trajectory(name):
    """(key, world) -> states before and after each of ROUNDS moves, the first first."""
    rule = MOBILITIES[name]()

    @jax.jit
    def run(key, w):
        start = rule.init(jax.random.key(7), w)

        def body(state, t):
            state = rule.step(jax.random.fold_in(key, t), w, state)
            return state, state

        states = jax.lax.scan(body, start, jnp.arange(ROUNDS))[1]
        return jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), start, states)

    return run


def moved(name, seed, start=None):
    """The world, and [ROUNDS + 1, MOBILE] places and destinations as indices, and the last state."""
    w = world(name, seed, start)
    states = trajectory(name)(jax.random.key(seed), w)
    clients = states.clients
    return w, np.asarray(clients.location), np.asarray(clients.destination), states


@pytest.mark.few(3)
@pytest.mark.parametrize("name", [*WITH_ORACLE, *MET, "exploring"])
def test_clients_step_as_far_as_they_may_and_static_ones_stay(name):
    w, location, _destination, states = moved(name, seed=1)
    steps = np.linalg.norm(np.diff(GRID[location], axis=0), axis=-1)
    assert steps.max() <= STEP + 1e-6
    assert steps[:, :MOBILE].sum() > 0
    assert (location[:, MOBILE:] == np.asarray(w.start)[MOBILE:]).all()
    static = GRID[np.asarray(w.start)][MOBILE:]
    for now in (0, 7, ROUNDS):
        expected = now - oracle.ages(GRID[location[:, :MOBILE]], static, RADIUS, now)
        np.testing.assert_array_equal(np.asarray(states.last)[now, :MOBILE, MOBILE:], expected)
    assert (np.asarray(states.last)[:, MOBILE:] == -1).all()


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(3))
def test_waiting_goes_where_most_waits(seed):
    w, location, destination, _ = moved("waiting", seed)
    static = GRID[np.asarray(w.start)][MOBILE:]
    for now, i in itertools.product(range(ROUNDS), range(MOBILE)):
        age = oracle.ages(GRID[location[:, :MOBILE]], static, RADIUS, now)[i]
        worth = oracle.waiting(GRID[location[now, i]], GRID, static, RADIUS, age, STEP, 0.5, 2.0)
        worth[location[now, i]] = -1
        assert worth[destination[now + 1, i]] >= worth.max() * (1 - 1e-5)


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(3))
def test_coverage_goes_where_the_ground_was_out_of_range_for_longest(seed):
    _, location, destination, _ = moved("coverage", seed)
    paths = GRID[location[:, :MOBILE]]
    for now, i in itertools.product(range(0, ROUNDS, 3), range(MOBILE)):
        worth = oracle.coverage(paths, GRID, RADIUS, now, i, STEP, 0.5, 2.0)
        worth[location[now, i]] = -1
        assert worth[destination[now + 1, i]] >= worth.max() * (1 - 1e-5)


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(3))
def test_exploring_counts_the_clients_that_it_expects_where_it_has_not_been(seed):
    w, location, destination, states = moved("exploring", seed)
    static, paths = GRID[np.asarray(w.start)][MOBILE:], GRID[location[:, :MOBILE]]
    for now, i in itertools.product(range(0, ROUNDS, 3), range(MOBILE)):
        worth = oracle.exploring(paths, GRID, static, RADIUS, now, i, STEP, 0.5, 2.0)
        worth[location[now, i]] = -1
        assert worth[destination[now + 1, i]] >= worth.max() * (1 - 1e-5)
    unmet = np.asarray(states.last)[:, :MOBILE, MOBILE:] == -1
    assert unmet[0].any()  # else there would be nothing to explore
    assert unmet[-1].sum() < unmet[0].sum()


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(3))
def test_age_aware_goes_to_the_centre_of_largest_distance_times_age(seed):
    w, location, destination, states = moved("age_aware", seed)
    static, counts = GRID[np.asarray(w.start)][MOBILE:], np.asarray(w.label_counts)
    centres = np.unique(np.asarray(states.sites.place)[0][np.asarray(states.sites.valid)[0]])
    for now, i in itertools.product(range(ROUNDS), range(MOBILE)):
        if location[now, i] != destination[now, i]:
            assert destination[now + 1, i] == destination[now, i]
            continue
        latest = oracle.ages(GRID[location[:, :MOBILE]], static, RADIUS, now).min(axis=0)
        score = {}
        for centre in centres[centres != location[now, i]]:
            near = oracle.in_range(GRID[centre], static, RADIUS)
            away = oracle.label_distance(
                GRID[centre], GRID[location[now, i]], static, counts[MOBILE:], counts[i], RADIUS
            )
            score[centre] = away * latest[near].mean()
        assert score[destination[now + 1, i]] >= max(score.values()) - 1e-4


def test_coordinated_clients_go_to_different_centres():
    tried = 0
    for seed in range(6):
        _, _, destination, states = moved("coordinated", seed)
        if np.asarray(states.sites.valid)[0].sum() <= MOBILE:
            continue
        tried += 1
        for now in range(1, ROUNDS + 1):
            assert len(set(destination[now, :MOBILE].tolist())) == MOBILE
    assert tried


def test_a_draw_is_in_proportion_to_the_weights_of_valid_candidates():
    sight = Sight(*[None] * len(Sight._fields))._replace(valid=jnp.array([True, True, True, False]))
    keys = jax.random.split(jax.random.key(0), 4000)
    for weight, share in (([1.0, 3.0, 0.0, 5.0], [0.25, 0.75, 0, 0]), ([0.0] * 4, [1 / 3] * 3 + [0])):
        found = jax.vmap(lambda key, weight=weight: drawn(key, jnp.array(weight), sight))(keys)
        np.testing.assert_allclose(np.bincount(found, minlength=4) / len(keys), share, atol=0.03)


@pytest.mark.parametrize("length", [1, 2, 3, 8])
def test_a_tour_has_every_place_once_and_no_exchange_shortens_it(length):
    for seed in range(5):
        place = np.random.default_rng(seed).random((10, 2)) * 20
        distance = np.linalg.norm(place[:, None] - place, axis=-1)
        valid = jnp.arange(10) % 10 < length
        first = nearest_first(jnp.asarray(distance, jnp.float32), valid)
        order = np.asarray(two_opt(jnp.asarray(distance, jnp.float32), first, jnp.int32(length)))
        assert sorted(order[:length].tolist()) == list(range(length))
        tour, begun = order[:length], np.asarray(first)[:length]
        best = oracle.tour_length(distance, tour)
        assert best <= oracle.tour_length(distance, begun) + 1e-3
        for a, b in itertools.combinations(range(length), 2):
            other = np.concatenate([tour[: a + 1], tour[a + 1 : b + 1][::-1], tour[b + 1 :]])
            assert oracle.tour_length(distance, other) >= best - 1e-2


def test_a_cover_tour_visits_every_centre_in_turn_from_places_spread_along_it():
    _w, _location, destination, states = moved("cover_tour", seed=2)
    order = np.asarray(states.plan.order)[0][: int(states.plan.length[0])]
    tour = np.asarray(states.sites.place)[0][order]
    assert destination[1, :MOBILE].tolist() == [tour[i * len(tour) // MOBILE] for i in range(MOBILE)]
    for i in range(MOBILE):
        changes = [k for k, _ in itertools.groupby(destination[1:, i].tolist())]
        at = tour.tolist().index(changes[0])
        assert changes == [tour[(at + k) % len(tour)] for k in range(len(changes))]


def test_the_fiedler_vector_has_nearly_the_second_eigenvalue_of_numpy():
    weight = np.kron(np.eye(2), np.ones((5, 5))) - np.eye(10)  # two groups, and one weak link between them
    weight[0, 9] = weight[9, 0] = 0.3
    laplacian = np.diag(weight.sum(axis=1)) - weight
    smallest = np.linalg.eigvalsh(laplacian)[1]
    found = np.asarray(fiedler(jax.random.key(1), jnp.asarray(weight, jnp.float32), jnp.ones(10, bool)))
    assert abs(found.sum()) < 1e-4
    assert smallest - 1e-4 <= found @ laplacian @ found <= 1.1 * smallest


@pytest.mark.few(2)
@pytest.mark.parametrize("name", [*MET, "exploring"])
def test_a_client_that_was_not_met_does_not_matter(name):
    places = np.random.default_rng(3).permutation(SIZE * SIZE // 2)[: MOBILE + STATIC]
    places[-1], elsewhere = SIZE * SIZE - 1, places.copy()
    elsewhere[-1] = SIZE * SIZE - SIZE  # the other far corner
    (_, one, _, first), (_, other, _, second) = moved(name, 3, places), moved(name, 3, elsewhere)
    met = [np.asarray(s.last)[:, :MOBILE, -1] != -1 for s in (first, second)]
    until = min((int(np.argmax(m.any(axis=1))) if m.any() else ROUNDS) for m in met)
    assert until > 1
    np.testing.assert_array_equal(one[:until, :-1], other[:until, :-1])


def test_strategies_share_one_program_and_many_clients_are_refused():
    config = default_config()
    config.sweep = "network.mobility=" + ",".join(("dcm", "waypoint", *WITH_ORACLE, *MET))
    assert len(make_study(config).groups) == 1
    config.sweep = "network.mobility=waiting,waiting_met"
    config.network.num_clients = LARGEST + 1
    with pytest.raises(UserError, match=f"network.num_clients is {LARGEST + 1}; with network.mobility waiting"):
        make_study(config)


def test_the_strategy_that_the_page_shows_runs():
    text = (Path(__file__).parents[2] / "docs" / "strategies.md").read_text()
    exec(re.search(r"```python\n(.*?strategy.*?)```", text, re.S)[1], {"__name__": "page"})
    config = default_config()
    config.sweep = "network.mobility=dcm,nearest_oldest,nearest_oldest_met"
    assert len(make_study(config).groups) == 1


def seen_by(name, me=0, known=None, places=None, others=None):
    """What client ``me`` sees before the first round of a rule; ``others`` are destinations of all clients."""
    w = world(name, 5)
    memory = MOBILITIES[name]().init(jax.random.key(7), w)
    known = ~np.asarray(w.is_mobile) if known is None else known
    sites = Sites(jnp.arange(SIZE * SIZE), jnp.ones(SIZE * SIZE, bool))
    destination = memory.clients.destination if others is None else jnp.asarray(others, jnp.int32)
    return w, look(w, memory, jnp.int32(me), destination, sites, jnp.asarray(known))


def test_what_a_client_sees_of_every_place(monkeypatch):
    w, sight = seen_by("waiting")
    static, counts = GRID[np.asarray(w.start)][MOBILE:], np.asarray(w.label_counts)
    values = np.random.default_rng(0).random(MOBILE + STATIC)
    place = GRID[int(w.start[0])]
    for k, point in enumerate(GRID):
        near = oracle.in_range(point, static, RADIUS)
        away = oracle.label_distance(point, place, static, counts[MOBILE:], counts[0], RADIUS)
        assert abs(float(sight.distance[k]) - away) < 1e-5
        assert float(sight.travel[k]) == np.ceil(np.linalg.norm(point - place) / STEP - 1e-6)
        assert abs(float(sight.near(jnp.asarray(values, jnp.float32))[k]) - values[MOBILE:][near].sum()) < 1e-5
    monkeypatch.setattr("mdfl_jax.mobility.sight.is_dense", lambda *sizes: False)
    _, other = seen_by("waiting")
    dense, linear = (s.near(jnp.asarray(values, jnp.float32)) for s in (sight, other))
    np.testing.assert_allclose(dense, linear, atol=1e-5)
    np.testing.assert_allclose(sight.distance, other.distance, atol=1e-6)


def test_without_an_oracle_nothing_unknown_is_seen():
    known = np.zeros(MOBILE + STATIC, bool)
    known[MOBILE + 1] = True
    w, sight = seen_by("waiting_met", known=known, others=[0] * (MOBILE + STATIC))
    near = oracle.in_range(GRID[int(w.start[MOBILE + 1])], GRID, RADIUS)
    np.testing.assert_array_equal(np.asarray(sight.near(jnp.ones(MOBILE + STATIC))) > 0, near)
    assert (np.asarray(sight.age) > 0).sum() <= 1
    assert (np.asarray(sight.samples) > 0).sum() <= 1
    in_range = oracle.in_range(GRID[int(w.start[0])], GRID[np.asarray(w.start)][1:MOBILE], RADIUS).sum()
    assert np.asarray(sight.rivals).sum() == in_range < MOBILE - 1
    others = np.delete(np.asarray(sight.ages), 0, axis=0)
    assert (others == 1).all()  # as if they had never met anybody: one more than the 0 rounds


@pytest.mark.parametrize("name", ["coordinated", "dcm_weighted", "age_aware"])
def test_where_labels_are_alike_clients_still_go_everywhere(name):
    w = world(name, 0)._replace(label_counts=jnp.ones((MOBILE + STATIC, 3), jnp.int32) * 7)
    clients = trajectory(name)(jax.random.key(0), w).clients
    visited = {int(k) for k in np.unique(np.asarray(clients.destination)[1:, :MOBILE])}
    assert len(visited) >= 3
    assert (np.diff(np.asarray(clients.location)[:, :MOBILE], axis=0) != 0).any()


def test_coordinated_clients_move_where_there_are_no_more_centres_than_clients():
    for seed in range(6):
        _, location, _, states = moved("coordinated", seed)
        if np.asarray(states.sites.valid)[0].sum() <= MOBILE:
            assert (np.diff(location[:, :MOBILE], axis=0) != 0).mean() > 0.3
            return
    pytest.fail("no world has so few centres")


@pytest.mark.parametrize("name", ["waiting_met", "spectral_met"])
def test_before_the_warm_up_ends_clients_move_at_random(name):
    w = world(name, 2)._replace(numbers=MOBILITIES.numbers(name)(warm_up_met=1.0).typed())
    found = trajectory(name)(jax.random.key(2), w)
    random = trajectory("random_movement")(jax.random.key(2), w)[0]
    met = (np.asarray(found.last)[:, :MOBILE, MOBILE:] != -1).all(axis=2)
    for i in range(MOBILE):
        until = int(np.argmax(met[:, i])) if met[:, i].any() else ROUNDS
        np.testing.assert_array_equal(
            np.asarray(found.clients.location)[: until + 1, i], np.asarray(random.location)[: until + 1, i]
        )


def test_clients_in_range_tell_each_other_of_their_visits():
    w = world("waiting_met", 2)._replace(numbers=MOBILITIES.numbers("waiting_met")(tell_met=True).typed())
    states = trajectory("waiting_met")(jax.random.key(2), w)
    place, last = GRID[np.asarray(states.clients.location)], np.asarray(states.last)
    own, told = np.full((MOBILE, STATIC), -1), False
    for now in range(ROUNDS + 1):
        for i in range(MOBILE):
            own[i, oracle.in_range(place[now, i], place[now, MOBILE:], RADIUS)] = now
        near = [oracle.in_range(place[now, i], place[now, :MOBILE], RADIUS) for i in range(MOBILE)]
        told |= any(n.sum() > 1 for n in near)
        own = np.array([own[n].max(axis=0) for n in near])
        np.testing.assert_array_equal(last[now, :MOBILE, MOBILE:], own)
    assert told
