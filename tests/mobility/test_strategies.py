"""The strategies against loops over clients and places, on the grid and in the plane, and what they promise."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import strategies as oracle
from oracles.laws import assert_law
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
from mdfl_jax.contrib.strategies.dcm_weighted import dcm_weighted
from mdfl_jax.contrib.strategies.learnt import COUNT
from mdfl_jax.contrib.strategies.spectral import spectral
from mdfl_jax.contrib.terrains.plane import LARGEST_IN_PLANE
from mdfl_jax.core.types import Held
from mdfl_jax.mobility import MOBILITIES, Movement, Sight, best, strategy
from mdfl_jax.mobility.choosing import LARGEST, NOT_SEEN, Sites
from mdfl_jax.mobility.strategies.cover_tour import nearest_first, two_opt
from mdfl_jax.study import make_study

ROUNDS = 30
CHOOSE = [  # every form of every rule whose clients choose by what they see
    Movement(name, form.knowledge or "oracle", form.world)
    for name in MOBILITIES
    for form in MOBILITIES.forms(name)
    if hasattr(form.make, "func") and form.make.func.__name__ == "choosing"
]
BY_MEETING = [movement for movement in CHOOSE if movement.knowledge != "oracle"]
EVERYWHERE = Sites(jnp.arange(SIZE * SIZE), jnp.ones(SIZE * SIZE, bool))
BOTH = pytest.mark.parametrize("where", ["grid", "plane"])


def ids(movements):
    return pytest.mark.parametrize("movement", movements, ids=str)


def assert_as_told(movement):
    """Clients go as far as they may, and remember whom they were in range of."""
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


@pytest.mark.few(2)
@ids(CHOOSE)
def test_clients_go_as_far_as_they_may_and_remember_whom_they_were_in_range_of(movement):
    assert_as_told(movement)


def waiting(paths, static, points, radius, reach, now, i):
    age = oracle.ages(paths, static, radius, now)[i]
    return oracle.waiting(paths[now, i], points, static, radius, age, reach, 0.5, 2.0)


def coverage(paths, static, points, radius, *now):
    return oracle.coverage(paths, points, radius, now[1], now[2], now[0], 0.5, 2.0)


def exploring(paths, static, points, radius, reach, now, i):
    return oracle.exploring(paths, points, static, radius, now, i, reach, 0.5, 2.0)


@pytest.mark.few(2)
@BOTH
@pytest.mark.parametrize(
    ("rule", "knowledge", "worth_of"),
    [("waiting", "oracle", waiting), ("coverage", "oracle", coverage), ("waiting", "explored", exploring)],
)
def test_clients_go_where_their_worth_is_largest(where, rule, knowledge, worth_of):
    """Where most waits; where the ground was out of range for longest; the clients expected where none was met."""
    w, places, destination, states = played(moving(rule, knowledge, where), seed=1)
    points, static, paths = SCALES[where][0], first_places(w)[MOBILE:], places[:, :MOBILE]
    for now, i in itertools.product(range(0, ROUNDS, 4), range(MOBILE)):
        worth = worth_of(paths, static, *SCALES[where], now, i)
        worth[np.linalg.norm(points - places[now, i], axis=1) < 1e-3] = -1  # a client goes on
        assert worth[destination[now + 1, i]] >= worth.max() * (1 - 1e-4)
    unmet = states.last[:, :MOBILE, MOBILE:] == -1
    assert unmet[-1].sum() < unmet[0].sum()  # there is something to explore


def test_age_aware_goes_to_the_centre_of_largest_distance_times_age():
    w, places, destination, states = played("age_aware", 0)
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


@jax.jit
def shortened(distance, length):
    return two_opt(distance, nearest_first(distance, jnp.arange(len(distance)) < length), length)


@pytest.mark.parametrize("length", [1, 2, 3, 8])
def test_a_tour_has_every_place_once_and_no_exchange_shortens_it(length):
    for seed in range(5):
        place = np.random.default_rng(seed).random((10, 2)) * 20
        distance = np.linalg.norm(place[:, None] - place, axis=-1)
        tour = np.asarray(shortened(jnp.asarray(distance, jnp.float32), length))[:length]
        assert sorted(tour.tolist()) == list(range(length))
        best = oracle.tour_length(distance, tour)
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


def test_without_an_oracle_nothing_unknown_is_seen():
    known = np.zeros(ALL, bool)
    known[MOBILE + 1] = True
    w = world(moving("waiting", "met"), 5)
    memory = jax.jit(made(moving("waiting", "met")).init)(jax.random.key(7), w)
    memory = memory._replace(clients=memory.clients._replace(destination=jnp.zeros(ALL, jnp.int32)))
    sight = looking(w, memory, 0, known, EVERYWHERE)
    near = oracle.in_range(GRID[int(w.start[MOBILE + 1])], GRID, RADIUS)
    np.testing.assert_array_equal(np.asarray(sight.near(jnp.ones(ALL))) > 0, near)
    assert (np.asarray(sight.age) > 0).sum() <= 1
    assert (np.asarray(sight.samples) > 0).sum() <= 1
    in_range = oracle.in_range(GRID[int(w.start[0])], GRID[np.asarray(w.start)][1:MOBILE], RADIUS).sum()
    assert np.asarray(sight.rivals).sum() == in_range < MOBILE - 1
    others = np.delete(np.asarray(sight.ages), 0, axis=0)
    assert (others == 1).all()  # as if they had never met anybody: one more than the 0 rounds


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
        seen, away = (start[MOBILE:], labels[MOBILE:], labels[i], SCALES["plane"][1]), np.zeros(len(LATTICE))
        away[sites] = [oracle.label_distance(LATTICE[s], start[i], *seen) for s in sites]
        assert_law(found[:, i], away / away.sum())


def test_spectral_goes_to_those_it_has_not_met():
    """Two groups of static clients; a client that has just met the smaller one belongs to it, and links the other."""
    met, other = [(1, 1), (1, 2)], [(9, 9), (9, 8), (9, 7), (9, 6), (9, 5)]
    mobile = [(5, 5), (1, 9), (9, 1)]
    points = {tuple(point): number for number, point in enumerate(GRID.astype(int).tolist())}
    w = world("spectral", start=[points[place] for place in (*mobile, *met, *other)], discount=1.0)
    rule = MOBILITIES["spectral"]()
    memory = jax.jit(rule.init)(jax.random.key(7), w)
    last = np.full(memory.last.shape, NOT_SEEN)
    last[0, 3:5], last[1, [3, 5]] = 10, 4  # the one that chooses; another, who once met one of each group
    memory = memory._replace(round=jnp.int32(10), last=jnp.asarray(last))
    sight = looking(w, memory, 0, ~w.is_mobile, EVERYWHERE)
    for seed in range(5):
        chosen = GRID[int(spectral(jax.random.key(seed), sight))]
        assert oracle.in_range(chosen, np.array(other, float), RADIUS).sum() >= 2


def test_weighted_dcm_draws_by_label_distance_times_samples():
    w = world("dcm_weighted", 5)
    memory = jax.jit(MOBILITIES["dcm_weighted"]().init)(jax.random.key(7), w)
    sight = looking(w, memory, 0, ~w.is_mobile, EVERYWHERE)
    keys = jax.random.split(jax.random.key(0), 20_000)
    static, counts = GRID[np.asarray(w.start)][MOBILE:], np.asarray(w.label_counts)
    seen, here = (static, counts[MOBILE:], counts[0], RADIUS), GRID[int(w.start[0])]
    samples = [counts[MOBILE:][oracle.in_range(point, static, RADIUS)].sum() for point in GRID]
    weight = np.array([oracle.label_distance(point, here, *seen) for point in GRID]) * samples
    assert_law(np.asarray(jax.vmap(lambda key: dcm_weighted(key, sight))(keys)), weight / weight.sum())


def test_clients_go_where_the_policy_scores_most():
    weights = np.random.default_rng(0).normal(size=COUNT).round(3)
    world, _, destination, states = played("learnt", 0, weights=" ".join(map(str, weights)))
    static, counts = GRID[np.asarray(world.start)][MOBILE:], np.asarray(world.label_counts)
    location = states.clients.location
    visited = set()
    for now, i in itertools.product(range(0, ROUNDS, 2), range(MOBILE)):
        age = oracle.ages(GRID[location[:, :MOBILE]], static, RADIUS, now)
        heading = [*destination[now + 1, :i], *destination[now, i + 1 : MOBILE]]  # those before it have chosen already
        rivals = np.array([heading.count(k) for k in range(SIZE * SIZE)])
        at, others = GRID[location[now, i]], (counts[MOBILE:], counts[i], RADIUS)
        score = oracle.learnt(weights, at, GRID, static, *others, age[i], age.min(axis=0), rivals, STEP)
        score[location[now, i]] = -np.inf
        assert score[destination[now + 1, i]] >= score.max() - 1e-4
        visited.add(int(destination[now + 1, i]))
    assert len(visited) > 3


@pytest.mark.few(1)
@pytest.mark.parametrize(("seed", "ageing"), [(1, 1.0), (0, 0.0), (2, 2.0)])
def test_clients_go_where_models_differed_most(seed, ageing):
    rng, w, rule = np.random.default_rng(seed), world("staleness", seed, ageing=ageing), made("staleness")
    places = np.asarray(w.start)
    static = GRID[places[MOBILE:]]
    state, step = rule.init(jax.random.key(7), w), jax.jit(rule.step)
    centres = np.unique(np.asarray(state.sites.place)[np.asarray(state.sites.valid)])
    remembered, paths = np.full((MOBILE, STATIC), np.nan), [GRID[places[:MOBILE]]]
    chosen = 0
    for now in range(ROUNDS):
        location, destination = (np.asarray(x) for x in (state.clients.location, state.clients.destination))
        moved = step(jax.random.key(now), w, state)
        age = oracle.ages(np.stack(paths), static, RADIUS, now)
        for i in range(MOBILE):
            new = int(moved.clients.destination[i])
            if location[i] != destination[i]:
                assert new == destination[i]
                continue
            others = [c for c in centres if c != location[i]]
            worth = {c: oracle.staleness(GRID[c], static, remembered[i], age[i], ageing, RADIUS) for c in others}
            assert worth[new] >= max(worth.values()) * (1 - 1e-5)
            chosen += len(set(worth.values())) > 1
        apart = np.abs(rng.normal(size=(ALL, ALL))).astype(np.float32)
        place = GRID[location]
        heard = np.stack([oracle.in_range(one, place, RADIUS) for one in place]) & ~np.eye(ALL, dtype=bool)
        state = rule.compare(moved, jnp.asarray(heard), jnp.asarray(apart))
        remembered = np.where(heard[:MOBILE, MOBILE:], apart[:MOBILE, MOBILE:], remembered)
        paths.append(GRID[np.asarray(state.clients.location)[:MOBILE]])
    assert chosen > MOBILE


def memory_of(state):
    """The memory of the strategy, under any networks around the spatial one."""
    while hasattr(state, "inner"):
        state = state.inner
    return state.rules[0]


@pytest.mark.long
@pytest.mark.parametrize(
    "changes",
    [
        {"network.order": "move_first", "cost.joules_per_bit": 1.0, "algorithm.participation": 0.5},
        {"engine.client_devices": 2},
    ],
    ids=["move_first, counted and thinned", "mesh"],
)
def test_a_round_tells_how_the_models_before_it_differed(changes):
    changes = {"network.mobility": "staleness", "network.radius": 1.5, "rounds": 8, **changes}
    (group,) = make_study(tiny_config(**changes)).groups
    of, data, hparams, key = group.simulation, group.simulation.data, group.hparams[0], jax.random.key(3)
    carry = jax.jit(lambda: of.first(data, hparams, key))()
    held = Held.by(jax.jit(lambda: of.partition(data, hparams, key))())
    hears = jax.jit(lambda carry: of.network.step(hparams.network, key, carry.round, carry.network, held)[1].adjacency)
    go = jax.jit(lambda carry: of.round(data, hparams, key, carry))
    remembered, changed = np.asarray(memory_of(carry.network).differs), 0
    assert (remembered == -1).all()
    for _ in range(6):
        heard = np.asarray(hears(carry))
        flat = np.concatenate([np.reshape(x, (x.shape[0], -1)) for x in jax.tree.leaves(of.models(carry)[0])], 1)
        apart = np.array([[np.linalg.norm(x - y) for y in flat.astype(float)] for x in flat.astype(float)])
        carry = go(carry)
        expected = np.where(heard, apart, remembered)
        remembered = np.asarray(memory_of(carry.network).differs)
        np.testing.assert_allclose(remembered, expected, atol=2e-5)
        changed += (heard & (apart > 1e-3)).sum()
    assert changed


@pytest.mark.usefixtures("unregistered")
def test_a_strategy_of_ones_own_has_every_world_and_knowledge():
    @strategy("nearest", everywhere=True)
    def nearest(key: jax.Array, sight: Sight) -> jax.Array:
        """Nearest: to the nearest place with a client in range."""
        return best(key, jnp.where(sight.near(sight.known.astype(float)) > 0, -sight.travel, -jnp.inf), sight)

    assert MOBILITIES.doc("nearest") == "Nearest: to the nearest place with a client in range."
    found = {(form.knowledge, form.world) for form in MOBILITIES.forms("nearest")}
    assert found == set(itertools.product(("oracle", "met"), ("grid", "plane")))
    assert_as_told(Movement("nearest", "met", "grid"))
