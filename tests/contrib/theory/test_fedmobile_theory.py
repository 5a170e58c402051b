"""Proposition 2 against the frequencies of a simulated network, and the bounds against the text."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mdfl_jax.contrib.theory import fedmobile as theory
from mdfl_jax.core.errors import UserError
from mdfl_jax.networks.meetings import PATTERNS, MeetingsParams, meetings

N, SLOTS, BURN_IN = 400, 700, 300
LAWS = {
    "fixed": PATTERNS.numbers("fixed")(interval=50).gap_law(),
    "random": PATTERNS.numbers("random")(gap_min=30, gap_max=50).gap_law(),
    "exponential": PATTERNS.numbers("exponential")(mean_gap=30.0, gap_limit=80).gap_law(),
}


def simulated(pattern, rho):
    """[T, N] last, next and partner."""
    network, params = meetings(N, pattern), MeetingsParams(pairs=rho)

    @jax.jit
    def whole(key):
        def step(state, slot):
            state, links = network.step(params, key, slot, state, None)
            return state, (links.server.last, links.server.following, links.partner)

        return jax.lax.scan(step, network.init(params, key, None), jnp.arange(SLOTS))[1]

    return jax.tree.map(np.asarray, whole(jax.random.key(0)))


def frequency(finds, intervals):
    found = [finds(*interval) for interval in intervals]
    return np.mean(found), 5 * np.sqrt(0.25 / len(found))


@pytest.mark.few(1)
@pytest.mark.parametrize("pattern", LAWS)
def test_relays_are_met_as_often_as_proposition_2_says(pattern):
    """Every interval of every client after the first 300 slots: is a semi-qualified relay met in it?"""
    rho, theta, big_theta, omega, big_omega = 0.2, 10, 40, 5, 25
    last, following, partner = simulated(pattern, rho)
    slots = np.arange(SLOTS)[:, None]
    meetings_of_all = [
        (i, t) for i in range(N) for t in np.flatnonzero(last[:, i] == slots[:, 0]) if BURN_IN < t < SLOTS - 100
    ]

    def upload(i, met):
        end = met + big_theta
        return any(partner[t, i] != i and following[t, partner[t, i]] <= end for t in range(met + theta, end + 1))

    def download(i, met):
        begin = met - big_omega
        return any(partner[t, i] != i and last[t, partner[t, i]] >= begin for t in range(begin, met - omega + 1))

    for finds, expected in (
        (upload, theory.upload_probability(theta, big_theta, rho, LAWS[pattern])),
        (download, theory.download_probability(omega, big_omega, rho, LAWS[pattern])),
    ):
        share, margin = frequency(finds, meetings_of_all)
        assert 0.2 < expected < 0.98
        assert abs(share - expected) < max(margin, 0.03)

    # The laws themselves: how far the next meeting is, and how long ago the last was.
    left, age = (following - slots)[BURN_IN:], (slots - last)[BURN_IN:]
    size = len(LAWS[pattern])
    for observed, law in ((left, theory.remaining_law(LAWS[pattern])), (age, theory.age_law(LAWS[pattern]))):
        counted = np.bincount(observed.ravel(), minlength=size)[:size] / observed.size
        assert abs(counted.cumsum() - law.cumsum()).max() < 0.03


def test_bounds_of_both_theorems():
    assumed = theory.Assumptions(smoothness=2.0, deviation=4.0, moment=3.0, excess=6.0)
    given = {"num_clients": 10, "slots": 100, "lr": 0.1}
    plain = theory.gradient_bound(theory.staleness(5.0, 7.0), assumed, **given)
    assert np.isclose(plain, 4 * 6 / 10 + 4 * (3 * 49 + 2 * 25) * 4 * 0.01 * 9 + 2 * 2 * 0.1 * 16 / 10)
    noisy = theory.gradient_bound(theory.compressed_staleness(5.0, 7.0, 0.5, 4.0), assumed, **given)
    assert np.isclose(noisy - plain, 4 * (2 * 25 + 4 * 0.5 * 16) * 4 * 0.01 * 9)
    with pytest.raises(UserError, match=r"learning rate is 0\.6"):
        theory.gradient_bound(theory.staleness(5.0, 7.0), assumed, **{**given, "lr": 0.6})
    with pytest.raises(UserError, match="sum to 1"):
        theory.remaining_law(np.array([0.0, 0.5]))
    with pytest.raises(UserError, match="30 to 10"):
        theory.upload_probability(30, 10, 0.5, LAWS["fixed"])
