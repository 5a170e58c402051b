"""Meeting and cover times: measured on links of any network, and exact for a walk whose chain is known.

Measured: a client meets another one in the rounds in which it hears it. Exact: a rule whose field ``chain``
(`mdfl_jax.mobility.rule.Mobility`) is set moves a client as a Markov chain on the grid, independently of the others.
Its hitting times solve linear equations (Levin, Peres: Markov Chains and Mixing Times, sections 1.4, 10.1 and 11.2).
"""

import numpy as np

from mdfl_jax.contrib.theory.mixing import UNREACHED

_MARGIN = 1 + 1e-6  # of a squared distance, as in `mdfl_jax.core.geometry.squared_reach`


def _to_meet(is_mobile: np.ndarray) -> np.ndarray:
    """Find the clients that each mobile client is to meet: the static ones, or all others where all are mobile.

    Args:
      is_mobile: [S, N] bool.

    Returns:
      [S, N, N] bool, [s, i, j] is true if i is mobile and j is one of those.
    """
    clients = is_mobile.shape[1]
    those = ~is_mobile | is_mobile.all(1, keepdims=True)
    return is_mobile[:, :, None] & those[:, None, :] & ~np.eye(clients, dtype=bool)


def meeting_times(following: np.ndarray, is_mobile: np.ndarray) -> np.ndarray:
    """Compute the mean number of rounds until a mobile client meets a given static client.

    The mean is over all pairs of a mobile and a static client, or of two mobile clients where all are mobile, and over
    all first rounds in the first half of the rounds. A meeting in the first round itself counts as 0. A client that is
    not met in half of the rounds counts as this half, so that the value is a lower bound where this happens.

    Args:
      following: [S, R, N, N] int32 from `mdfl_jax.contrib.theory.mixing.next_links`.
      is_mobile: [S, N] bool.

    Returns:
      [S]; NaN where nobody is mobile.
    """
    rounds = following.shape[1]
    half = (rounds + 1) // 2
    begin = np.arange(half)[None, :, None, None]
    ahead = np.minimum(following[:, :half] - begin, half)
    pairs = _to_meet(is_mobile)
    with np.errstate(invalid="ignore"):
        return np.where(pairs[:, None], ahead, 0).sum((1, 2, 3)) / (pairs.sum((1, 2)) * half)


def cover_times(following: np.ndarray, is_mobile: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute the rounds after the first one until all static clients are met; 0 if all are met in the first.

    Where all clients are mobile, it is until all of them are met.

    Args:
      following: [S, R, N, N] int32 from `mdfl_jax.contrib.theory.mixing.next_links`.
      is_mobile: [S, N] bool.

    Returns:
      (the mean over the mobile clients of the rounds until one has met all of them [S], the rounds until each of them
      has been met by any mobile client [S]); ``inf`` where that does not happen within the rounds, NaN where nobody is
      mobile.
    """
    first = np.where(following[:, 0] == UNREACHED, np.inf, following[:, 0])
    pairs, none = _to_meet(is_mobile), ~is_mobile.any(1)
    alone = np.where(pairs, first, 0).max(2)
    mean = np.where(is_mobile, alone, 0).sum(1) / np.maximum(is_mobile.sum(1), 1)
    soonest = np.where(pairs, first, np.inf).min(1)
    together = np.where(pairs.any(1), soonest, 0).max(1)
    return np.where(none, np.nan, mean), np.where(none, np.nan, together)


def stationary(chain: np.ndarray) -> np.ndarray:
    """Compute the stationary distribution of an irreducible chain [L, L] whose rows sum to one: [L].

    >>> stationary(np.array([[0.7, 0.3], [0.1, 0.9]])).round(6).tolist()
    [0.25, 0.75]
    """
    size = len(chain)
    equations = np.concatenate([chain.T - np.eye(size), np.ones((1, size))])
    equations[0] = equations[-1]  # one of the balance equations follows from the others
    return np.linalg.solve(equations[:-1], np.eye(size)[0])


class Walk:
    """One client that moves as a chain on the grid, and the static clients that it meets.

    With the fundamental matrix Z = (I - P + 1 pi)^-1 of the chain, the hitting times of a set A are h = k (1 - Z_A u),
    where Z_A has the columns of A, u solves Z_AA u = 1, and k = 1 / (pi_A u): (I - P) h is 1 outside of A, so that h is
    a constant less Z w with w on A, and it is zero on A. So a set costs one small system and not one of all states.

    Args:
      chain: [L, L] transition matrix of an irreducible chain.
      grid: [L, 2] grid points.
      radius: communication radius Rc.
    """

    def __init__(self, chain: np.ndarray, grid: np.ndarray, radius: float):
        chain = np.asarray(chain, np.float64)
        self.chain = chain / chain.sum(1, keepdims=True)
        self.grid, self.radius = np.asarray(grid, np.float64), radius
        self.law = stationary(self.chain)
        self._fundamental = np.linalg.inv(np.eye(len(chain)) - self.chain + self.law)
        self._times: dict[tuple[float, ...], np.ndarray] = {}

    def until(self, place: np.ndarray) -> np.ndarray:
        """Compute the mean rounds until the client is within the radius of a grid point [2], from each one: [L]."""
        key = tuple(map(float, place))
        if key not in self._times:
            near = np.square(self.grid - place).sum(1) <= self.radius**2 * _MARGIN
            columns = self._fundamental[:, near]
            weights = np.linalg.solve(columns[near], np.ones(near.sum()))
            times = (1 - columns @ weights) / (self.law[near] @ weights)
            self._times[key] = np.where(near, 0.0, times)
        return self._times[key]

    def meeting_time(self, places: np.ndarray) -> float:
        """Compute the mean rounds until a walk from the stationary law meets a static client, the mean over places.

        Args:
          places: [J, 2] the places of static clients; NaN is returned for none.
        """
        return float(np.mean([self.law @ self.until(place) for place in places])) if len(places) else float("nan")

    def cover_bound(self, places: np.ndarray) -> float:
        """Return Matthews' upper bound on the mean rounds until a walk has met all static clients.

        It is the largest mean time to meet one of them, from any grid point, times 1 + 1/2 + ... + 1/J.

        Args:
          places: [J, 2] the places of static clients; NaN is returned for none.
        """
        if not len(places):
            return float("nan")
        return float(max(self.until(place).max() for place in places) * (1 / np.arange(1, len(places) + 1)).sum())
