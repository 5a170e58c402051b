"""Maps of what clients send: every algorithm passes its vectors through them, in their order."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mdfl_jax import UserError
from mdfl_jax.core.types import BEFORE, NEVER, Links
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
