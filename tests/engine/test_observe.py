"""A network looks at rounds by `observe`, and the distances between models are computed only for one that compares."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import PATTERNS, toy_hparams, toy_task

from mdfl_jax import Schedule
from mdfl_jax.algorithms.dpsgd import dpsgd
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.networks.spatial import spatial


@pytest.mark.parametrize("compares", [False, True])
def test_a_network_sees_the_links_the_statistics_and_the_distances_that_it_asks_for(compares):
    """A network that adds what it sees to the distances that its clients have moved."""
    plain, told = spatial(6, 5, PATTERNS), []

    def observe(params, state, seen):
        del params
        told.append((seen.links.adjacency.shape, seen.stats.details, seen.differences is not None))
        worth = seen.stats.messages + (0 if seen.differences is None else 1000 + 0 * jnp.sum(seen.differences, axis=1))
        places = state.places._replace(distance_moved=state.places.distance_moved + worth)
        return state._replace(places=places)

    watched = plain._replace(observe=observe, compares=compares)
    hparams, key = toy_hparams(0, radius=np.inf), jax.random.key(1)  # static clients that all hear each other
    moved = []
    for network in (plain, watched):
        simulation = Simulation(toy_task(), network, dpsgd(), Schedule(2, 2))
        carry = jax.jit(simulation.first)(simulation.data, hparams, key)
        one_round = jax.jit(simulation.round)
        for _ in range(2):
            carry = one_round(simulation.data, hparams, key, carry)
        moved.append(np.asarray(network.places(carry.network).distance_moved))
    assert told == [((6, 6), None, compares)]
    # Five messages in each of two rounds; the sum with distances is exact.
    np.testing.assert_array_equal(moved[1] - moved[0], 10 + 2000 * compares)
