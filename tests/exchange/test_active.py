"""Clients that take no part in a round. What every algorithm makes of them is in tests/algorithms/test_contract.py."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import toy_hparams, toy_task

from mdfl_jax import Hparams, Schedule, simulate
from mdfl_jax.algorithms import ALGORITHMS, LocalNumbers, dpsgd
from mdfl_jax.algorithms.local import Settings
from mdfl_jax.algorithms.registry import resolved
from mdfl_jax.core.sharding import pad_links
from mdfl_jax.core.types import Links
from mdfl_jax.exchange.active import links_of_active, round_of_active
from mdfl_jax.networks.costs import CostParams, CountedParams, counted
from mdfl_jax.networks.fixed import fixed_graph
from mdfl_jax.networks.graphs import GraphParams

N = 12
AWAKE = np.arange(N) % 3 != 0  # the others sleep


def with_active(network, of_round):
    """A network from outside of the package, with the clients ``of_round`` (round) -> [N] bool that take part."""

    def step(params, key, round_index, state, clients):
        state, links = network.step(params, key, round_index, state, clients)
        return state, links._replace(active=of_round(round_index))

    return network._replace(step=step)


@pytest.mark.parametrize("rows", [6, 8])
def test_the_links_of_sleepers_are_removed_in_one_place(rows):
    rng = np.random.default_rng(0)
    adjacency = rng.random((6, 6)) < 0.6
    adjacency = (adjacency | adjacency.T) & ~np.eye(6, dtype=bool)
    weights = np.where(adjacency, 0.1, 0) + np.diag(1 - 0.1 * adjacency.sum(axis=1))
    active = np.array([True, True, False, True, False, True])
    given = Links(
        jnp.asarray(adjacency),
        jnp.asarray(weights, jnp.float32),
        at_server=jnp.ones(6, bool),
        partner=jnp.array([1, 0, 3, 2, 5, 4]),
        active=jnp.asarray(active),
    )
    found = pad_links(links_of_active(given), rows)
    both = active[:, None] & active[None, :]
    np.testing.assert_array_equal(found.adjacency[:6, :6], adjacency & both)
    np.testing.assert_array_equal(found.at_server[:6], active)
    np.testing.assert_array_equal(found.partner[:6], [1, 0, 2, 3, 4, 5])
    mix = np.asarray(found.mix)
    np.testing.assert_allclose(mix.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(mix, mix.T, rtol=1e-6)
    assert (np.diag(mix)[:6][~active] == 1).all()
    assert found.active.tolist() == [*active.tolist(), *[False] * (rows - 6)]


def test_who_sleeps_computes_nothing_that_costs():
    costs = CostParams(seconds_per_sample=np.float32(1.0), joules_per_sample=np.float32(1.0))
    network = counted(with_active(fixed_graph(N, "ring"), lambda t: jnp.asarray(AWAKE) & (t < 2)))
    hparams = Hparams(toy_hparams().task, CountedParams(GraphParams(), costs), LocalNumbers(lr=0.1).typed())
    run = simulate(toy_task(num_clients=N, partition="iid"), network, dpsgd(), Schedule(4, 2))
    found = jax.jit(run)(hparams, jax.random.key(0))
    assert (found.joules[-1, ~AWAKE] == 0).all()
    assert found.joules[-1, AWAKE].sum() > 0
    np.testing.assert_array_equal(found.joules[1], found.joules[2])


def test_a_client_of_pame_that_comes_late_draws_its_period():
    algorithm, params = ALGORITHMS["pame"](Settings()), {"w": jnp.ones((N, 3))}
    numbers = resolved("pame", "", {}).typed()
    links = Links(~jnp.eye(N, dtype=bool), jnp.full((N, N), 1 / N))
    gradient = lambda params, key: (jnp.zeros(N), params)  # noqa: E731
    state = algorithm.init(numbers, params)
    for t, active in enumerate((AWAKE, np.ones(N, bool))):
        now = links_of_active(links._replace(active=jnp.asarray(active)))
        state, _ = round_of_active(algorithm)(numbers, jax.random.key(t), state, now, gradient)
        assert ((state.period >= 3) == active).all()
