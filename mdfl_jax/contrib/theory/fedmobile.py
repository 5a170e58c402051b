"""FedMobile's bounds and probabilities of meeting a relay: C, D, theorems 1 and 2, proposition 2 with appendix D.5.

A distribution of the gap between two meetings with the server is an array P [Delta + 1]: P[k] is the probability of a
gap of k slots, and P[0] = 0. `relay_table` has these numbers for the sweep points of a study that relay.
"""

from typing import NamedTuple

import numpy as np

from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.fedmobile import FedMobileNumbers
from mdfl_jax.config.points import Point
from mdfl_jax.config.sections import entries_in_use, numbers_in
from mdfl_jax.core.errors import UserError
from mdfl_jax.networks.meetings import PATTERNS
from mdfl_jax.networks.wrappers.roadside import ServerConfig

Law = np.ndarray


def _at_least(gaps: Law) -> np.ndarray:
    """Return P(gap >= s) for s = 0 .. Delta."""
    return np.cumsum(gaps[::-1])[::-1]


def _checked(gaps: Law) -> Law:
    law = np.asarray(gaps, np.float64)
    if law.ndim != 1 or law[0] != 0 or (law < 0).any() or abs(law.sum() - 1) > 1e-6:
        raise UserError("gaps must be probabilities of 0, 1, ..., Delta slots that sum to 1, that of 0 being 0")
    return law


def remaining_law(gaps: Law, as_printed: bool = False) -> np.ndarray:
    """Return pi_u, the share of clients whose next meeting is in s slots (FedMobile D.5, equation 48).

    The next meeting is always in a later slot, so s is at least 1 and pi_u(s) = P(gap >= s) / mean gap. The chain as
    printed in the paper spends an extra slot at s = 0, which gives pi_u(s) = P(gap >= s) / (mean gap + 1).

    Args:
      gaps: P [Delta + 1].
      as_printed: whether to return the stationary distribution of equation 48 exactly as printed.

    Returns:
      pi_u [Delta + 1], for s = 0 .. Delta.

    Raises:
      UserError: if P is no distribution.

    >>> from mdfl_jax.networks.meetings import FixedNumbers
    >>> [remaining_law(FixedNumbers(interval=4).gap_law(), as_printed=p).tolist() for p in (False, True)]
    [[0.0, 0.25, 0.25, 0.25, 0.25], [0.2, 0.2, 0.2, 0.2, 0.2]]
    """
    weight = _at_least(_checked(gaps))
    weight[0] = 1.0 if as_printed else 0.0
    return weight / weight.sum()


def age_law(gaps: Law, as_printed: bool = False) -> np.ndarray:
    """Return pi_d, the share of clients whose last meeting was s slots ago (FedMobile D.5, equation 49).

    A meeting in this slot counts as s = 0, so s is less than the gap and pi_d(s) = P(gap > s) / mean gap. The chain as
    printed in the paper also visits s = gap before it returns to 0, which gives pi_d(s) = P(gap >= s) / (mean gap + 1).

    Args:
      gaps: P [Delta + 1].
      as_printed: whether to return the stationary distribution of equation 49 exactly as printed.

    Returns:
      pi_d [Delta + 1], for s = 0 .. Delta.

    Raises:
      UserError: if P is no distribution.
    """
    law = _checked(gaps)
    weight = _at_least(law) if as_printed else _at_least(law) - law
    return weight / weight.sum()


def _no_relay(rho: float, chances: np.ndarray) -> float:
    return float(np.prod(1 - rho * chances))


def upload_probability(theta: int, big_theta: int, rho: float, gaps: Law, as_printed: bool = False) -> float:
    """Return Q_u, the probability that a client meets a semi-qualified upload relay in an interval (proposition 2).

    Q_u = 1 - prod over t = 0 .. Theta - theta of (1 - rho q_u(Theta - theta - t)), where q_u is the distribution
    function of pi_u.

    Args:
      theta: the begin of the interval, in slots after the last meeting.
      big_theta: Theta, the end of the interval, in slots after the last meeting.
      rho: the probability of meeting another client in a slot.
      gaps: P [Delta + 1], the distribution of the gaps of the clients that are met.
      as_printed: see `remaining_law`.

    Raises:
      UserError: if P is no distribution, or if not 0 <= theta <= Theta.
    """
    below = np.cumsum(remaining_law(gaps, as_printed))
    left = np.arange(_length(theta, big_theta), -1, -1)
    return 1 - _no_relay(rho, below[np.minimum(left, len(below) - 1)])


def download_probability(omega: int, big_omega: int, rho: float, gaps: Law, as_printed: bool = False) -> float:
    """Return Q_d, the probability that a client meets a semi-qualified download relay in an interval (proposition 2).

    Q_d = 1 - prod over t = 0 .. Omega - omega of (1 - rho q_d(t)), where q_d is the distribution function of pi_d.

    Args:
      omega: the end of the interval, in slots before the next meeting.
      big_omega: Omega, the begin of the interval, in slots before the next meeting.
      rho: the probability of meeting another client in a slot.
      gaps: P [Delta + 1], the distribution of the gaps of the clients that are met.
      as_printed: see `age_law`.

    Raises:
      UserError: if P is no distribution, or if not 0 <= omega <= Omega.
    """
    below = np.cumsum(age_law(gaps, as_printed))
    past = np.arange(_length(omega, big_omega) + 1)
    return 1 - _no_relay(rho, below[np.minimum(past, len(below) - 1)])


