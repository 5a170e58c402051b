"""Maps of what clients send, and rules of aggregation from outside: order, keys, and errors of one line."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mdfl_jax import UserError
from mdfl_jax.core.numbers import Numbers, number
from mdfl_jax.core.types import Links
from mdfl_jax.exchange.aggregation import AGGREGATIONS, Heard, aggregate
from mdfl_jax.exchange.sending import sent

N = 4
LINKS = Links(~jnp.eye(N, dtype=bool), jnp.full((N, N), 1 / N))


def test_maps_are_applied_in_their_order_with_keys_of_their_own():
    double = lambda hparams, key, links, vectors: 2 * vectors  # noqa: E731
    noisy = lambda hparams, key, links, vectors: vectors + jax.random.normal(key, vectors.shape)  # noqa: E731
    key, zeros = jax.random.key(0), jnp.zeros((N, 100))
    assert sent((), None, key, LINKS, zeros) is zeros
    once, twice = (sent(maps, None, key, LINKS, zeros) for maps in ((noisy,), (noisy, double)))
    np.testing.assert_array_equal(2 * once, twice)
    other = sent((noisy,), None, key, LINKS, zeros, which=1)
    both = sent((noisy, noisy), None, key, LINKS, zeros)
    draws = np.stack([once, other, both - once]).reshape(3, -1)
    assert np.abs(np.corrcoef(draws) - np.eye(3)).max() < 0.2


def test_a_map_that_changes_shapes_is_refused():
    cut = lambda hparams, key, links, vectors: vectors[:1]  # noqa: E731
    with pytest.raises(UserError, match=r"returned float32\[1, 2\]; it must be float32\[4, 2\]"):
        sent((cut,), None, jax.random.key(0), LINKS, jnp.zeros((N, 2)))


class PullNumbers(Numbers):
    pull: float = number(1.0, "how far a client goes to what it hears", at_least=0, at_most=1)


def test_a_wrong_rule_is_told_in_one_line(unregistered):
    AGGREGATIONS.register("half")(lambda heard: {"w": heard.own["w"][:1]})
    heard = Heard(Links(jnp.zeros((2, 2), bool), jnp.eye(2)), *[{"w": jnp.ones((2, 3))}] * 2)
    with pytest.raises(UserError, match=r"returned float32\[1, 3\] in \['w'\]; it must be float32\[2, 3\]"):
        aggregate("half", heard)
    AGGREGATIONS.register("pulled", PullNumbers)(lambda heard: heard.own)
    with pytest.raises(UserError, match=r"pulled needs numbers of PullNumbers, and the algorithm's are of Numbers;"):
        aggregate("pulled", heard._replace(numbers=Numbers()))
