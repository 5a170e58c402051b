"""Ten thousand clients on as many points: no array of all pairs of clients, or of all clients and points."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from array_sizes import largest
from worlds import holding

from mdfl_jax.mobility import MOBILITIES, Movement
from mdfl_jax.mobility.choosing import PlaneStrategyNumbers, StrategyNumbers
from mdfl_jax.networks.spatial import SpatialParams, spatial

N, SIZE = 10_000, 100
PAIRS = N * N // 30  # who knows whom, and where a client knows centres, is inherently a bit a pair: N N / 32
FORMS = [  # strategies refuse so many clients; places and contacts of a file are tests/engine's
    Movement(name, form.knowledge or "oracle", form.world)
    for name in MOBILITIES
    for form in MOBILITIES.forms(name)
    if form.world in ("grid", "plane") and not issubclass(form.numbers, StrategyNumbers | PlaneStrategyNumbers)
]


@pytest.mark.long
@pytest.mark.parametrize("world", ["grid", "plane"])
def test_no_array_of_all_pairs(world):
    rules = tuple(movement for movement in FORMS if movement.world == world)
    network = spatial(N, SIZE, rules, max_neighbours=31)
    numbers, key, clients = SpatialParams(N // 4), jax.random.key(0), holding(np.ones(N), 10)
    assert largest(network.init, numbers, key, clients)[0] < PAIRS
    state = jax.eval_shape(network.init, numbers, key, clients)
    assert largest(network.step, numbers, key, jnp.int32(3), state, clients)[0] < PAIRS
