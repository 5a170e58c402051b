"""Rules of aggregation from outside of the package, over matrices and over neighbour lists, and who refuses them."""

import jax
import jax.numpy as jnp
import pytest

from mdfl_jax import UserError
from mdfl_jax.core.numbers import Numbers, number
from mdfl_jax.core.types import Links
from mdfl_jax.exchange.aggregation import AGGREGATIONS, Heard, aggregate

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


def test_a_wrong_rule_is_told_in_one_line(unregistered):
    AGGREGATIONS.register("half")(lambda heard: {"w": heard.own["w"][:1]})
    heard = Heard(Links(jnp.zeros((2, 2), bool), jnp.eye(2)), *[{"w": jnp.ones((2, 3))}] * 2)
    with pytest.raises(UserError, match=r"returned float32\[1, 3\] in \['w'\]; it must be float32\[2, 3\]"):
        aggregate("half", heard)
    AGGREGATIONS.register("pulled", PullNumbers)(coordinate_wise_median)
    with pytest.raises(UserError, match=r"pulled needs numbers of PullNumbers, and the algorithm's are of Numbers;"):
        aggregate("pulled", heard._replace(numbers=Numbers()))
