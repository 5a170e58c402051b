"""Rules of aggregation from outside of the package, over matrices and over neighbour lists, and who refuses them."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import toy_hparams, toy_task

from mdfl_jax import Hparams, Schedule, UserError, simulate
from mdfl_jax.algorithms import ALGORITHMS, numbers_of
from mdfl_jax.algorithms.local import Settings
from mdfl_jax.core.numbers import Numbers, number
from mdfl_jax.core.types import Links
from mdfl_jax.exchange.aggregation import AGGREGATIONS, Heard, aggregate
from mdfl_jax.networks.fixed import fixed_graph
from mdfl_jax.networks.graphs import GraphParams

N = 12


class PullNumbers(Numbers):
    pull: float = number(1.0, "how far a client goes to the median", at_least=0, at_most=1)


def coordinate_wise_median(heard):
    """The median of each coordinate over the models that a client hears and its own."""
    links, rows = heard.links, heard.links.adjacency.shape[0]
    counts = links.adjacency | links.senders.own(rows)

    def leaf(own, sent):
        seen = jnp.where(counts.reshape(*counts.shape, *[1] * (sent.ndim - 1)), links.senders.of(sent), jnp.nan)
        return own + heard.numbers.pull * (jnp.nanmedian(seen, axis=1) - own)

    return jax.tree.map(leaf, heard.own, heard.sent)


@pytest.fixture
def median(unregistered):
    return AGGREGATIONS.register("my_median", PullNumbers)(coordinate_wise_median)


@cache
def program(lists, rule):
    """A run over a torus; one program for all numbers of the rule."""
    algorithm = ALGORITHMS["dpsgd"](Settings(aggregation=rule))
    network = fixed_graph(N, "torus", lists=lists)
    return jax.jit(simulate(toy_task(num_clients=N), network, algorithm, Schedule(4, 2)))


def history(lists, rule, pull=1.0):
    hparams = Hparams(toy_hparams().task, GraphParams(), numbers_of("dpsgd", aggregation=rule, pull=pull).typed())
    return program(lists, rule)(hparams, jax.random.key(0))


@pytest.mark.usefixtures("median")
def test_a_median_from_outside_is_the_same_over_matrices_and_lists():
    """Messages are those of any rule, and a pull of zero keeps clients apart."""
    dense, listed, alone = history(False, "my_median"), history(True, "my_median"), history(False, "my_median", 0.0)
    for name in ("loss", "train_loss", "consensus_distance", "mean_model_loss"):
        np.testing.assert_allclose(dense[name], listed[name], rtol=1e-5, atol=1e-6, err_msg=name)
    for name in ("messages", "bits"):
        np.testing.assert_array_equal(dense[name], alone[name], err_msg=name)
    assert dense.consensus_distance[-1] < 0.5 * alone.consensus_distance[-1]


def test_a_wrong_rule_is_told_in_one_line(unregistered):
    AGGREGATIONS.register("half")(lambda heard: {"w": heard.own["w"][:1]})
    heard = Heard(Links(jnp.zeros((2, 2), bool), jnp.eye(2)), *[{"w": jnp.ones((2, 3))}] * 2)
    with pytest.raises(UserError, match=r"returned float32\[1, 3\] in \['w'\]; it must be float32\[2, 3\]"):
        aggregate("half", heard)
    AGGREGATIONS.register("pulled", PullNumbers)(coordinate_wise_median)
    with pytest.raises(UserError, match=r"pulled needs numbers of PullNumbers, and the algorithm's are of Numbers;"):
        aggregate("pulled", heard._replace(numbers=Numbers()))
