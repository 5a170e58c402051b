"""MADFL III: how fast mixing matrices bring models together, and in how many rounds their links connect all clients.

W is a mixing matrix as `mdfl_jax.core.types.Links.mix`: row i has the weights of receiver i, rows sum to one, a round
is X <- W X. J is the matrix of 1 / N. The product psi of several rounds is W of the last round times ... times W of the
first. ``adjacency[..., t, i, j]`` is true where client i hears client j in round t. A round that does not come within
the rounds that are known is `UNREACHED` (union windows: property 1). All functions are computed on the host, in
float64.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from mdfl_jax.core.errors import UserError

UNREACHED = np.iinfo(np.int32).max
ZERO = 1e-9  # a p below this is zero: eigenvalues of small matrices are known to about 1e-15
BLOCK = 1_000_000  # entries of the matrices whose eigenvalues are computed together
GONE = 1e-12  # what a round leaves of a disagreement, if it is only rounding error


def next_links(adjacency: np.ndarray) -> np.ndarray:
    """Find the next round, from each round on, in which each link is there.

    Args:
      adjacency: [..., R, N, N] bool.

    Returns:
      [..., R, N, N] int32, the smallest t >= k with the link, for each k; `UNREACHED` if there is none.
    """
    following = np.empty(adjacency.shape, np.int32)
    later = np.full(adjacency.shape[:-3] + adjacency.shape[-2:], UNREACHED, np.int32)
    for t in range(adjacency.shape[-3] - 1, -1, -1):
        later = np.where(adjacency[..., t, :, :], np.int32(t), later)
        following[..., t, :, :] = later
    return following


def _reached(following: np.ndarray) -> np.ndarray:
    """Find the round until which the union must last for client 0 to be heard by everyone, through others or not.

    A set of clients grows from client 0, each time by the client that hears one of the set soonest. The largest of
    these rounds is the smallest that suffices, as in Prim's algorithm for spanning trees.

    Args:
      following: [K, N, N] int32, the next rounds of the links.

    Returns:
      [K] int32.
    """
    rows, clients = np.arange(len(following)), following.shape[-1]
    soonest, last = following[:, :, 0].copy(), np.zeros(len(following), np.int32)
    inside = np.zeros((len(following), clients), bool)
    inside[:, 0] = True
    for _ in range(clients - 1):
        chosen = np.where(inside, np.int64(UNREACHED) + 1, soonest).argmin(1)
        last = np.maximum(last, soonest[rows, chosen])
        inside[rows, chosen] = True
        soonest = np.minimum(soonest, following[rows, :, chosen])
    return last


def closing_rounds(following: np.ndarray) -> np.ndarray:
    """Find for each first round k the first round T such that the union of rounds k to T is strongly connected.

    Args:
      following: [..., R, N, N] int32 from `next_links`.

    Returns:
      [..., R] int32; `UNREACHED` where the union of all rounds from k on is not strongly connected. Of one client it is
      k.
    """
    flat = following.reshape(-1, *following.shape[-2:])
    heard = _reached(flat)
    both_ways = np.array_equal(flat, flat.swapaxes(1, 2))
    found = heard if both_ways else np.maximum(heard, _reached(flat.swapaxes(1, 2)))
    return np.maximum(found.reshape(following.shape[:-2]), np.arange(following.shape[-3], dtype=np.int32))


def effective_windows(closing: np.ndarray) -> np.ndarray:
    """Compute the effective B of each first round: the length of the shortest window from it that connects all clients.

    Only the first half of the rounds counts as first rounds, so that every window could have had half of all rounds.

    Args:
      closing: [..., R] int32 from `closing_rounds`.

    Returns:
      [..., ceil(R / 2)] float64, ``inf`` for windows that do not close.
    """
    rounds = closing.shape[-1]
    begin = np.arange((rounds + 1) // 2)
    closing = closing[..., begin]
    return np.where(closing == UNREACHED, np.inf, closing - begin + 1.0)


def strong_window(closing: np.ndarray) -> np.ndarray:
    """Compute the B of MADFL's property 1: the smallest B for which each window of B rounds is strongly connected.

    The windows are rounds k B to (k + 1) B - 1 for all k, as far as they are complete.

    Args:
      closing: [..., R] int32 from `closing_rounds`.

    Returns:
      [...] float64; ``inf`` if no B up to half of the rounds has this property.
    """
    rounds = closing.shape[-1]
    found = np.full(closing.shape[:-1], np.inf)
    for window in range(1, max(rounds // 2, 1) + 1):
        begin = np.arange(rounds // window) * window
        holds = (closing[..., begin] < begin + window).all(-1)
        found = np.where(np.isinf(found) & holds, window, found)
        if np.isfinite(found).all():
            break
    return found


def num_components(adjacency: np.ndarray) -> np.ndarray:
    """Count the connected components; a link in one direction connects.

    Args:
      adjacency: [..., N, N] bool.

    Returns:
      [...] int64. A client without links is a component of its own.

    >>> num_components(np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]], bool)).item()
    2
    """
    clients = adjacency.shape[-1]
    near = (adjacency | adjacency.swapaxes(-1, -2) | np.eye(clients, dtype=bool)).astype(np.float32)
    for _ in range(max(clients - 1, 1).bit_length()):
        near = (near @ near > 0).astype(np.float32)
    return (near.argmax(-1) == np.arange(clients)).sum(-1)


def exact(mix: np.ndarray) -> np.ndarray:
    """Return mixing matrices [..., N, N] in float64 whose rows sum to one exactly, by a change of the own weights.

    Metropolis-Hastings weights in float32 are symmetric, so they are then doubly stochastic too.
    """
    found = np.asarray(mix, np.float64).copy()
    own = np.arange(found.shape[-1])
    found[..., own, own] += 1 - found.sum(-1)
    return found


def without_mean(psi: np.ndarray) -> np.ndarray:
    """Return (I - J) psi of matrices [..., N, N]: what is left of psi X after the mean over the clients is removed."""
    return psi - psi.mean(-2, keepdims=True)


def contraction(psi: np.ndarray) -> np.ndarray:
    """Compute the largest factor by which psi may change the squared distance of models from their mean.

    It is the largest eigenvalue of psi^T (I - J) psi. Where psi is doubly stochastic, this is lambda_2, the second
    largest eigenvalue of psi^T psi (MADFL III, below assumption 3), which is at most 1. Where only its rows sum to one,
    as with FedAvg weights, the factor may be above 1.

    Args:
      psi: [..., N, N] mixing matrices or products of them.

    Returns:
      [...] float64.

    >>> contraction(np.eye(3)).round(9).item(), contraction(np.full((3, 3), 1 / 3)).round(9).item()
    (1.0, 0.0)
    """
    clients = psi.shape[-1]
    flat, found = psi.reshape(-1, clients, clients), np.zeros(psi.shape[:-2]).reshape(-1)
    size = max(1, BLOCK // clients**2)
    for begin in range(0, len(flat) if clients > 1 else 0, size):
        left = without_mean(flat[begin : begin + size])
        found[begin : begin + size] = np.linalg.eigvalsh(left.swapaxes(1, 2) @ left)[:, -1]
    return np.maximum(found, 0.0).reshape(psi.shape[:-2])


def mixing_parameter(factor: np.ndarray | float) -> np.ndarray:
    """Return p = 1 - factor (MADFL assumption 3), at least 0, and exactly 0 where it is rounding error."""
    p = 1 - np.asarray(factor, np.float64)
    return np.where(p < ZERO, 0.0, p)


def windows(mix: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the products of rounds over windows of B = 1, 2, 4, ... rounds, which follow each other from round 0.

    Args:
      mix: [..., R, N, N] the mixing matrices of R rounds.

    Yields:
      (B, psi [..., R // B, N, N]), as long as there are two windows or more; of one round, only B = 1.
    """
    size, psi = 1, mix
    while size == 1 or psi.shape[-3] >= 2:
        yield size, psi
        even = psi.shape[-3] // 2 * 2
        size, psi = 2 * size, psi[..., 1:even:2, :, :] @ psi[..., 0:even:2, :, :]


