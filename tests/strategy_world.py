"""Worlds in which rules of movement are played: grids of clients, and a small plane for strategies."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from oracles import grid_world

from mdfl_jax.mobility import MOBILITIES, GridWorld, Motion, Movement, PlaneWorld, rule_numbers
from mdfl_jax.mobility.choosing import TERRAINS, look
from mdfl_jax.mobility.grid import grid_points
from mdfl_jax.mobility.plane import lattice

SIZE, MOBILE, STATIC, RADIUS, STEP = 9, 3, 7, 1.5, 2.0
ALL = MOBILE + STATIC
GRID = grid_world.square_grid(SIZE)
WIDTH, SPEED, DT, PLANE_RADIUS = np.array([400.0, 300.0]), 10.0, 8.0, 61.0
LATTICE = np.asarray(lattice(jnp.asarray(WIDTH, jnp.float32)), float)
# What oracles need of each world: the candidate points, the radius (no distance of two points), a step of a round.
SCALES = {"grid": (GRID, RADIUS, STEP), "plane": (LATTICE, PLANE_RADIUS, SPEED * DT)}


def crowd(size, clients, mobile, radius, step, seed=0, numbers=None, some_without_samples=False):
    """A grid of clients whose places and label counts are drawn; the first ones are mobile."""
    rng = np.random.default_rng(seed)
    places, counts = rng.integers(0, size * size, clients), rng.integers(0, 9, (clients, 3))
    if some_without_samples:
        counts *= rng.random((clients, 1)) < 0.8
    return GridWorld(
        grid=grid_points(size),
        start=jnp.asarray(places, jnp.int32),
        is_mobile=jnp.arange(clients) < mobile,
        label_counts=jnp.asarray(counts, jnp.int32),
        radius=jnp.float32(radius),
        max_step=jnp.float32(step),
        numbers=numbers,
    )


def static_clients(w):
    """Places and label counts of the static clients of a grid, as oracles take them."""
    still = ~np.asarray(w.is_mobile)
    return np.asarray(w.grid)[np.asarray(w.start)][still], np.asarray(w.label_counts)[still]


def moving(rule, knowledge="oracle", world="grid"):
    """A movement, in the grid unless another world is named."""
    return rule if isinstance(rule, Movement) else Movement(rule, knowledge, world)


def world(rule, seed=0, start=None, **numbers):
    """The world of a movement with these numbers; places and label counts are drawn, unless places are given."""
    movement, rng = moving(rule), np.random.default_rng(seed)
    own = {"speed_min": SPEED, "speed_max": SPEED} | numbers
    if movement.world == "plane":
        places = rng.random((ALL, 2)) * WIDTH if start is None else start
        motion = Motion(width=WIDTH[0], height=WIDTH[1], dt=DT, boundary=0, warm_up=0)
        of_world = {
            "size": jnp.asarray(WIDTH, jnp.float32),
            "start": jnp.asarray(places, jnp.float32),
            "motion": jax.tree.map(jnp.asarray, motion),
        }
    else:
        places = rng.permutation(SIZE * SIZE)[:ALL] if start is None else start
        of_world = {"grid": grid_points(SIZE), "start": jnp.asarray(places, jnp.int32), "max_step": jnp.float32(STEP)}
    return (PlaneWorld if movement.world == "plane" else GridWorld)(
        **of_world,
        is_mobile=jnp.arange(ALL) < MOBILE,
        label_counts=jnp.asarray(rng.integers(0, 9, (ALL, 3)), jnp.int32),
        radius=jnp.float32(SCALES[movement.world][1]),
        numbers=rule_numbers((movement,), **own)[0].typed(),
    )


def made(rule):
    """The mobility rule of a movement."""
    return MOBILITIES.form(moving(rule)).make()


@functools.cache
def trajectory(movement, rounds):
    """(key, world) -> states before and after each of the moves, the first first."""
    rule = made(movement)

    @jax.jit
    def run(key, w):
        start = rule.init(jax.random.key(7), w)

        def body(state, t):
            state = rule.step(jax.random.fold_in(key, t), w, state)
            return state, state

        states = jax.lax.scan(body, start, jnp.arange(rounds))[1]
        return jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), start, states)

    return run


def played(rule, seed, start=None, rounds=30, **numbers):
    """The world; [T + 1, N, 2] places; [T + 1, N] destinations, as indices of candidates; and all states."""
    w, movement = world(rule, seed, start, **numbers), moving(rule)
    states = jax.device_get(trajectory(movement, rounds)(jax.random.key(seed), w))
    places = states.body.clients.position if movement.world == "plane" else GRID[states.clients.location]
    return w, np.asarray(places, float), states.clients.destination, states


def first_places(w):
    """[N, 2] the places of all clients before the first round."""
    return np.asarray(w.start, float) if isinstance(w, PlaneWorld) else GRID[np.asarray(w.start)]


def looking(w, memory, me, known, sites):
    """What client ``me`` sees in the state ``memory`` of a rule of the grid."""
    return look(TERRAINS["grid"], w, memory, jnp.int32(me), memory.clients.destination, sites, jnp.asarray(known))
