"""A network around another one passes on all that it does not change."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from small import assert_trees_equal, toy_hparams, toy_task
from worlds import played

from mdfl_jax import Schedule, simulate
from mdfl_jax.algorithms.dpsgd import dpsgd
from mdfl_jax.networks.costs import CostParams, CountedParams, counted
from mdfl_jax.networks.spatial import spatial
from mdfl_jax.networks.wrappers.wrapper import wrap

N = 6


class Numbered(NamedTuple):
    """The numbers, or the state, of the wrapper of these tests."""

    inner: Any
    rounds: Any


def slower(network):
    """A wrapper from outside of the package: the movement stands still in every second round."""

    def init(params, key, clients):
        return Numbered(network.init(params.inner, key, clients), jnp.int32(0))

    def step(params, key, round_index, state, clients):
        moved, links = network.step(params.inner, key, round_index, state.inner, clients)
        stays = state.rounds % params.rounds != 0
        kept = jax.tree.map(lambda new, old: jnp.where(stays, old, new), moved, state.inner)
        return Numbered(kept, state.rounds + 1), links

    return wrap(network, init=init, step=step)


def history(network, params):
    hparams = toy_hparams()._replace(network=params)
    run = jax.jit(simulate(toy_task(num_clients=N), network, dpsgd(), Schedule(4, 2)))
    return run(hparams, jax.random.key(0))


def test_a_wrapper_from_outside_runs_inside_and_outside_of_another_one():
    inner, numbers = spatial(N, 5, ("static", "random_movement"), max_neighbours=N - 1), toy_hparams().network
    plain, links = played(inner, numbers, 4)
    every_round, same_links = played(slower(inner), Numbered(numbers, np.int32(1)), 4)
    assert_trees_equal((plain, links), (every_round.inner, same_links))
    costs = CostParams(joules_per_metre=np.float32(2.0))
    around = history(counted(slower(inner)), CountedParams(Numbered(numbers, np.int32(2)), costs))
    within = history(slower(counted(inner)), Numbered(CountedParams(numbers, costs), np.int32(2)))
    assert 0 < np.sum(around.distance_moved[-1]) < np.sum(plain.places.distance_moved[-1])
    np.testing.assert_allclose(around.joules, 2 * around.distance_moved)
    for name in around:
        np.testing.assert_array_equal(around[name], within[name], err_msg=name)


class View(NamedTuple):
    """What a metric sees of a round, of a network in a wrapper."""

    network: Any
    params: Any
    before: Any
    state: Any


def test_a_metric_of_an_inner_network_reads_its_own_state_and_numbers():
    inner = counted(spatial(N, 5, ("static",)))
    first, *others = inner.metrics
    inner = inner._replace(metrics=(dataclasses.replace(first, each_round=lambda view: view), *others))
    (found, *_) = slower(inner).metrics
    view = View(None, Numbered("numbers", 1), Numbered("before", 2), Numbered("state", 3))
    assert found.each_round(view) == View(inner, "numbers", "before", "state")
