"""The strategies against loops over clients and places, on the grid and in the plane, and what they promise."""

import itertools
import re
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import strategies as oracle
from strategy_world import (
    ALL,
    GRID,
    LATTICE,
    MOBILE,
    RADIUS,
    SCALES,
    SIZE,
    STATIC,
    STEP,
    first_places,
    looking,
    made,
    moving,
    played,
    world,
)
from tiny import tiny_config

from mdfl_jax import UserError
from mdfl_jax.mobility import MOBILITIES, Movement
from mdfl_jax.mobility.choosing import LARGEST, LARGEST_IN_PLANE, NEVER, Sight, Sites, drawn
from mdfl_jax.mobility.strategies.cover_tour import nearest_first, two_opt
from mdfl_jax.mobility.strategies.dcm_weighted import dcm_weighted
from mdfl_jax.mobility.strategies.spectral import fiedler, spectral
from mdfl_jax.study import make_study

ROUNDS = 30
CHOOSE = [  # every form of every rule whose clients choose by what they see
    Movement(name, form.knowledge or "oracle", form.world)
    for name in MOBILITIES
    for form in MOBILITIES.forms(name)
    if hasattr(form.make, "func") and form.make.func.__name__ == "choosing"
]
BY_MEETING = [movement for movement in CHOOSE if movement.knowledge != "oracle"]
BOTH = pytest.mark.parametrize("where", ["grid", "plane"])


def ids(movements):
    return pytest.mark.parametrize("movement", movements, ids=str)


@pytest.mark.few(3)
@ids(CHOOSE)
def test_clients_go_as_far_as_they_may_and_remember_whom_they_were_in_range_of(movement):
    w, places, destination, states = played(movement, seed=1)
    points, radius, reach = SCALES[movement.world]
    steps = np.linalg.norm(np.diff(places, axis=0), axis=-1)
    assert steps.max() <= reach + 1e-3
    assert len(np.unique(np.round(places[:, 0]), axis=0)) > 3
    first, last = first_places(w), np.asarray(states.last)
    np.testing.assert_allclose(places[:, MOBILE:], np.broadcast_to(first[MOBILE:], places[:, MOBILE:].shape), atol=1e-4)
    for now in range(0, ROUNDS, 7):
        expected = now - oracle.ages(places[:, :MOBILE], first[MOBILE:], radius, now)
        np.testing.assert_array_equal(last[now, :MOBILE, MOBILE:], expected)
    assert (last[:, MOBILE:] == -1).all()
    if movement.world == "plane":  # straight on, as fast as they may
        way = points[destination[1:, :MOBILE]] - places[:-1, :MOBILE]
        share = np.minimum(reach / np.maximum(np.linalg.norm(way, axis=-1), 1e-6), 1.0)[..., None]
        np.testing.assert_allclose(places[1:, :MOBILE], places[:-1, :MOBILE] + share * way, atol=0.05)
        np.testing.assert_allclose(states.body.path.points[1:, :MOBILE, -1], places[1:, :MOBILE], atol=1e-3)
        np.testing.assert_allclose(states.body.path.points[1:, :MOBILE, 0], places[:-1, :MOBILE], atol=1e-3)
        assert (np.diff(states.body.path.times) >= 0).all()


def chooses_best(movement, seed, worth_of):
    """Check that every mobile client goes where ``worth_of`` is largest, its own point excepted."""
    w, places, destination, _ = played(movement, seed)
    points, _, _ = SCALES[movement.world]
    static, paths = first_places(w)[MOBILE:], places[:, :MOBILE]
    for now, i in itertools.product(range(0, ROUNDS, 2), range(MOBILE)):
        worth = worth_of(paths, static, now, i)
        worth[np.linalg.norm(points - places[now, i], axis=1) < 1e-3] = -1  # a client goes on
        assert worth[destination[now + 1, i]] >= worth.max() * (1 - 1e-4)


