"""Movement of very many clients: what is computed in another way there, against what it stands for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles import grid_world
from oracles.laws import assert_law
from strategy_world import crowd

from mdfl_jax.mobility import MOBILITIES, GridWorld, Movement, meeting
from mdfl_jax.mobility.grid import grid_points
from mdfl_jax.mobility.meeting import MetNumbers

SIZE, NUM_CLIENTS, MOBILE = 8, 30, 12
RULES = [*map(Movement, ("static", "random_movement", "dam", "dcm")), Movement("dam", "met"), Movement("dcm", "met")]


def world_of(seed=0, radius=2.0, tells=False, mobile=MOBILE):
    numbers = MetNumbers(warm_up_met=0.2, tell_met=tells).typed()
    return crowd(SIZE, NUM_CLIENTS, mobile, radius, 2.5, seed, numbers)


def paths_of(movement, worlds, rounds=10):
    """Places, destinations and cluster centres after each round, in each of the worlds."""
    rule = MOBILITIES.form(movement).make()

    @jax.jit
    def run(world):
        def body(state, t):
            state = rule.step(jax.random.fold_in(jax.random.key(1), t), world, state)
            centres = rule.centres(world, state) if rule.centres else None
            heading = rule.destination(world, state) if rule.destination else None
            return state, (rule.position(world, state), heading, centres)

        return jax.lax.scan(body, rule.init(jax.random.key(7), world), jnp.arange(rounds))[1]

    return [jax.device_get(run(world)) for world in worlds]


@pytest.mark.long
@pytest.mark.parametrize("movement", RULES, ids=str)
@pytest.mark.parametrize("dense", [2**22, 0], ids=["dense", "not dense"])
def test_the_same_movement_draw_by_draw(movement, dense, monkeypatch):
    """Chunks, clients one by one, discs by rows, bits and pieces of the grid, but no tries: the same places."""
    worlds = [world_of(0), world_of(1, 1.0, True), world_of(2, np.inf, True), world_of(3, 0.0, mobile=NUM_CLIENTS)]
    expected = paths_of(movement, worlds)
    monkeypatch.setattr("mdfl_jax.mobility.grid.LARGEST_AT_ONCE", 0)
    monkeypatch.setattr("mdfl_jax.mobility.grid.LARGEST_DENSE", dense)
    monkeypatch.setattr("mdfl_jax.mobility.grid.TRIES", 0)
    monkeypatch.setattr(meeting, "SIDE", 5)
    for got, wanted in zip(paths_of(movement, worlds), expected):
        jax.tree.map(np.testing.assert_array_equal, got, wanted)


WORLDS = {  # (places of static clients, their counts, own counts, radius, candidates): 4 x 4 points
    "few static clients": ([0, 9], [[4, 0], [0, 4]], [2, 1], 1.0, None),
    "static clients everywhere": ([0, 3, 10, 12], [[4, 0], [0, 4], [2, 2], [1, 0]], [0, 3], 2.0, None),
    "three candidates": ([0, 5, 10], [[4, 0], [0, 4], [1, 1]], [1, 1], 1.0, [0, 5, 15]),
    "counts alike at all points": ([0, 5], [[4, 0], [0, 4]], [1, 0], np.inf, [1, 2, 9]),
    "no samples": ([0, 5], [[0, 0], [0, 0]], [0, 0], 1.0, None),
}
DRAWS = 6_000


@pytest.mark.few(2)
@pytest.mark.parametrize("tries", [128, 1])
@pytest.mark.parametrize("name", WORLDS)
def test_law_of_destinations(name, tries, monkeypatch):
    """The oracle's law, whether most clients are settled by tries or most of them by the draw after these."""
    places, counts, own, radius, only = WORLDS[name]
    grid, here = grid_world.square_grid(4), 1
    candidates = np.isin(np.arange(16), np.arange(16) if only is None else only)
    law = grid_world.destination_probabilities(here, own, grid[places], counts, grid, radius, candidates)
    for constant, value in (("LARGEST_AT_ONCE", 0), ("LARGEST_DENSE", 0), ("TRIES", tries)):
        monkeypatch.setattr(f"mdfl_jax.mobility.grid.{constant}", value)
    rule = MOBILITIES["dam"]()
    world = GridWorld(
        grid=grid_points(4),
        start=jnp.concatenate([jnp.full(DRAWS, here, jnp.int32), jnp.asarray(places, jnp.int32)]),
        is_mobile=jnp.arange(DRAWS + len(places)) < DRAWS,
        label_counts=jnp.concatenate(
            [jnp.tile(jnp.asarray(own, jnp.int32), (DRAWS, 1)), jnp.asarray(counts, jnp.int32)]
        ),
        radius=jnp.float32(radius),
        max_step=jnp.float32(0),
    )
    clients, (near, _) = rule.init(jax.random.key(0), world)
    moved = jax.jit(rule.step)(jax.random.key(1), world, (clients, (near, jnp.asarray(candidates))))[0]
    assert_law(np.asarray(moved.destination[:DRAWS]), law)
    np.testing.assert_array_equal(moved.destination[DRAWS:], places)
