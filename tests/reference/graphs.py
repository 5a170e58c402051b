"""Graphs as plain loops, from their definitions."""

import numpy as np


def links(n, name, t=0):
    """[n, n] bool, [i, j] where i hears j, of a deterministic graph in round t, link by link."""
    a = np.zeros((n, n), bool)

    def tie(i, j):
        if i != j:
            a[i, j] = a[j, i] = True

    if name == "ring":
        for i in range(n):
            tie(i, (i + 1) % n)
    elif name == "torus":
        columns = min((c for c in range(1, n + 1) if n % c == 0 and c >= n // c), key=lambda c: c - n // c)
        rows = n // columns
        for r in range(rows):
            for c in range(columns):
                tie(r * columns + c, ((r + 1) % rows) * columns + c)
                tie(r * columns + c, r * columns + (c + 1) % columns)
    elif name == "star":
        for i in range(1, n):
            tie(0, i)
    elif name == "complete":
        for i in range(n):
            for j in range(i):
                tie(i, j)
    elif name == "barbell":
        first, second = list(range(n // 2)), list(range(n // 2, n))
        for clique in (first, second):
            for i in clique:
                for j in clique:
                    tie(i, j)
        tie(first[-1], second[0])
    elif name in ("exponential", "one_peer_exponential"):
        hops = [1 << k for k in range((n - 1).bit_length())]
        for i in range(n):
            for hop in hops if name == "exponential" else [hops[t % len(hops)]]:
                a[i, (i - hop) % n] = True
    else:
        raise ValueError(name)
    return a


def connected(a):
    """Whether all are reached from client 0 and reach it, by walking."""
    for table in (a, a.T):
        seen, todo = {0}, [0]
        while todo:
            i = todo.pop()
            for j in range(len(a)):
                if table[i, j] and j not in seen:
                    seen.add(j)
                    todo.append(j)
        if len(seen) < len(a):
            return False
    return True
