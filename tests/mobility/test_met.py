"""DAM and DCM by what a client has met, against the oracle of sets and against the rules that know everybody.

Every test is of both forms, that of few clients and that of many, which keeps what is known as bits.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import grid_world
from oracles import met as oracle
from scipy import stats

from mdfl_jax.mobility import MOBILITIES, GridWorld, Movement, meeting
from mdfl_jax.mobility.clustering import centres_of
from mdfl_jax.mobility.grid import grid_points
from mdfl_jax.mobility.label_distances import counts_of, probabilities_from_counts
from mdfl_jax.mobility.meeting import MetNumbers, met_enough, unpacked

SIZE, MOBILE, STATIC, ROUNDS = 7, 3, 5, 25
GRID = grid_world.square_grid(SIZE)
NAMES = ("dam", "dcm")
TIES = jax.random.key(7)
CENTRES = jax.jit(centres_of)
WARM = jax.jit(jax.vmap(lambda w, met: met_enough(w, jnp.sum(met, axis=1)), in_axes=(None, 0)))
BOTH_FORMS = pytest.mark.parametrize("many", [False, True], ids=["few", "many"])


def world(share=0.5, tells=False, seed=0, radius=1.5, max_step=2.0, num_mobile=MOBILE):
    rng = np.random.default_rng(seed)
    return GridWorld(
        grid=grid_points(SIZE),
        start=jnp.asarray(rng.integers(0, SIZE * SIZE, MOBILE + STATIC), jnp.int32),
        is_mobile=jnp.arange(MOBILE + STATIC) < num_mobile,
        label_counts=jnp.asarray(rng.integers(0, 9, (MOBILE + STATIC, 3)), jnp.int32),
        radius=jnp.float32(radius),
        max_step=jnp.float32(max_step),
        numbers=MetNumbers(warm_up_met=share, tell_met=tells).typed(),
    )


def static_clients(w):
    return GRID[np.asarray(w.start)][MOBILE:], np.asarray(w.label_counts)[MOBILE:]


@pytest.fixture
def form(many, monkeypatch):
    """The form of few clients or that of many, on pieces of the grid."""
    monkeypatch.setattr(meeting, "is_many", lambda world: many)
    monkeypatch.setattr(meeting, "SIDE", 4)


def made(name, knowledge="met"):
    return MOBILITIES.form(Movement(name, knowledge)).make()


@functools.cache
def trajectory(name, knowledge="met", many=False):
    """(key, world) -> states before and after each of ROUNDS moves, the first first."""
    rule = made(name, knowledge)

    @jax.jit
    def run(key, w):
        start = rule.init(TIES, w)

        def body(state, t):
            state = rule.step(jax.random.fold_in(key, t), w, state)
            return state, state

        states = jax.lax.scan(body, start, jnp.arange(ROUNDS))[1]
        return jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), start, states)

    return run


def as_bools(known, count=MOBILE + STATIC):
    """What is known as bools, also if it is kept as bits."""
    return unpacked(known, count) if known.dtype == jnp.uint32 else known


def known_sets(met):
    """[N, N] bool as the oracle's sets, of static clients counted from 0."""
    return [set((np.flatnonzero(row) - MOBILE).tolist()) for row in np.asarray(met)[:MOBILE]]


@pytest.mark.few(2)
@pytest.mark.parametrize("name", NAMES)
@BOTH_FORMS
@pytest.mark.usefixtures("form")
def test_knowledge_is_the_oracles_and_only_grows(name, many):
    for tells in (False, True):
        told_more = False
        for seed in range(4):
            w = world(tells=tells, seed=seed)
            states = trajectory(name, many=many)(jax.random.key(seed), w)
            met, paths = np.asarray(as_bools(states.met)), GRID[np.asarray(states.clients.location)[:, :MOBILE]]
            expected = oracle.knowledge(paths, static_clients(w)[0], 1.5, tells)
            assert [known_sets(m) for m in met] == expected
            assert (met[1:] >= met[:-1]).all()
            assert not met[:, MOBILE:].any()
            assert not met[:, :, :MOBILE].any()
            assert met[-1].sum() > met[0].sum()
            told_more |= expected != oracle.knowledge(paths, static_clients(w)[0], 1.5)
        assert told_more == tells  # the option does something, and nothing where it is off


@pytest.mark.parametrize("share", [0.0, 0.2, 0.6, 1.0])
def test_the_threshold(share):
    met = jnp.arange(MOBILE + STATIC)[None, :] < jnp.arange(STATIC + 1)[:, None]
    got = np.asarray(met_enough(world(share), jnp.sum(met, axis=1)))
    assert got.tolist() == [oracle.met_enough(known, STATIC, share) for known in range(STATIC + 1)]
    assert got.tolist() == [known >= max(1, round(share * STATIC)) for known in range(STATIC + 1)]


