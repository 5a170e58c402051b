"""Automatic search intervals: the length that the derivation asks for, and less staleness than the paper's numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import Settings, sgd
from mdfl_jax.algorithms.registry import numbers_of
from mdfl_jax.core.types import RoundContext
from mdfl_jax.exchange.relay import best_share
from mdfl_jax.networks.meetings import MeetingsParams, meetings

N, SLOTS = 50, 700


@pytest.mark.parametrize("k", [1e-2, 0.3, 1.0, 5.0, 25.0, 200.0, 1e4])
def test_share_is_the_best_on_a_grid(k):
    """The least mean bound Delta - (1 - exp(-k u^2)) (1 - u) Delta / 2 over all shares."""
    u = np.linspace(0, 1, 20_001)
    bound = 1 - (1 - np.exp(-k * u**2)) * (1 - u) / 2
    assert abs(float(best_share(k)) - u[np.argmin(bound)]) < 2e-3


def staleness(name, pattern, rate):
    """Mean steps of a client that the server lacks, and mean age of its global model, in slots."""
    network, algorithm = meetings(N, pattern), ALGORITHMS[name](Settings(sgd(momentum=False)))
    params, hparams = MeetingsParams(pairs=rate), numbers_of(name, lr=1.0)

    @jax.jit
    def whole(key):
        def step(carry, slot):
            state, links = network.step(params, key, slot, carry[0], None)
            ones = lambda p, k: (jnp.zeros(N), jnp.ones((N, 1)))  # noqa: E731
            after, _ = algorithm.round(hparams, carry[1], links, RoundContext(key, ones))
            return (state, after), (jnp.mean(after.held), jnp.mean(slot - after.version))

        start = network.init(params, key, None), algorithm.init(hparams, jnp.zeros((N, 1)))
        return jax.lax.scan(step, start, jnp.arange(SLOTS))[1]

    return np.array([x[200:].mean() for x in whole(jax.random.key(0))])


@pytest.mark.long
@pytest.mark.parametrize(("pattern", "rate"), [("fixed", 0.5), ("exponential", 0.5), ("exponential", 1.0)])
def test_automatic_intervals_leave_less_staleness_than_the_papers(pattern, rate):
    automatic_, given = staleness("fedmobile_auto", pattern, rate), staleness("fedmobile", pattern, rate)
    asynchronous = staleness("async_fl", pattern, rate)
    assert (given < asynchronous).all()
    assert automatic_[0] < 0.95 * given[0]
    assert automatic_[1] < 0.98 * given[1]