def _length(begin: int, end: int) -> int:
    if not 0 <= begin <= end:
        raise UserError(f"the search interval is {begin} to {end}; it must be 0 <= begin <= end")
    return end - begin


def upload_lag(theta: float, big_theta: float, delta: float) -> float:
    """Return C = max(Delta - theta, Theta), the largest age in slots of a step that the server lacks (lemma 1)."""
    return max(delta - theta, big_theta)


def download_lag(omega: float, big_omega: float, delta: float) -> float:
    """Return D = max(Delta - omega, Omega), the largest age in slots of a client's global model (lemma 2)."""
    return max(delta - omega, big_omega)


class Assumptions(NamedTuple):
    """The numbers of a learning problem that the theorems assume to be known.

    Attributes:
      smoothness: L, assumption 1.
      deviation: sigma, assumption 3.
      moment: G, where E||g||^2 <= G^2, assumption 4.
      excess: f(x0) - f*.
    """

    smoothness: float
    deviation: float
    moment: float
    excess: float


def staleness(upload: float, download: float) -> float:
    """Return 3 D^2 + 2 C^2, the bracket of theorem 1, from C of `upload_lag` and D of `download_lag`."""
    return 3 * download**2 + 2 * upload**2


def compressed_staleness(upload: float, download: float, error: float, big_theta: float) -> float:
    """Return 3 D^2 + 4 C^2 + 4 q Theta^2, the bracket of theorem 2, in which relayed updates are compressed.

    Args:
      upload, download: C and D.
      error: q, assumption 5.
      big_theta: Theta.
    """
    return 3 * download**2 + 4 * upload**2 + 4 * error * big_theta**2


def gradient_bound(bracket: float, assumed: Assumptions, num_clients: int, slots: int, lr: float) -> float:
    """Return the bound on the mean over T slots of E||grad f(x^t)||^2 (equations 9 and 70).

    It is 4 (f(x0) - f*) / (eta T) + 4 bracket L^2 eta^2 G^2 + 2 L eta sigma^2 / N. The bracket of theorem 1 is
    `staleness`, that of theorem 2 `compressed_staleness`. Both assume that a relay is met in every interval.

    Args:
      bracket: in slots squared.
      assumed: L, sigma, G and f(x0) - f*.
      num_clients: N.
      slots: T.
      lr: eta, at most 1 / L.

    Raises:
      UserError: for a learning rate that is not above 0 and at most 1 / L.

    >>> gradient_bound(staleness(25, 25), Assumptions(1.0, 0.0, 1.0, 1.0), 50, 200, 0.01)  # 2 + 4 * 5 * 625 * 1e-4
    3.25
    """
    smoothness = assumed.smoothness
    if not 0 < lr * smoothness <= 1:
        raise UserError(f"the learning rate is {lr}; it must be above 0 and at most 1 / L, {1 / smoothness:g}")
    start = 4 * assumed.excess / (lr * slots)
    drift = 4 * bracket * (smoothness * lr * assumed.moment) ** 2
    noise = 2 * smoothness * lr * assumed.deviation**2 / num_clients
    return start + drift + noise


RELAY_COLUMNS = ("point", "Delta", "mean gap", "C", "D", "Q_u", "Q_d")


def row(point: Point) -> tuple[str, ...] | None:
    """Compute the row of a sweep point in the table; None where no client searches for relays in set intervals.

    Delta is the longest gap between two meetings with the server, C and D are the largest ages of updates and models,
    in slots (FedMobile, lemmas 1 and 2), Q_u and Q_d are the chances that an interval holds a semi-qualified relay
    (proposition 2).
    """
    experiment = point.experiment
    numbers = numbers_in(experiment, ALGORITHMS, experiment.algorithm.name)
    laws = [getattr(n, "gap_law", None) for family, _, n in entries_in_use(experiment) if family.registry is PATTERNS]
    if not isinstance(numbers, FedMobileNumbers) or not laws or laws[0] is None:
        return None
    law = laws[0]()
    delta, mean = len(law) - 1, float(law @ range(len(law)))
    upload = numbers.upload_from, numbers.upload_until
    download = numbers.download_from, numbers.download_until
    chances = (
        upload_probability(*upload, ServerConfig.of(experiment).pairs, law),
        download_probability(*download, ServerConfig.of(experiment).pairs, law),
    )
    lags = (upload_lag(*upload, delta), download_lag(*download, delta))
    in_slots, in_probability = (f"{lag:g}" for lag in lags), (f"{chance:.4f}" for chance in chances)
    return (point.id, f"{delta}", f"{mean:.4g}", *in_slots, *in_probability)


def relay_table(points: list[Point]) -> str:
    """Describe the sweep points of a study that relay, as a table with a line for each; '' if there is none."""
    rows = [found for found in map(row, points) if found]
    if not rows:
        return ""
    widths = [max(map(len, column)) for column in zip(RELAY_COLUMNS, *rows)]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths)) for line in (RELAY_COLUMNS, *rows)]
    return "\n".join(line.rstrip() for line in lines)
