"""Meeting and cover times, measured on links of any network: a client meets another when it hears it."""

import numpy as np

from mdfl_jax.contrib.theory.mixing import UNREACHED


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
