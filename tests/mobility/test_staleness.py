"""The strategy that moves by what models differed: its choice, and what it is told by a round."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import strategies as oracle
from strategy_world import ALL, GRID, MOBILE, RADIUS, STATIC, made, world
from tiny import tiny_config

from mdfl_jax.core.sharding import held_by
from mdfl_jax.study import make_study

ROUNDS = 30


@pytest.mark.few(1)
@pytest.mark.parametrize(("seed", "ageing"), [(0, 0.0), (1, 1.0), (2, 2.0)])
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
    held = held_by(jax.jit(lambda: of.partition(data, hparams, key))(), of.num_clients)
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