class Contraction(NamedTuple):
    """The effect of the products of mixing matrices on models that differ.

    Attributes:
      halving: [S] the rounds in which the distance of models from their mean halves, if nobody trains; ``inf`` where it
        does not shrink.
      drift: [S] the distance from the mean that gradients keep up, in multiples of the step times their own spread.
      labels: [S] the same for gradients that are the clients' label shares, root mean square over the clients.
    """

    halving: np.ndarray
    drift: np.ndarray
    labels: np.ndarray


def spread(mix: np.ndarray, shares: np.ndarray) -> Contraction:
    """Compute how fast models come together, and how far constant gradients keep them apart.

    Training is replaced by x <- W (x + g) with a constant g for each client, from equal models. With g of independent
    coordinates, the distance is ||(I - J) D (I - J)||_F / sqrt(N - 1) with D <- W (D + I). It is 0 if every
    round averages all models, and grows by 1 a round if nobody hears anybody. Values are root mean squares over the
    second half of the rounds; the halving is that of products of the matrices of this half.

    Args:
      mix: [S, R, N, N] the mixing matrices.
      shares: [S, N, C] the share of each label in each client's samples; zero for a client without samples.
    """
    seeds, rounds, clients = mix.shape[:3]
    centre = np.eye(clients) - 1 / clients
    distance = np.zeros_like(mix[:, 0])
    apart = np.broadcast_to(centre / np.sqrt(max(clients - 1, 1)), mix[:, 0].shape)  # its norm is kept at 1
    own = shares - shares.mean(1, keepdims=True)
    labels, begin = np.zeros_like(own), rounds // 2
    rate, of_distance, of_labels = np.zeros((3, seeds))
    for t in range(rounds):
        apart = without_mean(mix[:, t] @ apart)
        norm = np.linalg.norm(apart, axis=(1, 2))
        gone = norm < GONE
        apart = apart / np.where(gone, 1.0, norm)[:, None, None]
        distance = without_mean(mix[:, t] @ (distance + centre))
        labels = without_mean(mix[:, t] @ (labels + own))
        if t >= begin:
            rate += np.where(gone, -np.inf, np.log(np.where(gone, 1.0, norm)))
            of_distance += np.square(distance).sum((1, 2)) / max(clients - 1, 1)
            of_labels += np.square(labels).sum((1, 2)) / clients
    count = rounds - begin
    together = num_components(np.asarray((mix[:, begin:] > 0).any(1)))
    shrinks = (together == 1) & (rate < 0)
    halving = np.where(shrinks, np.log(2) * count / np.where(shrinks, -rate, 1.0), np.inf)
    return Contraction(halving, np.sqrt(of_distance / count), np.sqrt(of_labels / count))


