"""The mixing matrices of MADFL and DADFL; mix[i, j] is the weight receiver i gives sender j."""

import numpy as np


def metropolis_hastings(adjacency):
    """Metropolis-Hastings weights (MADFL eq. 2).

    >>> metropolis_hastings([[0, 1, 1], [1, 0, 0], [1, 0, 0]]).round(3).tolist()
    [[0.333, 0.333, 0.333], [0.333, 0.667, 0.0], [0.333, 0.0, 0.667]]
    """
    degree = np.count_nonzero(adjacency, axis=1)
    mix = np.where(adjacency, 1 / (1 + np.maximum.outer(degree, degree)), 0.0)
    return mix + np.diag(1 - mix.sum(axis=1))


def shares(adjacency, amounts):
    """Each one's share of an amount over the closed neighbourhood; without any, plain averaging."""
    closed = np.asarray(adjacency, bool) | np.eye(len(adjacency), dtype=bool)
    amounts = np.where(closed, np.asarray(amounts, float), 0.0)
    total = amounts.sum(axis=1, keepdims=True)
    return np.where(total > 0, amounts / np.where(total > 0, total, 1), closed / closed.sum(axis=1, keepdims=True))


def fedavg(adjacency, num_samples):
    """Data-size weights over the closed neighbourhood (DADFL eq. 2); with no sample in it, one's own model (settled).

    >>> fedavg([[0, 1, 0], [1, 0, 0], [0, 0, 0]], [1, 3, 0]).tolist()
    [[0.25, 0.75, 0.0], [0.25, 0.75, 0.0], [0.0, 0.0, 1.0]]
    """
    mine = np.eye(len(adjacency))
    some = (np.asarray(adjacency, bool) + mine) @ np.asarray(num_samples, float) > 0
    return np.where(some[:, None], shares(adjacency, num_samples), mine)


def uniform(adjacency):
    """Plain averaging over the closed neighbourhood (thesis 5.3).

    >>> uniform([[0, 1], [0, 0]]).tolist()
    [[0.5, 0.5], [0.0, 1.0]]
    """
    return shares(adjacency, np.ones(len(adjacency)))


def speed_aware(adjacency, speed, ratio):
    """Weights by speed (thesis 5.4), a ratio a receiver; a neighbourhood at rest is averaged plainly.

    >>> speed_aware([[0, 1], [1, 0]], [1, 3], [1.0, 0.0]).tolist()
    [[0.25, 0.75], [0.5, 0.5]]
    """
    even = uniform(adjacency)
    return even + np.reshape(ratio, (-1, 1)) * (shares(adjacency, speed) - even)


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
    return np.eye(len(degree)) - (np.diag(degree) - np.asarray(adjacency, float)) / (degree.max() + 1)


def lazy(adjacency):
    """(I + W) / 2 of the Metropolis-Hastings weights."""
    return (np.eye(len(adjacency)) + metropolis_hastings(adjacency)) / 2
