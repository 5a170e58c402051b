"""Automatic search intervals: the length that the derivation asks for, and less staleness than the paper's numbers."""

import numpy as np
import pytest

from mdfl_jax.exchange.relay import best_share

N, SLOTS = 50, 700


@pytest.mark.parametrize("k", [1e-2, 0.3, 1.0, 5.0, 25.0, 200.0, 1e4])
def test_share_is_the_best_on_a_grid(k):
    """The least mean bound Delta - (1 - exp(-k u^2)) (1 - u) Delta / 2 over all shares."""
    u = np.linspace(0, 1, 20_001)
    bound = 1 - (1 - np.exp(-k * u**2)) * (1 - u) / 2
    assert abs(float(best_share(k)) - u[np.argmin(bound)]) < 2e-3