def corollary_1(num_clients: int, window: float) -> float:
    """Return the bound of corollary 1 of MADFL on ||psi - J||_F^2 over B rounds whose union is strongly connected.

    It is C^2 N^2 lambda^(2B) with C = 4 and lambda = (1 - N^(-N B))^(1 / B), hence 16 N^2 (1 - N^(-N B))^2. Without any
    mixing the distance itself is N - 1, so the bound says nothing.

    Args:
      num_clients: N.
      window: B in rounds.

    >>> corollary_1(2, 1)
    36.0
    """
    return 16 * num_clients**2 * (1 - float(num_clients) ** (-num_clients * window)) ** 2


def consensus_factor(p: float, num_clients: int, window: float) -> float:
    """Return A_0 / tau of theorem 1 of MADFL (equation 8); ``inf`` where p is 0.

    A_0 / tau = (1 + 2 / p) (2 / p) ((1 - p) / p + C^2 N^2 lambda^(2B)). The squared distance of the N models from their
    mean is at most eta^2 A_0. tau is the sum over the clients of the squared distances of gradients from their mean.

    Args:
      p: the mixing parameter that holds in every round (assumption 3).
      num_clients: N.
      window: B, the rounds whose union is strongly connected.
    """
    if p <= 0:
        return float("inf")
    return (1 + 2 / p) * (2 / p) * ((1 - p) / p + corollary_1(num_clients, window))


def windowed_factor(p: np.ndarray | float, window: int) -> np.ndarray:
    """Return a factor to use for A_0 / tau in theorem 1 of MADFL if p holds for windows of B rounds, not for each.

    Let e be the distance of the models from their mean, and q = sqrt(1 - p). Doubly stochastic matrices never increase
    e, a round adds at most eta sqrt(tau) (assumption 4), and a window multiplies by q. So e after a window is at most
    q e + B eta sqrt(tau), hence at most B eta sqrt(tau) / (1 - q) at the ends of windows, and within them less than
    B eta sqrt(tau) more. The square is eta^2 tau (B (1 + 1 / (1 - q)))^2, for every round.

    Args:
      p: [...] 1 minus the largest contraction of all windows.
      window: B, the length of the windows in rounds.

    Returns:
      [...]; ``inf`` where p is 0.

    >>> windowed_factor(np.array([0.0, 0.75]), 2).tolist()
    [inf, 36.0]
    """
    with np.errstate(divide="ignore"):
        return np.square(window * (1 + 1 / (1 - np.sqrt(1 - np.asarray(p, np.float64)))))


def error_bound(
    factor: float,
    num_clients: int,
    rounds: int,
    lr: float,
    smoothness: float,
    deviation: float,
    heterogeneity: float,
    distance: float,
) -> float:
    """Return the bound of theorem 1 of MADFL (equation 7) on the mean over the rounds of E f(mean model) - f*.

    Args:
      factor: A_0 / tau, from `consensus_factor` or `windowed_factor`.
      num_clients: N.
      rounds: T.
      lr: eta, less than 1 / (2 L).
      smoothness: L, assumption 1.
      deviation: the mean over the clients of sigma^2, assumption 2.
      heterogeneity: tau, the sum over the clients of the bounds of assumption 4.
      distance: the distance of the first model from the best one, ||x(0) - x*||.

    Raises:
      UserError: for a learning rate that is not above 0 and below 1 / (2 L).
    """
    if not 0 < 2 * smoothness * lr < 1:
        raise UserError(f"the learning rate is {lr}; it must be above 0 and below 1 / (2 L), {1 / (2 * smoothness):g}")
    noise = lr**2 * deviation / num_clients
    apart = smoothness * lr**3 / num_clients * (2 * smoothness * lr + 1) * factor * heterogeneity
    return (distance**2 / (rounds + 1) + noise + apart) / (2 * lr * (1 - 2 * smoothness * lr))
