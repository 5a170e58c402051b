"""Graphs from their definitions."""

import itertools

import numpy as np


def edges(n, name):
    """The undirected edges of a deterministic graph."""
    if name == "ring":
        return [(i, (i + 1) % n) for i in range(n)]
    if name == "torus":
        columns = min((c for c in range(1, n + 1) if n % c == 0 and c >= n // c), key=lambda c: c - n // c)
        below = [(k, (k + columns) % n) for k in range(n)]
        return below + [(k, k - k % columns + (k + 1) % columns) for k in range(n)]
    return {
        "star": [(0, i) for i in range(1, n)],
        "complete": list(itertools.combinations(range(n), 2)),
        "barbell": [(i, j) for i, j in itertools.combinations(range(n), 2) if (i < n // 2) == (j < n // 2)]
        + [(n // 2 - 1, n // 2)],
    }[name]


def links(n, name, t=0):
    """[n, n] bool, [i, j] where i hears j, of a deterministic graph in round t."""
    a = np.zeros((n, n), bool)
    if name in ("exponential", "one_peer_exponential"):  # directed: from the distances of the powers of two
        hops = [1 << k for k in range((n - 1).bit_length())]
        for i, hop in itertools.product(range(n), hops if name == "exponential" else [hops[t % len(hops)]]):
            a[i, (i - hop) % n] = True
    else:
        for i, j in edges(n, name):
            a[i, j] = a[j, i] = i != j
    return a


def reachable(a):
    """[n, n] bool, who reaches whom along the links."""
    found = np.asarray(a, bool) | np.eye(len(a), dtype=bool)
    for _ in range(len(a).bit_length()):
        found = found | ((found.astype(int) @ found.astype(int)) > 0)
    return found


def connected(a):
    """Whether all are reached from client 0 and reach it."""
    return bool(reachable(a)[0].all() and reachable(a)[:, 0].all())
