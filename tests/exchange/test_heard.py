"""Who was heard, for every algorithm: those whose models change the models of others."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from least_squares import NO_LINKS, Problem, graph

from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.allreduce import ring
from mdfl_jax.algorithms.local import Settings
from mdfl_jax.algorithms.registry import resolved
from mdfl_jax.core.links import as_matrix
from mdfl_jax.core.sharding import heard_links
from mdfl_jax.core.types import Links, RoundContext
from mdfl_jax.metrics.values import HEARD

LATER = {"beer", "dcd_psgd"}  # what they hear changes their models in the next round
ASIDE = {"allreduce", "server_fedavg"}  # they send over no link of the network
PASSES_ON = {"dmgt_svrg"}  # what was heard in a step of gossip, in the next step of the same round
NUMBERS = {"lr": 0.05, "num_peers": 1, "period_min": 1, "period_max": 3, "transmission": 0.5, "trigger": 2000.0}
WORLD = [graph(), NO_LINKS, graph(), graph(), graph()]


@pytest.mark.few(3)
@pytest.mark.parametrize("name", [n for n in ALGORITHMS if "at_server" not in ALGORITHMS[n](Settings()).needs])
def test_who_heard_whom_is_whose_model_changed_whose(name):
    """A client that starts a round with another model changes the models of those that hear it, and of nobody else."""
    with jax.enable_x64(True):
        problem, algorithm, numbers = Problem(), ALGORITHMS[name](Settings()), resolved(name, "", NUMBERS)
        state = algorithm.init(numbers, problem.tree(jnp.asarray(problem.start)))

        @jax.jit
        def step(key, state, links, moved):
            ids = {*map(id, jax.tree.leaves(models(state)))}
            move = lambda x: x + 100.0 * moved.reshape(-1, *[1] * (x.ndim - 1)) if id(x) in ids else x  # noqa: E731
            return algorithm.round(numbers, jax.tree.map(move, state), links, RoundContext(key, problem.gradient))

        def models(state):  # in the words of the state, if it has such a field: models may be made of them
            return state.params if hasattr(state, "params") else algorithm.params(state)

        for t, (adjacency, mix) in enumerate(WORLD):
            links, key = Links(jnp.asarray(adjacency), jnp.asarray(mix)), jax.random.key(t)
            following, stats = step(key, state, links, jnp.zeros(5))
            over = heard_links(links, stats)
            heard = np.asarray(as_matrix(over.adjacency, over.senders))
            messages = np.asarray(stats.messages)
            assert ((messages > 0) == heard.any(axis=0)).all() or name == "server_fedavg"
            assert not heard[~adjacency].any() or name in ASIDE
            assert (heard == adjacency).all() or HEARD in algorithm.metrics
            if name not in LATER | ASIDE | {"squarm_sgd"}:  # of which a client that has moved further speaks
                plain, changed = problem.flat(models(following)), np.zeros((5, 5), bool)
                for j in range(5):
                    other = problem.flat(models(step(key, state, links, jnp.eye(5)[j])[0]))
                    changed[:, j] = (other != plain).any(axis=1)
                reached = changed & (heard if name in PASSES_ON else ~np.eye(5, dtype=bool))
                np.testing.assert_array_equal(heard, reached, err_msg=f"round {t}")
            state = following


@pytest.mark.parametrize("members", ["11111", "1", "11", "10", "01101", "10010", "00100", "00000"])
def test_the_ring_of_an_all_reduce(members):
    awake = np.array([letter == "1" for letter in members])
    order, heard = np.flatnonzero(awake), np.zeros((len(awake), len(awake)), bool)
    for k, i in enumerate(order):
        if len(order) > 1:
            heard[i, order[k - 1]] = True  # the last one stands before the first
    links = jax.jit(ring)(jnp.asarray(awake))
    np.testing.assert_array_equal(as_matrix(links.adjacency, links.senders), heard)
    np.testing.assert_array_equal(links.senders.sums(links.adjacency), heard.sum(axis=0))
