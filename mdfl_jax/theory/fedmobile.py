"""FedMobile's bounds, and how likely a relay is met: C, D, theorems 1 and 2, proposition 2 with appendix D.5.

A distribution of gaps between two meetings is an array P of Delta + 1 probabilities, P[k] of k slots; P[0] = 0.
"""

import numpy as np

from mdfl_jax.errors import UserError

Law = np.ndarray


def fixed_gaps(interval: int) -> Law:
    """All gaps alike.

    >>> fixed_gaps(2).tolist()
    [0.0, 0.0, 1.0]
    """
    return np.eye(interval + 1)[interval]


def uniform_gaps(gap_min: int, gap_max: int) -> Law:
    """Uniform on gap_min .. gap_max."""
    slots = np.arange(gap_max + 1)
    return np.where(slots >= gap_min, 1.0 / (gap_max - gap_min + 1), 0.0)


def exponential_gaps(mean: float, limit: int) -> Law:
    """The exponential of a mean given that it is at most ``limit``, rounded up to slots."""
    below = np.expm1(-np.arange(limit + 1) / mean) / np.expm1(-limit / mean)
    return np.concatenate([[0.0], np.diff(below)])


def _at_least(gaps: Law) -> np.ndarray:
    """P(gap >= s) for s = 0 .. Delta."""
    return np.cumsum(gaps[::-1])[::-1]


def _checked(gaps: Law) -> Law:
    law = np.asarray(gaps, np.float64)
    if law.ndim != 1 or law[0] != 0 or (law < 0).any() or abs(law.sum() - 1) > 1e-6:
        raise UserError("gaps must be probabilities of 0, 1, ..., Delta slots that sum to 1, that of 0 being 0")
    return law


def remaining_law(gaps: Law, as_printed: bool = False) -> np.ndarray:
    """pi_u: the share of clients whose next meeting is in s slots, s = 0 .. Delta (FedMobile D.5, (48)).

    In a slot the next meeting is a later one, so that s is at least 1 and pi_u(s) = P(gap >= s) / mean gap. The chain
    as printed takes a slot of its own for s = 0: pi_u(s) = P(gap >= s) / (mean gap + 1).

    Args:
      gaps: P.
      as_printed: the stationary law of (48) to the letter.

    Raises:
      UserError: where P is no distribution.

    >>> remaining_law(fixed_gaps(4)).tolist(), remaining_law(fixed_gaps(4), as_printed=True).tolist()
    ([0.0, 0.25, 0.25, 0.25, 0.25], [0.2, 0.2, 0.2, 0.2, 0.2])
    """
    weight = _at_least(_checked(gaps))
    weight[0] = 1.0 if as_printed else 0.0
    return weight / weight.sum()


def age_law(gaps: Law, as_printed: bool = False) -> np.ndarray:
    """pi_d: the share of clients whose last meeting was s slots ago, s = 0 .. Delta (FedMobile D.5, (49)).

    A meeting in this slot counts, so that s is less than the gap: pi_d(s) = P(gap > s) / mean gap. The chain as
    printed leaves s = gap before it begins again: pi_d(s) = P(gap >= s) / (mean gap + 1).

    Args:
      gaps: P.
      as_printed: the stationary law of (49) to the letter.

    Raises:
      UserError: where P is no distribution.
    """
    law = _checked(gaps)
    weight = _at_least(law) if as_printed else _at_least(law) - law
    return weight / weight.sum()


def _no_relay(rho: float, chances: np.ndarray) -> float:
    return float(np.prod(1 - rho * chances))


def upload_probability(theta: int, big_theta: int, rho: float, gaps: Law, as_printed: bool = False) -> float:
    """Q_u: that a semi-qualified upload relay is met in an interval (proposition 2).

    1 - prod over t = 0 .. Theta - theta of 1 - rho q_u(Theta - theta - t), q_u the distribution function of pi_u.

    Args:
      theta: the interval's begin after the last meeting, in slots.
      big_theta: its end, Theta.
      rho: probability of meeting somebody in a slot.
      gaps: P, of those who are met.
      as_printed: see `remaining_law`.
    """
    below = np.cumsum(remaining_law(gaps, as_printed))
    left = np.arange(_length(theta, big_theta), -1, -1)
    return 1 - _no_relay(rho, below[np.minimum(left, len(below) - 1)])


def download_probability(omega: int, big_omega: int, rho: float, gaps: Law, as_printed: bool = False) -> float:
    """Q_d: that a semi-qualified download relay is met in an interval (proposition 2).

    1 - prod over t = 0 .. Omega - omega of 1 - rho q_d(t), q_d the distribution function of pi_d.

    Args:
      omega: the interval's end before the next meeting, in slots.
      big_omega: its begin, Omega.
      rho: probability of meeting somebody in a slot.
      gaps: P, of those who are met.
      as_printed: see `age_law`.
    """
    below = np.cumsum(age_law(gaps, as_printed))
    past = np.arange(_length(omega, big_omega) + 1)
    return 1 - _no_relay(rho, below[np.minimum(past, len(below) - 1)])


def _length(begin: int, end: int) -> int:
    if not 0 <= begin <= end:
        raise UserError(f"the search interval is {begin} to {end}; it must be 0 <= begin <= end")
    return end - begin


def upload_lag(theta: float, big_theta: float, delta: float) -> float:
    """C = max(Delta - theta, Theta): most slots by which the server lacks a client's steps (lemma 1)."""
    return max(delta - theta, big_theta)


def download_lag(omega: float, big_omega: float, delta: float) -> float:
    """D = max(Delta - omega, Omega): most slots by which a client's global model is old (lemma 2)."""
    return max(delta - omega, big_omega)


def gradient_bound(
    upload: float,
    download: float,
    num_clients: int,
    slots: int,
    lr: float,
    smoothness: float,
    moment: float,
    deviation: float,
    excess: float,
    error: float | None = None,
    big_theta: float = 0.0,
) -> float:
    """The bound on the mean over T slots of E||grad f(x^t)||^2, theorem 1, (9); with an error theorem 2, (70).

    4 (f(x0) - f*) / (eta T) + 4 (3 D^2 + 2 C^2) L^2 eta^2 G^2 + 2 L eta sigma^2 / N; in theorem 2 the bracket is
    3 D^2 + 4 C^2 + 4 q Theta^2. Both take for granted that a relay is met in every interval.

    Args:
      upload: C, of `upload_lag`.
      download: D, of `download_lag`.
      num_clients: N.
      slots: T.
      lr: eta, at most 1 / L.
      smoothness: L, assumption 1.
      moment: G, where E||g||^2 <= G^2, assumption 4.
      deviation: sigma, assumption 3.
      excess: f(x0) - f*.
      error: q of assumption 5, where relayed updates are manipulated; None where they are not.
      big_theta: Theta, for that.

    Raises:
      UserError: for a learning rate above 1 / L.

    >>> gradient_bound(25, 25, 50, 200, 0.01, 1.0, 1.0, 0.0, 1.0)  # 2 + 4 * 5 * 625 * 1e-4
    3.25
    """
    if not 0 < lr * smoothness <= 1:
        raise UserError(f"the learning rate is {lr}; it must be above 0 and at most 1 / L, {1 / smoothness:g}")
    lags = 3 * download**2 + 2 * upload**2
    if error is not None:
        lags = 3 * download**2 + 4 * upload**2 + 4 * error * big_theta**2
    start, noise = 4 * excess / (lr * slots), 2 * smoothness * lr * deviation**2 / num_clients
    return start + 4 * lags * (smoothness * lr * moment) ** 2 + noise
