"""Union windows: in how many rounds the links, taken together, connect all clients (MADFL III, property 1).

Computed on the host. ``adjacency[..., t, i, j]`` is true where client i hears client j in round t. A round that does
not come within the rounds that are known is `NEVER`.
"""

import numpy as np

NEVER = np.iinfo(np.int32).max


def next_links(adjacency: np.ndarray) -> np.ndarray:
    """Find the next round, from each round on, in which each link is there.

    Args:
      adjacency: [..., R, N, N] bool.

    Returns:
      [..., R, N, N] int32, the smallest t >= k with the link, for each k; `NEVER` if there is none.
    """
    following = np.empty(adjacency.shape, np.int32)
    later = np.full(adjacency.shape[:-3] + adjacency.shape[-2:], NEVER, np.int32)
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
        chosen = np.where(inside, np.int64(NEVER) + 1, soonest).argmin(1)
        last = np.maximum(last, soonest[rows, chosen])
        inside[rows, chosen] = True
        soonest = np.minimum(soonest, following[rows, :, chosen])
    return last


def closing_rounds(following: np.ndarray) -> np.ndarray:
    """Find for each first round k the first round T such that the union of rounds k to T is strongly connected.

    Args:
      following: [..., R, N, N] int32 from `next_links`.

    Returns:
      [..., R] int32; `NEVER` where the union of all rounds from k on is not strongly connected. Of one client it is k.
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
    return np.where(closing == NEVER, np.inf, closing - begin + 1.0)


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
