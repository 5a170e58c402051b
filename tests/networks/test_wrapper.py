"""A network around another one passes on all that it does not change."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from small import assert_trees_equal, toy_hparams
from worlds import holding, observed, played

from mdfl_jax.networks.costs import CostParams, CountedParams, counted
from mdfl_jax.networks.spatial import spatial
from mdfl_jax.networks.wrappers.wrapper import wrap

N = 6
CLIENTS = holding(np.ones(N))


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


def test_a_wrapper_from_outside_runs_inside_and_outside_of_another_one():
    inner, numbers = spatial(N, 5, ("static", "random_movement"), max_neighbours=N - 1), toy_hparams().network
    plain, links = played(inner, numbers, 4)
    every_round, same_links = played(slower(inner), Numbered(numbers, np.int32(1)), 4)
    assert_trees_equal((plain, links), (every_round.inner, same_links))
    costs = CostParams(joules_per_metre=np.float32(2.0))
    around = CountedParams(Numbered(numbers, np.int32(2)), costs), counted(slower(inner))
    within = Numbered(CountedParams(numbers, costs), np.int32(2)), slower(counted(inner))
    (one, heard), (other, same) = (observed(network, params, 4, CLIENTS) for params, network in (around, within))
    distance = one.inner.inner.places.distance_moved
    assert 0 < np.sum(distance[-1]) < np.sum(plain.places.distance_moved[-1])
    np.testing.assert_allclose(one.moved, 2 * distance)
    assert_trees_equal((one.moved, one.inner.inner, heard), (other.inner.moved, other.inner.inner, same))


def test_an_inner_network_observes_with_its_own_state_and_numbers():
    inner = spatial(N, 5, ("static",))._replace(
        observe=lambda params, state, seen: ("observed", params, state, seen),
        reached=lambda state: ("reached", state),
    )
    outer, state = slower(inner), Numbered("state", 3)
    assert outer.observe(Numbered("numbers", 1), state, "round") == Numbered(
        ("observed", "numbers", "state", "round"), 3
    )
    assert outer.reached(state) == ("reached", "state")