@pytest.mark.parametrize("name", NAMES)
@BOTH_FORMS
@pytest.mark.usefixtures("form")
def test_before_the_threshold_it_is_random_movement(name, many):
    """The same draws from the same keys, until the round in which a client has met enough; then it parts from it."""
    w = world(share=0.6)
    states = trajectory(name, many=many)(jax.random.key(1), w)
    free = trajectory("random_movement")(jax.random.key(1), w)
    location, random_location = np.asarray(states.clients.location), np.asarray(free[0].location)
    warm, parted = np.asarray(WARM(w, as_bools(states.met))), 0
    for i in range(MOBILE):
        end = int(np.argmax(warm[:, i])) if warm[:, i].any() else ROUNDS
        assert (location[: end + 1, i] == random_location[: end + 1, i]).all()
        parted += 1 < end < ROUNDS and (location[end + 1 :, i] != random_location[end + 1 :, i]).any()
    assert parted


@pytest.mark.few(2)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@BOTH_FORMS
@pytest.mark.usefixtures("form")
def test_with_everybody_met_it_is_the_rule_with_an_oracle(name, share, many):
    """Everybody in range of every first place: the same centres and, move by move, the same places, exactly."""
    corner = world(share)
    w = corner._replace(start=corner.start.at[:MOBILE].set(24).at[MOBILE:].set(jnp.array([16, 17, 23, 25, 31])))
    states = trajectory(name, many=many)(jax.random.key(2), w)
    known = trajectory(name, "oracle")(jax.random.key(2), w)
    met = as_bools(states.met)
    assert np.asarray(met)[0, :MOBILE, MOBILE:].all()
    np.testing.assert_array_equal(states.clients.location, known[0].location)
    np.testing.assert_array_equal(states.clients.destination, known[0].destination)
    counts_near, centres = (np.asarray(leaf)[0] for leaf in known[1])
    if name == "dcm":
        chosen = as_bools(states.centres.chosen, SIZE * SIZE)
        np.testing.assert_array_equal(np.asarray(chosen)[-1, :MOBILE], np.stack([centres] * MOBILE))
    ours = counts_of(w, met[0, 0])
    for here in (0, 24, 40):
        of = [probabilities_from_counts(here, w.label_counts[0], jnp.asarray(c), centres) for c in (ours, counts_near)]
        np.testing.assert_array_equal(*of)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", NAMES)
@BOTH_FORMS
@pytest.mark.usefixtures("form")
def test_law_of_the_next_place(name, many):
    """By the oracle's law of the clients known, in the states that a run comes to, warm ones and others."""
    share = 0.6
    w, rule = world(share, seed=3), made(name)
    position, counts = static_clients(w)
    states = trajectory(name, many=many)(jax.random.key(3), w)
    draws = 4000
    step = jax.jit(jax.vmap(lambda k, s: rule.step(k, w, s).clients.location, in_axes=(0, None)))
    ways = set()
    for t in (0, 8, 20):
        state = jax.tree.map(lambda leaf, t=t: leaf[t], states)
        state = state._replace(clients=state.clients._replace(destination=state.clients.location))
        places = np.asarray(step(jax.random.split(jax.random.key(t), draws), state))
        for i, known in enumerate(known_sets(as_bools(state.met))):
            candidates = np.ones(SIZE * SIZE, bool)
            if name == "dcm":
                candidates = np.asarray(CENTRES(w, TIES, as_bools(state.met)[i]))
                assert grid_world.is_possible_outcome(
                    np.flatnonzero(candidates), GRID, position[sorted(known)].reshape(-1, 2), 1.5
                )
            here, own = int(state.clients.location[i]), np.asarray(w.label_counts[i])
            law = oracle.law(here, own, position, counts, known, GRID, 1.5, 2.0, share, candidates)
            ways.add(oracle.met_enough(len(known), STATIC, share))
            observed = np.bincount(places[:, i], minlength=len(law))
            assert observed[law < 1e-9].sum() == 0
            likely = law * draws >= 5
            rest = max(1e-9, 1 - law[likely].sum())
            expected = np.append(law[likely], rest) * draws
            seen = np.append(observed[likely], observed[~likely].sum())
            keep = expected > 5
            if keep.sum() > 1:
                total = seen[keep].sum() / expected[keep].sum()
                assert stats.chisquare(seen[keep], expected[keep] * total).pvalue > 1e-4
    assert ways == {False, True}


def test_destinations_are_centres_of_those_known_at_the_choice():
    w = world(share=0.2, seed=6)
    states = trajectory("dcm")(jax.random.key(5), w)
    location, destination = (np.asarray(leaf) for leaf in states.clients[:2])
    warm, held, choices, changes = np.asarray(WARM(w, states.met)), np.asarray(states.centres.chosen), 0, 0
    for t in range(ROUNDS):
        for i in range(MOBILE):
            if warm[t, i] and location[t, i] == destination[t, i]:
                centres = np.asarray(CENTRES(w, TIES, states.met[t, i]))
                assert centres[destination[t + 1, i]]
                choices += 1
                changes += held[t, i].any() and not np.array_equal(centres, held[t, i])
    assert choices > changes > 0  # found anew later than at the first choice, and not at every one


@pytest.mark.parametrize("name", NAMES)
def test_nobody_to_meet(name):
    """With every client mobile the warm-up is over, and the rule is the one with an oracle."""
    w = world(1.0, num_mobile=MOBILE + STATIC)
    states, known = (trajectory(name, knowledge)(jax.random.key(6), w) for knowledge in ("met", "oracle"))
    np.testing.assert_array_equal(states.clients.location, known[0].location)
