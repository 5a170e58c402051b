"""A small grid world in which strategies are played: three mobile clients and seven static ones on 9 x 9 points."""

import jax.numpy as jnp
import numpy as np
from oracles import grid_world

from mdfl_jax.mobility import MOBILITIES, GridWorld
from mdfl_jax.mobility.grid import grid_points

SIZE, MOBILE, STATIC, RADIUS, STEP = 9, 3, 7, 1.5, 2.0
GRID = grid_world.square_grid(SIZE)


def world(name, seed=0, start=None, **numbers):
    """The world of a rule with these numbers; places and label counts are drawn, unless places are given."""
    rng = np.random.default_rng(seed)
    places = rng.permutation(SIZE * SIZE)[: MOBILE + STATIC] if start is None else start
    return GridWorld(
        grid=grid_points(SIZE),
        start=jnp.asarray(places, jnp.int32),
        is_mobile=jnp.arange(MOBILE + STATIC) < MOBILE,
        label_counts=jnp.asarray(rng.integers(0, 9, (MOBILE + STATIC, 3)), jnp.int32),
        radius=jnp.float32(RADIUS),
        max_step=jnp.float32(STEP),
        numbers=MOBILITIES.numbers(name)(**numbers).typed(),
    )
