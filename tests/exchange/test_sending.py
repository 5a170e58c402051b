"""Maps of what clients send: every algorithm passes its vectors through them, in their order."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import assert_trees_equal

from mdfl_jax import UserError
from mdfl_jax.algorithms import ALGORITHMS, numbers_of
from mdfl_jax.algorithms.local import Settings
from mdfl_jax.core.types import BEFORE, NEVER, Links, RoundContext
from mdfl_jax.exchange.sending import sent

N = 4
OTHERS = ~np.eye(N, dtype=bool)
SLOTS = jnp.zeros(N, jnp.int32)
LINKS = Links(
    jnp.asarray(OTHERS),
    jnp.full((N, N), 1 / N),
    jnp.array([True, False, True, False]),
    SLOTS + BEFORE,
    SLOTS + NEVER,
    jnp.array([1, 0, 3, 2], jnp.int32),
)
MODELS = {"w": jnp.asarray(np.random.default_rng(0).normal(size=(N, 6)), jnp.float32)}


def quadratic(params, key, whole=False):
    return jnp.sum(jnp.square(params["w"]), axis=1), params


def after(name, sends, rounds=3):
    """The models of clients after some rounds with these maps."""
    algorithm = ALGORITHMS[name](Settings(sends=sends))
    numbers = numbers_of(name, period_min=1, period_max=1, participation=1.0).typed()
    state = algorithm.init(numbers, MODELS)
    step = jax.jit(lambda numbers, state, key: algorithm.round(numbers, state, LINKS, RoundContext(key, quadratic)))
    for t in range(rounds):
        state, stats = step(numbers, state, jax.random.key(t))
    return algorithm.params(state), stats


def flipped(hparams, key, links, vectors):
    """Client 0 sends the negative of what it has, ten times as large."""
    liar = jnp.arange(N) == 0
    return jax.tree.map(lambda x: jnp.where(liar.reshape(-1, *[1] * (x.ndim - 1)), -10 * x, x), vectors)


@pytest.mark.few(5)
@pytest.mark.parametrize("name", [*ALGORITHMS])
def test_what_every_algorithm_sends_passes_through_the_maps(name):
    calls = []
    same = lambda hparams, key, links, vectors: calls.append(1) or jax.tree.map(lambda x: x + 0, vectors)  # noqa: E731
    plain, plain_stats = after(name, ())
    mapped, stats = after(name, (same,))
    assert_trees_equal(plain, mapped, 1e-5)
    np.testing.assert_array_equal(plain_stats.messages, stats.messages)
    assert bool(calls) == (name != "local_only")
    if calls:
        lied = after(name, (flipped,))[0]
        assert not np.allclose(lied["w"], plain["w"], atol=1e-3)


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
