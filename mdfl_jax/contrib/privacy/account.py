"""The account of a client: the epsilon that its releases have spent at a delta, computed on the host.

A step of a client is a Gaussian mechanism on a Poisson sample of its own samples. Neighbouring data sets differ in one
sample of one client, whose gradient is taken as zero in one of them (Kairouz et al. 2021), so that sizes are public.
Where messages get the noise, neighbours differ in all samples of one client. Releases are composed by Renyi divergences
(Mironov et al. 2019) or by the distribution of the privacy loss (Koskela et al. 2020), both from the package
dp-accounting.
"""

import functools
import importlib.util
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mdfl_jax.core.errors import warnings_off

ACCOUNTANTS = ("rdp", "pld")
PACKAGE, INSTALL = "dp_accounting", "mdfl_jax[privacy]"
SELDOM = 1e-18  # the chance of a draw above the largest one, of one client and step
LARGEST_NOISE = 2.0**20
_STEP = 1e-9  # relative


def is_installed() -> bool:
    """Tell whether the package that composes steps is installed."""
    return importlib.util.find_spec(PACKAGE) is not None


def largest_draw(batch_size: int) -> int:
    """Return a size that a Poisson sample of a mean size exceeds with a chance below `SELDOM`."""
    from scipy.stats import poisson

    sizes = batch_size + np.arange(60 + 20 * math.isqrt(batch_size))
    return int(sizes[np.argmax(poisson.sf(sizes, batch_size) < SELDOM)])  # binomial numbers have a lighter tail


class Account(NamedTuple):
    """What decides a client's epsilon besides its own numbers.

    Attributes:
      accountant: a name of `ACCOUNTANTS`.
      batch_size: B, the mean size of a minibatch, of which a client of n samples draws each with chance min(B / n, 1);
        0: all samples are in all steps.
      largest: the size at which a draw is cut off; not read with ``batch_size`` 0.
      sensitivity: how far apart in clips a release of neighbouring data sets may be: 1 for a sum of gradients, of which
        one is zero in one of them; 2 for a message, which may be any of two that are as long as the clip.
    """

    accountant: str = "rdp"
    batch_size: int = 0
    largest: int = 0
    sensitivity: float = 1.0

    def rate(self, samples: int) -> float:
        """Return the chance that a sample is in a minibatch of a client with so many."""
        return min(self.batch_size / samples, 1.0) if self.batch_size else 1.0

    def cut(self, samples: int) -> float:
        """Return the chance that a draw of a client with so many samples is cut off."""
        from scipy.stats import binom

        return float(binom.sf(self.largest, samples, self.rate(samples))) if self.batch_size else 0.0

    def epsilon(self, steps: int, samples: int, noise: float, delta: float) -> float:
        """Return the epsilon of a client that has released so many steps; 0 without any, and infinite without noise.

        A program that cuts draws off differs from one that does not with a chance of at most steps * `cut`. So
        (1 + e^epsilon) times this chance is taken from delta; where nothing is left, epsilon is infinite.

        Args:
          steps: the releases that others may know: steps, or messages.
          samples: the samples that the client holds.
          noise: the standard deviation of the noise in units of the clip.
          delta: the delta of the guarantee.
        """
        if not steps or not samples:
            return 0.0
        chance, found = steps * self.cut(samples), 0.0
        if noise <= 0 or chance >= delta:
            return math.inf
        spent = functools.partial(_composed, self.accountant, self.rate(samples), noise / self.sensitivity, steps)
        while True:
            taken = (1 + math.exp(min(found, 700.0))) * chance
            left = delta - max(taken, _STEP * delta * bool(chance))  # so tiny chances leave one delta for all counts
            if left <= 0:
                return math.inf
            following = spent(left)
            if following <= found * (1 + _STEP):
                return following
            found = following

    def noise(self, target: float, steps: int, samples: int, delta: float) -> float | None:
        """Return the least noise, to a relative 1e-3, at which so many steps spend a target; None if there is none."""

        def spends(noise: float) -> float:
            return self.epsilon(steps, samples, noise, delta)

        if spends(LARGEST_NOISE) > target:
            return None
        high = _doubled(lambda noise: spends(noise) <= target)
        low = high / 2
        while high / low > 1.001:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if spends(middle) <= target else (middle, high)
        return float(np.nextafter(np.float32(high), np.float32(np.inf)))  # the program's noise is no smaller

    def of_rows(self, rows: np.ndarray) -> np.ndarray:
        """Return the epsilon of rows [..., 4]: steps, samples, noise and delta of a client. NaN stays NaN."""
        flat = np.asarray(rows, np.float64).reshape(-1, 4)
        distinct, where = np.unique(flat, axis=0, return_inverse=True)
        found = [
            math.nan if np.isnan(row).any() else self.epsilon(int(row[0]), int(row[1]), float(row[2]), float(row[3]))
            for row in distinct
        ]
        return np.array(found, np.float64)[where.reshape(-1)].reshape(rows.shape[:-1])


def _doubled(reaches: Callable[[float], bool]) -> float:
    """Return the least power of two that reaches something."""
    found = 1.0
    while reaches(found / 2) and found > 1 / LARGEST_NOISE:
        found /= 2
    while not reaches(found):
        found *= 2
    return found


@functools.lru_cache(maxsize=4096)
def _renyi(rate: float, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the orders and the Renyi divergence of one step at each of them."""
    accountant = _of_kind("rdp")
    with warnings_off():  # of orders whose series do not converge: it leaves them out
        accountant.compose(_step(rate, noise))
    return np.asarray(accountant.orders), np.asarray(accountant.rdp)


@functools.lru_cache(maxsize=65536)
def _composed(accountant: str, rate: float, noise: float, steps: int, delta: float) -> float:
    """Return the epsilon of steps of equal rate and noise."""
    if accountant == "rdp":
        from dp_accounting.rdp import compute_epsilon

        orders, divergence = _renyi(rate, noise)
        with warnings_off():
            return float(compute_epsilon(orders, steps * divergence, delta)[0])
    composed = _of_kind(accountant)
    with warnings_off():
        composed.compose(_step(rate, noise), steps)
        return float(composed.get_epsilon(delta))


def _of_kind(accountant: str) -> Any:
    """Return an accountant of dp-accounting for data sets in which a sample is replaced by one without a gradient."""
    import dp_accounting
    from dp_accounting import pld, rdp

    kind = rdp.RdpAccountant if accountant == "rdp" else pld.PLDAccountant
    return kind(neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_SPECIAL)


def _step(rate: float, noise: float) -> Any:
    """Return the event of one step."""
    import dp_accounting

    mechanism = dp_accounting.GaussianDpEvent(noise)
    return mechanism if rate == 1 else dp_accounting.PoissonSampledDpEvent(rate, mechanism)
