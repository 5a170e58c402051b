"""The plane in plain NumPy, float64: where a path is at a time, how near two paths come, where a wall sends one."""

import itertools

import numpy as np


def place_at(times, points, t):
    """Places of one path at some times, [T, 2]; at a jump the later place.

    >>> place_at([0, 0.5, 1], [[0, 0], [4, 0], [4, 2]], [0.25, 0.75]).tolist()
    [[2.0, 0.0], [4.0, 1.0]]
    """
    times, points = np.asarray(times, float), np.asarray(points, float)
    places = []
    for instant in np.atleast_1d(t):
        k = max(0, min(np.searchsorted(times, instant, side="right") - 1, len(times) - 2))
        lasts = times[k + 1] - times[k]
        share = 0.0 if lasts == 0 else (instant - times[k]) / lasts
        places.append(points[k] + min(max(share, 0.0), 1.0) * (points[k + 1] - points[k]))
    return np.array(places)


def sampled_distance(times, points, samples):
    """Smallest distance of every two paths at ``samples`` equidistant times: [N, N], never below the true one."""
    t = np.linspace(0, 1, samples)
    places = np.array([place_at(a, b, t) for a, b in zip(times, points)])
    return np.sqrt(((places[:, None] - places[None]) ** 2).sum(-1)).min(-1)


def exact_distance(times, points):
    """Smallest distance of every two paths on their common pieces, between merged breakpoints: [N, N]."""
    n = len(times)
    least = np.full((n, n), np.inf)
    for i in range(n):
        for j in range(n):
            cuts = np.unique(np.concatenate([times[i], times[j]]).astype(float))
            for a, b in itertools.pairwise(cuts):
                inner = [a + (b - a) / 4, a + 3 * (b - a) / 4]  # away from jumps at the ends
                first, last = (place_at(times[i], points[i], inner) - place_at(times[j], points[j], inner)) * 1.0
                slope = (last - first) / (inner[1] - inner[0])
                begin = first - slope * (inner[0] - a)
                square = slope @ slope
                at = 0.0 if square == 0 else min(max(-(begin @ slope) / square, 0.0), b - a)
                least[i, j] = min(least[i, j], np.linalg.norm(begin + slope * at))
    return least


def bounced(position, velocity, size, t):
    """Place at a time of a client that bounces in [0, w] x [0, h], by unfolding.

    >>> bounced([1.0, 2.0], [12.0, 0.0], [5.0, 5.0], 1.0).tolist()
    [3.0, 2.0]
    """
    size = np.asarray(size, float)
    phase = np.mod(np.asarray(position, float) + np.asarray(velocity, float) * t, 2 * size)
    return size - np.abs(phase - size)
