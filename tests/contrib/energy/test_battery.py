"""Batteries: who has no energy is silent and stands still, whatever the rule of movement."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import toy_hparams
from worlds import holding, played

from mdfl_jax.contrib.energy.battery import BatteryParams, powered
from mdfl_jax.mobility import MOBILITIES
from mdfl_jax.mobility.plane import Motion
from mdfl_jax.networks.costs import CostParams, CountedParams, Work, counted
from mdfl_jax.networks.spatial import spatial

N, ROUNDS = 6, 14


def battery(inner, **numbers):
    return BatteryParams(inner, **{name: np.float32(value) for name, value in numbers.items()})


def costs(**numbers):
    return CostParams(**{name: np.float32(value) for name, value in numbers.items()})


def test_who_has_no_energy_stands_still():
    """Energy for some rounds, and nothing is harvested."""
    inner = toy_hparams(num_mobile=N, mobility=0).network
    params = CountedParams(battery(inner, capacity=20, spread=0.5), costs(joules_per_sample=2, joules_per_metre=1))
    network = counted(powered(spatial(N, 5, ("random_movement",))), Work(batch_size=1))
    states, _ = played(network, params, ROUNDS, bits=0)
    gone, place = states.inner.left[:-1] <= 0, states.inner.inner.places.position
    stands = (place[1:] == place[:-1]).all(axis=-1)
    assert stands[gone].all()
    assert gone[-1].all()
    assert not stands[~gone].all()


def forms(world):
    """The forms of all rules that move clients in a world."""
    return [form for name in MOBILITIES for form in MOBILITIES.forms(name) if form.world == world]


@pytest.mark.long
@pytest.mark.parametrize("world", ["grid", "plane"])
@pytest.mark.parametrize("part", range(4))
def test_by_every_rule_those_that_are_stopped_stand_still_and_the_others_go_on(world, part):
    rules = forms(world)[part::4]
    network, clients, key = spatial(N, 5, rules, contact="swept"), holding(np.arange(1, N + 1), 3), jax.random.key(1)
    stands = jnp.arange(N) % 2 == 0

    def play(params):
        start = network.hooks.hold(network.init(params, key, clients), jnp.zeros(N, bool))

        def body(state, t):
            after = network.step(params, key, t, network.hooks.hold(state, stands & (t >= 2)), clients)[0]
            return after, (after.places, after.path.points)

        return jax.lax.scan(body, start, jnp.arange(6))[1]

    program, moves = jax.jit(play), False
    for k, form in enumerate(rules):
        params = toy_hparams(num_mobile=4).network._replace(mobility=np.int32(k), motion=Motion(dt=np.float32(4)))
        places, path = program(params)
        still = np.asarray(places.position)[2:, ::2]
        np.testing.assert_array_equal(still, np.broadcast_to(places.position[1, ::2], still.shape), err_msg=f"{form}")
        np.testing.assert_array_equal(path[2:, ::2], np.broadcast_to(still[:, :, None], path[2:, ::2].shape))
        np.testing.assert_array_equal(places.distance_moved[-1, ::2], places.distance_moved[1, ::2])
        moves |= bool((places.position[-1, 1::2] != places.position[1, 1::2]).any())
    assert moves
