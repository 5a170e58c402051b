"""DAM and DCM by what a client has met, against the oracle of sets.

Every test is of both forms, that of few clients and that of many, which keeps what is known as bits.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import grid_world
from oracles import met as oracle
from oracles.laws import assert_law
from strategy_world import crowd, static_clients, trajectory

from mdfl_jax.mobility import MOBILITIES, Movement, meeting
from mdfl_jax.mobility.clustering import centres_of
from mdfl_jax.mobility.meeting import MetNumbers, unpacked

SIZE, MOBILE, STATIC, ROUNDS = 7, 3, 5, 25
GRID = grid_world.square_grid(SIZE)
NAMES = ("dam", "dcm")
TIES = jax.random.key(7)
CENTRES = jax.jit(centres_of)
BOTH_FORMS = pytest.mark.parametrize("many", [True, False], ids=["many", "few"])


def world(share=0.5, tells=False, seed=0):
    numbers = MetNumbers(warm_up_met=share, tell_met=tells).typed()
    return crowd(SIZE, MOBILE + STATIC, MOBILE, 1.5, 2.0, seed, numbers)


@pytest.fixture
def form(many, monkeypatch):
    """The form of few clients or that of many, on pieces of the grid."""
    monkeypatch.setattr(meeting, "is_many", lambda world: many)
    monkeypatch.setattr(meeting, "SIDE", 4)


@functools.cache
def play(name, many):
    """(key, world) -> states before and after each of ROUNDS moves, the first first; of one form."""
    return trajectory.__wrapped__(Movement(name, "met"), ROUNDS)


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
            states = play(name, many)(jax.random.key(seed), w)
            met, paths = np.asarray(as_bools(states.met)), GRID[np.asarray(states.clients.location)[:, :MOBILE]]
            expected = oracle.knowledge(paths, static_clients(w)[0], 1.5, tells)
            assert [known_sets(m) for m in met] == expected
            assert (met[1:] >= met[:-1]).all()
            assert not met[:, MOBILE:].any()
            assert not met[:, :, :MOBILE].any()
            assert met[-1].sum() > met[0].sum()
            told_more |= expected != oracle.knowledge(paths, static_clients(w)[0], 1.5)
        assert told_more == tells  # the option does something, and nothing where it is off


@pytest.mark.few(2)
@pytest.mark.parametrize("name", NAMES)
@BOTH_FORMS
@pytest.mark.usefixtures("form")
def test_law_of_the_next_place(name, many):
    """By the oracle's law of the clients known, in the states that a run comes to, warm ones and others."""
    share = 0.6
    w, rule = world(share, seed=3), MOBILITIES.form(Movement(name, "met")).make()
    position, counts = static_clients(w)
    states = play(name, many)(jax.random.key(3), w)
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
            assert_law(places[:, i], law)
    assert ways == {False, True}
