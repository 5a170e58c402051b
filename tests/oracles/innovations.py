"""Algorithms with compressed innovations as loops over clients, in float64; compressors of one vector.

``mixes[t]`` is W of round t; a client whose row has nobody else in it has no links in that round.
"""

import numpy as np


def top_k(share):
    """Keeps the ceil(share n) entries of largest size, the first of equal ones."""

    def compress(x):
        kept = sorted(range(len(x)), key=lambda at: (-abs(x[at]), at))[: int(np.ceil(share * len(x) - 1e-9))]
        return np.array([x[at] if at in kept else 0.0 for at in range(len(x))])

    return compress


def scaled_sign(x):
    """sign(x) times the mean size."""
    return np.array([np.abs(x).mean() * (-1 if v < 0 else 1) for v in x])


def nearest_point(eta, omega, most=400):
    """Nearest of the points (eta / omega) (((1 + omega) / (1 - omega))^l - 1) and their negatives; levels beside."""
    points = [eta / omega * (((1 + omega) / (1 - omega)) ** level - 1) for level in range(most)]

    def compress(x):
        levels = [min(range(most), key=lambda level: abs(points[level] - abs(v))) for v in x]
        return np.array([np.sign(v) * points[level] for v, level in zip(x, levels)]), np.sign(x).astype(int) * levels

    return compress


def linked(mix, i):
    return any(mix[i][j] != 0 for j in range(len(mix)) if j != i)


def towards(mix, i, estimates):
    """sum_j W_ij (x_hat_j - x_hat_i)."""
    return sum(mix[i][j] * (estimates[j] - estimates[i]) for j in range(len(mix)))


def beer(start, gradient, mixes, lr, gamma, compress):
    """Zhao et al. 2022, algorithm 1, every line of it in the paper's order; the models X^0, X^1, ..."""
    n = len(start)
    x = [np.array(v, float) for v in start]
    h, g = [np.zeros_like(v) for v in x], [np.zeros_like(v) for v in x]
    found = [gradient(i, x[i]) for i in range(n)]
    v = [f.copy() for f in found]
    history = [np.stack(x)]
    for t, mix in enumerate(mixes):
        x = [x[i] + gamma * towards(mix, i, h) - lr * v[i] for i in range(n)]
        h = [h[i] + compress(x[i] - h[i]) if linked(mix, i) else h[i] for i in range(n)]
        history.append(np.stack(x))
        if t + 1 == len(mixes):
            break
        after = mixes[t + 1]  # the second exchange of an iteration takes place at the beginning of the next round
        new = [gradient(i, x[i]) for i in range(n)]
        v = [v[i] + gamma * towards(after, i, g) + new[i] - found[i] for i in range(n)]
        g = [g[i] + compress(v[i] - g[i]) if linked(after, i) else g[i] for i in range(n)]
        found = new
    return np.stack(history)


def choco(start, gradient, mixes, lr, gamma, compress):
    """Koloskova, Stich, Jaggi 2019, algorithm 2."""
    return squarm(start, gradient, mixes, [lr] * len(mixes), gamma, compress, 0.0, 1, -1.0)[0]


def squarm(start, gradient, mixes, lrs, gamma, compress, momentum, num_steps, trigger):
    """Singh et al. 2021, algorithm 1; a negative trigger always fires. (models, who sent in each round)."""
    n = len(start)
    x = [np.array(v, float) for v in start]
    known, velocity = [np.zeros_like(v) for v in x], [np.zeros_like(v) for v in x]
    history, sent = [np.stack(x)], []
    for mix, lr in zip(mixes, lrs):
        for _ in range(num_steps):
            for i in range(n):
                found = gradient(i, x[i])
                velocity[i] = momentum * velocity[i] + found
                x[i] = x[i] - lr * (momentum * velocity[i] + found)
        sent.append([])
        for i in range(n):
            fires = linked(mix, i) and np.sum((x[i] - known[i]) ** 2) > trigger * lr**2
            sent[-1].append(bool(fires))
            if fires:
                known[i] = known[i] + compress(x[i] - known[i])
        x = [x[i] + gamma * towards(mix, i, known) for i in range(n)]
        history.append(np.stack(x))
    return np.stack(history), sent


def dcd(start, gradient, mixes, lr, compress):
    """Tang et al. 2018, algorithm 1: neighbours' copies are kept apart and stay equal to the models."""
    n = len(start)
    x = [np.array(v, float) for v in start]
    copies = [[v.copy() for v in x] for _ in range(n)]  # copies[i][j]: what i holds of j
    history = [np.stack(x)]
    for mix in mixes:
        half = [sum(mix[i][j] * copies[i][j] for j in range(n)) - lr * gradient(i, x[i]) for i in range(n)]
        moves = [compress(half[i] - x[i]) for i in range(n)]
        x = [x[i] + moves[i] for i in range(n)]
        for i in range(n):
            for j in range(n):
                copies[i][j] = copies[i][j] + moves[j]
        history.append(np.stack(x))
    return np.stack(history)


def anq_nids(start, gradient, mixes, lr, eta, omega, decay):
    """NIDS (Li, Shi, Yan 2019) with y heard through estimates that quantised innovations move; (models, levels)."""
    n = len(start)
    x = [np.array(v, float) for v in start]
    known = [np.zeros_like(v) for v in x]
    found = [gradient(i, x[i]) for i in range(n)]
    before, x = x, [x[i] - lr * found[i] for i in range(n)]  # round 0: nobody speaks
    history, spoken = [np.stack(before), np.stack(x)], [None]
    for k, mix in enumerate(mixes[1:], start=1):
        new = [gradient(i, x[i]) for i in range(n)]
        y = [2 * x[i] - before[i] - lr * (new[i] - found[i]) for i in range(n)]
        levels = [None] * n
        for i in range(n):
            if linked(mix, i):
                heard, levels[i] = nearest_point(eta * decay**k, omega)(y[i] - known[i])
                known[i] = known[i] + heard
        before, found = x, new
        x = [y[i] + towards(mix, i, known) / 2 for i in range(n)]
        history.append(np.stack(x))
        spoken.append(levels)
    return np.stack(history), spoken
