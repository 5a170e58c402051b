"""The mixing matrices of MADFL and DADFL in plain NumPy loops; mix[i, j] is the weight receiver i gives sender j."""

import numpy as np


def metropolis_hastings(adjacency):
    """Metropolis-Hastings weights (MADFL eq. 2).

    >>> metropolis_hastings([[0, 1, 1], [1, 0, 0], [1, 0, 0]]).round(3).tolist()
    [[0.333, 0.333, 0.333], [0.333, 0.667, 0.0], [0.333, 0.0, 0.667]]
    """
    n = len(adjacency)
    degree = [sum(1 for j in range(n) if adjacency[i][j]) for i in range(n)]
    mix = np.zeros((n, n))
    for i in range(n):
        given = 0.0
        for j in range(n):
            if adjacency[i][j]:
                mix[i, j] = 1.0 / (1.0 + max(degree[i], degree[j]))
                given += mix[i, j]
        mix[i, i] = 1.0 - given
    return mix


def fedavg(adjacency, num_samples):
    """Data-size weights over the closed neighbourhood (DADFL eq. 2); with no sample in it, one's own model (settled).

    >>> fedavg([[0, 1, 0], [1, 0, 0], [0, 0, 0]], [1, 3, 0]).tolist()
    [[0.25, 0.75, 0.0], [0.25, 0.75, 0.0], [0.0, 0.0, 1.0]]
    """
    n = len(adjacency)
    mix = np.zeros((n, n))
    for i in range(n):
        closed = [j for j in range(n) if j == i or adjacency[i][j]]
        total = sum(float(num_samples[j]) for j in closed)
        if total == 0.0:
            mix[i, i] = 1.0
            continue
        for j in closed:
            mix[i, j] = float(num_samples[j]) / total
    return mix


def uniform(adjacency):
    """Plain averaging over the closed neighbourhood (thesis 5.3).

    >>> uniform([[0, 1], [0, 0]]).tolist()
    [[0.5, 0.5], [0.0, 1.0]]
    """
    return speed_aware(adjacency, [1.0] * len(adjacency), [0.0] * len(adjacency))


def speed_aware(adjacency, speed, ratio):
    """Weights by speed (thesis 5.4), a ratio a receiver; a neighbourhood at rest is averaged plainly.

    >>> speed_aware([[0, 1], [1, 0]], [1, 3], [1.0, 0.0]).tolist()
    [[0.25, 0.75], [0.5, 0.5]]
    """
    n = len(adjacency)
    mix = np.zeros((n, n))
    for i in range(n):
        closed = [j for j in range(n) if j == i or adjacency[i][j]]
        total = sum(float(speed[j]) for j in closed)
        for j in closed:
            even = 1 / len(closed)
            share = float(speed[j]) / total if total > 0 else even
            mix[i, j] = even + ratio[i] * (share - even)
    return mix


def automatic_ratio(adjacency, speed, radius):
    """The ratio whose speed-aware weights are nearest to m / sum m, m = pi R / 2 + sqrt(s^2 + q), by least squares."""
    n = len(adjacency)
    ratio, radius = np.zeros(n), np.broadcast_to(radius, n)
    for i in range(n):
        closed = [j for j in range(n) if j == i or adjacency[i][j]]
        s = np.array([float(speed[j]) for j in closed])
        if s.sum() == 0 or np.ptp(s) == 0 or np.isinf(radius[i]):
            continue
        wanted = np.pi * radius[i] / 2 + np.sqrt(s**2 + np.mean(s**2))
        direction = s / s.sum() - 1 / len(s)
        ratio[i] = np.clip(direction @ (wanted / wanted.sum() - 1 / len(s)) / (direction @ direction), 0, 1)
    return ratio


def max_degree(adjacency):
    """W = I - L / (d_max + 1), L = D - A."""
    degree = np.sum(adjacency, axis=1)
    laplacian = np.diag(degree) - np.asarray(adjacency, float)
    return np.eye(len(degree)) - laplacian / (degree.max() + 1)


def lazy(adjacency):
    """(I + W) / 2 of the Metropolis-Hastings weights."""
    return (np.eye(len(adjacency)) + metropolis_hastings(adjacency)) / 2
