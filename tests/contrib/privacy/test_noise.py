"""Normal numbers and their tail, against the normal distribution."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import kstest

from mdfl_jax.contrib.privacy.noise import normal, of_words

KEY = jax.random.key(2)


def test_noise_is_normal_and_no_number_has_to_do_with_another():
    drawn = np.asarray(normal(KEY, (40, 5000)))
    assert kstest(drawn.ravel(), "norm").pvalue > 1e-3
    assert np.abs(np.corrcoef(drawn) - np.eye(40)).max() < 0.08
    assert normal(KEY, (3,), jnp.bfloat16).dtype == jnp.bfloat16


def test_the_radius_has_the_tail_of_a_normal_vector_where_the_generator_of_jax_has_ended():
    """P(radius > r) = exp(-r^2 / 2) from the rarest words on; normal numbers end at 5.2, these at 9.5."""
    words = np.unique(np.geomspace(1, 2.0**62, 200).astype(np.uint64))
    high, low = (words >> np.uint64(32)).astype(np.uint32), (words & np.uint64(2**32 - 1)).astype(np.uint32)
    radius = np.asarray(of_words(jnp.asarray(np.stack([high, low, 0 * low]))), np.float64)
    assert (radius[:10] > 9).all()
    np.testing.assert_allclose(np.exp(-(radius**2) / 2), (words + 0.5) / 2.0**64, rtol=1e-4)
    ends = np.array([[0, 0, 0], [2**32 - 1] * 3], np.uint32)
    assert np.isfinite(of_words(jnp.asarray(ends.T))).all()