def waiting(where, paths, static, now, i):
    points, radius, reach = SCALES[where]
    age = oracle.ages(paths, static, radius, now)[i]
    return oracle.waiting(paths[now, i], points, static, radius, age, reach, 0.5, 2.0)


def coverage(where, paths, static, now, i):
    points, radius, reach = SCALES[where]
    return oracle.coverage(paths, points, radius, now, i, reach, 0.5, 2.0)


def exploring(where, paths, static, now, i):
    points, radius, reach = SCALES[where]
    return oracle.exploring(paths, points, static, radius, now, i, reach, 0.5, 2.0)


@pytest.mark.few(3)
@BOTH
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("rule", "knowledge", "worth"),
    [("waiting", "oracle", waiting), ("coverage", "oracle", coverage), ("waiting", "explored", exploring)],
)
def test_clients_go_where_their_worth_is_largest(where, seed, rule, knowledge, worth):
    """Where most waits; where the ground was out of range for longest; the clients expected where none was met."""
    movement = moving(rule, knowledge, where)
    chooses_best(movement, seed, partial(worth, where))
    if knowledge == "explored":
        unmet = played(movement, seed)[-1].last[:, :MOBILE, MOBILE:] == -1
        assert unmet[0].any()  # else there would be nothing to explore
        assert unmet[-1].sum() < unmet[0].sum()


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(3))
def test_age_aware_goes_to_the_centre_of_largest_distance_times_age(seed):
    w, places, destination, states = played("age_aware", seed)
    location, static, counts = states.clients.location, first_places(w)[MOBILE:], np.asarray(w.label_counts)
    centres = np.unique(states.sites.place[0][states.sites.valid[0]])
    for now, i in itertools.product(range(ROUNDS), range(MOBILE)):
        if location[now, i] != destination[now, i]:
            assert destination[now + 1, i] == destination[now, i]
            continue
        latest = oracle.ages(places[:, :MOBILE], static, RADIUS, now).min(axis=0)
        score = {}
        for centre in centres[centres != location[now, i]]:
            near = oracle.in_range(GRID[centre], static, RADIUS)
            away = oracle.label_distance(
                GRID[centre], GRID[location[now, i]], static, counts[MOBILE:], counts[i], RADIUS
            )
            score[centre] = away * latest[near].mean()
        assert score[destination[now + 1, i]] >= max(score.values()) - 1e-4


def test_coordinated_clients_go_to_different_centres_if_there_are_enough():
    tried = 0
    for seed in range(6):
        _, places, destination, states = played("coordinated", seed)
        if states.sites.valid[0].sum() <= MOBILE:
            assert (np.diff(places[:, :MOBILE], axis=0) != 0).any(axis=2).mean() > 0.3
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


