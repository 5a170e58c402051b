"""Epsilons against dp-accounting, the exact curve of the Gaussian mechanism, and sums by hand."""

import math

import dp_accounting as dp
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from scipy import integrate
from scipy.stats import binom, norm

from mdfl_jax.contrib.privacy.account import Account, largest_draw

DELTA = 1e-5


def of_package(kind, rate, noise, steps, delta):
    accountant = kind(neighboring_relation=dp.NeighboringRelation.REPLACE_SPECIAL)
    event = dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise))
    return accountant.compose(dp.SelfComposedDpEvent(event, steps)).get_epsilon(delta)


@pytest.mark.parametrize(("samples", "steps", "noise"), [(400, 1, 0.8), (64, 300, 1.5), (10, 40, 6.0)])
@pytest.mark.parametrize(("name", "kind"), [("rdp", RdpAccountant), ("pld", PLDAccountant)])
def test_epsilon_is_that_of_dp_accounting(name, kind, samples, steps, noise):
    account = Account(name, 16, largest_draw(16))
    wanted = of_package(kind, min(16 / samples, 1), noise, steps, DELTA)
    assert account.epsilon(steps, samples, noise, DELTA) == pytest.approx(wanted, rel=1e-6)


def exact(steps, noise, delta):
    """The least epsilon of a composed Gaussian mechanism (Balle and Wang 2018)."""
    mu = math.sqrt(steps) / noise
    over = lambda e: norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu)  # noqa: E731
    low, high = 0.0, 200.0
    for _ in range(100):
        low, high = ((low + high) / 2, high) if over((low + high) / 2) > delta else (low, (low + high) / 2)
    return high


@pytest.mark.parametrize(("steps", "noise"), [(1, 1.0), (50, 8.0), (200, 20.0)])
def test_with_all_samples_in_all_steps_epsilon_is_that_of_one_gaussian_mechanism(steps, noise):
    least = exact(steps, noise, DELTA)
    assert least <= Account("pld").epsilon(steps, 100, noise, DELTA) < least * 1.001 + 2e-4
    alphas = np.linspace(1.01, 200, 200_000)  # the conversion of Canonne, Kamath and Steinke (2020), by hand
    renyi = steps * alphas / (2 * noise**2)
    by_hand = (renyi + np.log1p(-1 / alphas) - np.log(DELTA * alphas) / (alphas - 1)).min()
    found = Account("rdp").epsilon(steps, 100, noise, DELTA)
    assert least <= by_hand <= found + 1e-9
    assert found == pytest.approx(by_hand, rel=0.01)


def test_the_divergence_of_a_sampled_step_is_the_integral_of_its_definition():
    rate, noise, order = 0.2, 1.3, 4.0
    ratio = lambda x: 1 - rate + rate * math.exp((2 * x - 1) / (2 * noise**2))  # noqa: E731
    whole = integrate.quad(lambda x: norm.pdf(x, scale=noise) * ratio(x) ** order, -40, 40, epsabs=1e-13)[0]
    accountant = RdpAccountant([order]).compose(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise)))
    assert accountant.rdp[0] == pytest.approx(math.log(whole) / (order - 1), rel=1e-8)
    by_hand = 30 * math.log(whole) / 3 + math.log(3 / 4) - math.log(DELTA * 4) / 3  # at this order alone
    assert Account("rdp", 20, 10**6).epsilon(30, 100, noise, DELTA) <= by_hand


def test_two_messages_of_neighbours_are_at_most_two_clips_apart():
    """As the exact epsilon of a mechanism of sensitivity 2, and no less."""
    least = exact(10, 6.0 / 2, DELTA)
    assert least <= Account("pld", sensitivity=2).epsilon(10, 100, 6.0, DELTA) < least * 1.001 + 2e-4
    assert Account(sensitivity=2).epsilon(10, 100, 6.0, DELTA) == Account().epsilon(10, 100, 3.0, DELTA)


def test_draws_that_are_cut_off_take_from_delta():
    whole = Account("rdp", 16, 10**6).epsilon(100, 100, 3.0, DELTA)
    some = Account("rdp", 16, 44).epsilon(100, 100, 3.0, DELTA)
    chance = 100 * binom.sf(44, 100, 0.16)
    assert 0 < chance < DELTA / 1e3
    assert some > whole
    left = DELTA - (1 + math.exp(some)) * chance
    assert some == pytest.approx(of_package(RdpAccountant, 0.16, 3.0, 100, left), rel=1e-6)
    assert Account("rdp", 16, 17).epsilon(100, 100, 3.0, DELTA) == math.inf


def test_who_has_released_nothing_has_spent_nothing_and_without_noise_there_is_no_epsilon():
    account = Account("rdp", 16, 60)
    assert account.epsilon(0, 50, 0.0, DELTA) == account.epsilon(7, 0, 0.0, DELTA) == 0
    assert account.epsilon(1, 50, 0.0, DELTA) == math.inf
    rows = np.array([[[3, 50, 1.5, DELTA], [0, 9, 1.5, DELTA]], [[np.nan] * 4, [3, 50, 1.5, DELTA]]])
    found = account.of_rows(rows)
    assert found.shape == (2, 2)
    assert found[0, 0] == found[1, 1] > found[0, 1] == 0
    assert np.isnan(found[1, 0])


LONG = pytest.param("pld", 0, 2.0, marks=pytest.mark.long)


@pytest.mark.parametrize(("name", "batch_size", "target"), [("rdp", 16, 3.0), ("rdp", 0, 0.5), LONG])
def test_the_noise_of_a_target_reaches_it_and_less_does_not(name, batch_size, target):
    account = Account(name, batch_size, largest_draw(batch_size) if batch_size else 0)
    noise = account.noise(target, 120, 200, DELTA)
    assert account.epsilon(120, 200, noise, DELTA) <= target < account.epsilon(120, 200, noise * 0.995, DELTA)


def test_a_target_that_no_noise_reaches_has_none():
    assert Account("rdp").noise(1e-4, 100, 50, 1e-9) is None
