"""Tests of my_name.py: python -m pytest test_my_name.py"""

import jax.numpy as jnp
import my_name
import numpy as np
import pytest

from mdfl_jax.networks.mixing import MixingInputs


@pytest.mark.parametrize("own", [0.0, 0.3, 1.0])
def test_the_weights_are_those_of_a_plain_loop(own):
    rng = np.random.default_rng(0)
    links = rng.random((6, 6)) < 0.5
    links &= ~np.eye(6, dtype=bool)
    links[2] = False  # a client that hears nobody
    numbers = my_name.MyNameNumbers(own=own)
    inputs = MixingInputs(jnp.array(links), jnp.array(links), jnp.ones(6), jnp.zeros(6), jnp.array(1.0), numbers)
    mix = np.asarray(my_name.my_name(inputs))
    for i in range(6):
        heard = [j for j in range(6) if links[i, j]]
        expected = np.zeros(6)
        expected[heard] = (1 - own) / max(len(heard), 1)
        expected[i] = own if heard else 1.0
        np.testing.assert_allclose(mix[i], expected, atol=1e-6)
    np.testing.assert_allclose(mix.sum(axis=1), 1, atol=1e-6)