@BOTH
def test_a_cover_tour_visits_every_centre_in_turn_from_places_spread_along_it(where):
    _, _, destination, states = played(moving("cover_tour", world=where), seed=2, rounds=60)
    length = int(states.plan.length[0])
    tour = states.sites.place[0][states.plan.order[0][:length]].tolist()
    assert destination[1, :MOBILE].tolist() == [tour[i * length // MOBILE] for i in range(MOBILE)]
    for i in range(MOBILE):
        changes = [k for k, _ in itertools.groupby(destination[1:, i].tolist())]
        at = tour.index(changes[0])
        assert len(changes) > 3
        assert changes == [tour[(at + k) % length] for k in range(len(changes))]


def test_the_fiedler_vector_has_nearly_the_second_eigenvalue_of_numpy():
    weight = np.kron(np.eye(2), np.ones((5, 5))) - np.eye(10)  # two groups, and one weak link between them
    weight[0, 9] = weight[9, 0] = 0.3
    laplacian = np.diag(weight.sum(axis=1)) - weight
    smallest = np.linalg.eigvalsh(laplacian)[1]
    found = np.asarray(fiedler(jax.random.key(1), jnp.asarray(weight, jnp.float32), jnp.ones(10, bool)))
    assert abs(found.sum()) < 1e-4
    assert smallest - 1e-4 <= found @ laplacian @ found <= 1.1 * smallest


@pytest.mark.few(2)
@ids(BY_MEETING)
def test_a_client_that_was_not_met_does_not_matter(movement):
    """It stands in one far corner or in the other; until it is met, all clients move alike."""
    if movement.world == "plane":
        places = np.random.default_rng(3).random((ALL, 2)) * [400.0, 100.0]
        far = np.array([[399.0, 299.0], [1.0, 299.0]])
    else:
        places = np.random.default_rng(3).permutation(SIZE * SIZE // 2)[:ALL]
        far = np.array([SIZE * SIZE - 1, SIZE * SIZE - SIZE])
    paths, until = [], ROUNDS
    for corner in far:
        start = np.concatenate([places[:-1], corner[None]])
        _, moved, _, states = played(movement, 3, start)
        met = (states.last[:, :MOBILE, -1] != -1).any(axis=1)
        until = min(until, int(np.argmax(met)) if met.any() else ROUNDS)
        paths.append(moved)
    assert until > 1
    np.testing.assert_array_equal(paths[0][:until, :-1], paths[1][:until, :-1])


@pytest.mark.parametrize(("where", "most"), [("grid", LARGEST), ("plane", LARGEST_IN_PLANE)])
def test_rules_of_a_world_share_one_program_and_many_clients_are_refused(where, most):
    also = [("waypoint", "oracle") if where == "grid" else ("random_waypoint", "oracle"), ("dcm", "oracle")]
    pairs = dict.fromkeys([*also, *((m.rule, m.knowledge) for m in CHOOSE if m.world == where)])
    changes = {"network.world": where, "network.radius": 60.0, "motion.dt": 5.0}
    sweep = "network.mobility+motion.knowledge=" + ",".join(map("+".join, pairs))
    assert len(make_study(tiny_config(**changes, sweep=sweep)).groups) == 1
    with pytest.raises(UserError, match=f"network.num_clients is {most + 1}; with network.mobility waiting"):
        make_study(tiny_config(**changes, **{"network.mobility": "waiting", "network.num_clients": most + 1}))


@pytest.mark.usefixtures("unregistered")
def test_the_strategy_that_the_page_shows_runs():
    text = (Path(__file__).parents[2] / "docs" / "strategies.md").read_text()
    exec(re.search(r"```python\n(.*?strategy.*?)```", text, re.S)[1], {"__name__": "page"})
    sweep = "network.mobility=dcm,nearest_oldest; motion.knowledge=oracle,met; network.world=grid,plane"
    assert len(make_study(tiny_config(sweep=sweep)).groups) == 2


def seen_by(rule, known=None, others=None):
    """What client 0 sees of every point before the first round; ``others`` are destinations of all clients."""
    w = world(rule, 5)
    memory = jax.jit(made(rule).init)(jax.random.key(7), w)
    sites = Sites(jnp.arange(SIZE * SIZE), jnp.ones(SIZE * SIZE, bool))
    return w, looking(rule, w, memory, 0, ~np.asarray(w.is_mobile) if known is None else known, sites, others)


def test_what_a_client_sees_of_every_place(monkeypatch):
    w, sight = seen_by("waiting")
    static, counts = GRID[np.asarray(w.start)][MOBILE:], np.asarray(w.label_counts)
    values = np.random.default_rng(0).random(ALL)
    place = GRID[int(w.start[0])]
    for k, point in enumerate(GRID):
        near = oracle.in_range(point, static, RADIUS)
        away = oracle.label_distance(point, place, static, counts[MOBILE:], counts[0], RADIUS)
        assert abs(float(sight.distance[k]) - away) < 1e-5
        assert float(sight.travel[k]) == np.ceil(np.linalg.norm(point - place) / STEP - 1e-6)
        assert abs(float(sight.near(jnp.asarray(values, jnp.float32))[k]) - values[MOBILE:][near].sum()) < 1e-5
    monkeypatch.setattr("mdfl_jax.mobility.choosing.is_dense", lambda *sizes: False)
    _, other = seen_by("waiting")
    dense, linear = (s.near(jnp.asarray(values, jnp.float32)) for s in (sight, other))
    np.testing.assert_allclose(dense, linear, atol=1e-5)
    np.testing.assert_allclose(sight.distance, other.distance, atol=1e-6)


def test_without_an_oracle_nothing_unknown_is_seen():
    known = np.zeros(ALL, bool)
    known[MOBILE + 1] = True
    w, sight = seen_by(moving("waiting", "met"), known=known, others=[0] * ALL)
    near = oracle.in_range(GRID[int(w.start[MOBILE + 1])], GRID, RADIUS)
    np.testing.assert_array_equal(np.asarray(sight.near(jnp.ones(ALL))) > 0, near)
    assert (np.asarray(sight.age) > 0).sum() <= 1
    assert (np.asarray(sight.samples) > 0).sum() <= 1
    in_range = oracle.in_range(GRID[int(w.start[0])], GRID[np.asarray(w.start)][1:MOBILE], RADIUS).sum()
    assert np.asarray(sight.rivals).sum() == in_range < MOBILE - 1
    others = np.delete(np.asarray(sight.ages), 0, axis=0)
    assert (others == 1).all()  # as if they had never met anybody: one more than the 0 rounds


def test_in_the_plane_centres_cover_whom_a_point_covers_and_a_client_on_its_way_goes_on():
    w, _, destination, states = played(moving("dcm", world="plane"), seed=2)
    centres, radius = LATTICE[states.sites.place[0][states.sites.valid[0]]], SCALES["plane"][1]
    for place in first_places(w)[MOBILE:]:
        if oracle.in_range(place, LATTICE, radius).any():
            assert oracle.in_range(place, centres, radius).any()
    left = states.body.clients.time_left[:-1, :MOBILE]
    under_way = (left > 0) & np.isfinite(left)
    assert (destination[1:, :MOBILE] == destination[:-1, :MOBILE])[under_way].all()
    assert under_way.sum() > 3


@pytest.mark.few(1)
@pytest.mark.parametrize("rule", ["dam", "dcm"])
def test_in_the_plane_dam_and_dcm_draw_in_proportion_to_label_distance(rule):
    movement = moving(rule, world="plane")
    w, form = world(movement, 3), made(movement)
    state = jax.jit(form.init)(jax.random.key(7), w)
    keys = jax.random.split(jax.random.key(0), 3000)
    found = np.asarray(jax.jit(jax.vmap(lambda k: form.step(k, w, state).clients.destination))(keys))
    start, labels = first_places(w), np.asarray(w.label_counts)
    sites = np.asarray(state.sites.place)[np.asarray(state.sites.valid)]
    assert len(sites) == len(LATTICE) if rule == "dam" else len(sites) <= STATIC
    for i in range(MOBILE):
        seen = start[MOBILE:], labels[MOBILE:], labels[i], SCALES["plane"][1]
        away = np.array([oracle.label_distance(LATTICE[s], start[i], *seen) for s in sites])
        share = np.array([(found[:, i] == s).mean() for s in sites])
        np.testing.assert_allclose(share, away / away.sum(), atol=0.035)


def second_eigenvalue(weight):
    return np.linalg.eigvalsh(np.diag(weight.sum(axis=1)) - weight)[1]


def recent(paths, static, now, memory=0.8):
    """The weights of the contacts so far, between mobile clients (first) and static ones."""
    weight = np.zeros((MOBILE + STATIC, MOBILE + STATIC))
    for a, b in itertools.combinations(range(STATIC), 2):
        weight[MOBILE + a, MOBILE + b] = oracle.in_range(static[a], static[b][None], RADIUS)[0]
    for i, age in enumerate(oracle.ages(paths, static, RADIUS, now)):
        weight[i, MOBILE:] = np.where(age <= now, memory**age, 0)
    return np.maximum(weight, weight.T)


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(3))
def test_spectral_raises_the_second_eigenvalue_more_than_nearly_all_other_places_would(seed):
    w, _, destination, states = played("spectral", seed, rounds=24)
    location = states.clients.location
    static, paths, ranks = GRID[np.asarray(w.start)][MOBILE:], GRID[location[:, :MOBILE]], []
    for now, i in itertools.product(range(8, 24), range(MOBILE)):
        weight = recent(paths, static, now)
        before = second_eigenvalue(weight)
        if location[now, i] != destination[now, i] or before < 1e-3:
            continue
        worth = []
        for point in GRID:
            near = oracle.in_range(point, static, RADIUS)
            with_visit = weight.copy()
            with_visit[i, MOBILE:] += 1e-3 * near  # a small weight, since the rule is of first order
            rounds = np.ceil(np.linalg.norm(point - GRID[location[now, i]]) / STEP - 1e-6)
            worth.append((second_eigenvalue(np.maximum(with_visit, with_visit.T)) - before) * 0.5**rounds)
        others = np.delete(np.array(worth), location[now, i])
        ranks.append(np.mean(others <= worth[destination[now + 1, i]] + 1e-9))
    assert len(ranks) > 10
    assert np.mean(ranks) > 0.9


def test_spectral_goes_to_those_it_has_not_met():
    """Two groups of static clients; a client that has just met the smaller one belongs to it, and links the other."""
    met, other = [(1, 1), (1, 2)], [(9, 9), (9, 8), (9, 7), (9, 6), (9, 5)]
    mobile = [(5, 5), (1, 9), (9, 1)]
    points = {tuple(point): number for number, point in enumerate(GRID.astype(int).tolist())}
    w = world("spectral", start=[points[place] for place in (*mobile, *met, *other)], discount=1.0)
    rule = MOBILITIES["spectral"]()
    memory = jax.jit(rule.init)(jax.random.key(7), w)
    last = np.full(memory.last.shape, NEVER)
    last[0, 3:5], last[1, [3, 5]] = 10, 4  # the one that chooses; another, who once met one of each group
    memory = memory._replace(round=jnp.int32(10), last=jnp.asarray(last))
    sites = Sites(jnp.arange(SIZE * SIZE), jnp.ones(SIZE * SIZE, bool))
    sight = looking("spectral", w, memory, 0, ~w.is_mobile, sites)
    for seed in range(5):
        chosen = GRID[int(spectral(jax.random.key(seed), sight))]
        assert oracle.in_range(chosen, np.array(other, float), RADIUS).sum() >= 2


def test_weighted_dcm_draws_by_label_distance_times_samples():
    w = world("dcm_weighted", 5)
    memory = jax.jit(MOBILITIES["dcm_weighted"]().init)(jax.random.key(7), w)
    sites = Sites(jnp.arange(SIZE * SIZE), jnp.ones(SIZE * SIZE, bool))
    sight = looking("dcm_weighted", w, memory, 0, ~w.is_mobile, sites)
    keys = jax.random.split(jax.random.key(0), 20_000)
    found = np.bincount(jax.vmap(lambda key: dcm_weighted(key, sight))(keys), minlength=len(GRID)) / len(keys)
    static, counts = GRID[np.asarray(w.start)][MOBILE:], np.asarray(w.label_counts)
    weight = np.array(
        [
            oracle.label_distance(point, GRID[int(w.start[0])], static, counts[MOBILE:], counts[0], RADIUS)
            * counts[MOBILE:][oracle.in_range(point, static, RADIUS)].sum()
            for point in GRID
        ]
    )
    np.testing.assert_allclose(found, weight / weight.sum(), atol=0.012)
    assert (found[weight == 0] == 0).all()
