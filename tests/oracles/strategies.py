"""What a client knows under the strategies, and what it should choose, with loops over clients and places."""

import numpy as np


def ages(paths, static, radius, now):
    """[N mobile, Ns] rounds since each mobile client was last in range of each static one; now + 1 if it never was.

    paths: [T, N mobile, 2] places after each round, the first ones before the first round; now: the index of a round.
    """
    near = np.sum((paths[: now + 1, :, None] - static) ** 2, axis=-1) <= radius**2 + 1e-6  # [T, N mobile, Ns]
    last = np.where(near, np.arange(now + 1)[:, None, None], -1).max(axis=0)
    return (now - last).astype(float)


def in_range(place, static, radius):
    """[Ns] bool, which static clients are in range of a place."""
    return np.sum((static - place) ** 2, axis=1) <= radius**2 + 1e-6


def waiting(place, grid, static, radius, age, max_step, discount, impatience):
    """[L] the worth of every grid point for a client at a place."""
    worth = []
    for point in grid:
        rounds = np.ceil(np.sqrt(np.sum((point - place) ** 2)) / max_step - 1e-6)
        worth.append(np.sum(age[in_range(point, static, radius)] ** impatience) * discount**rounds)
    return np.array(worth)


def coverage(paths, grid, radius, now, i, max_step, discount, impatience):
    """[L] the worth of every grid point for mobile client i under coverage, after the round ``now``."""
    age = ages(paths, grid, radius, now)[i]
    point_ages = np.where(age > now, 255.0, np.minimum(age, 255.0))
    return waiting(paths[now, i], grid, grid, radius, point_ages, max_step, discount, impatience)


def exploring(paths, grid, static, radius, now, i, max_step, discount, impatience):
    """[L] the worth of every grid point for mobile client i under exploring, after the round ``now``."""
    place, age = paths[now, i], ages(paths, static, radius, now)[i]
    known = age <= now
    seen = np.any([in_range(paths[t, i], grid, radius) for t in range(now + 1)], axis=0)
    worth = []
    for point in grid:
        rounds = np.ceil(np.sqrt(np.sum((point - place) ** 2)) / max_step - 1e-6)
        gain = np.sum(age[known & in_range(point, static, radius)] ** impatience)
        if not seen.all():
            unseen = np.sum(~seen & in_range(point, grid, radius))
            gain += np.sum(~known) / np.sum(~seen) * unseen * (now + 1.0) ** impatience
        worth.append(gain * discount**rounds)
    return np.array(worth)


def label_distance(point, place, static, counts, own, radius):
    """The distance of the label histograms at a point and at the client's place (MADFL eqs. 9 and 10)."""
    histograms = []
    for where in (point, place):
        total = own + counts[in_range(where, static, radius)].sum(axis=0)
        histograms.append(total / max(total.sum(), 1))
    return np.sqrt(np.sum((histograms[0] - histograms[1]) ** 2))


def tour_length(distance, order):
    """The length of a closed tour."""
    return sum(distance[a, b] for a, b in zip(order, np.roll(order, -1)))


def staleness(centre, static, differs, age, ageing, radius):
    """The worth of a cluster centre: the mean over the static clients in range; a NaN difference was never measured."""
    largest = max([1e-6, *(value for value in differs if not np.isnan(value))])
    worth = []
    for k, near in enumerate(in_range(centre, static, radius)):
        if near:
            worth.append((largest if np.isnan(differs[k]) else differs[k]) * age[k] ** ageing)
    return np.mean(worth)


def learnt(weights, place, grid, static, counts, own, radius, age, latest, rivals, max_step):
    """[L] the scores of all grid points by the policy of ``learnt``, in double precision.

    age, latest: [Ns] rounds since this client, and since any, was last in range; rivals: [L] others heading there.
    """
    linear, into, offset, out = weights[:8], weights[8:40].reshape(8, 4), weights[40:44], weights[44:]
    scores = []
    for k, point in enumerate(grid):
        near = in_range(point, static, radius)
        seen = [
            np.log(1 + age[near].sum()) / 4,
            np.log(1 + (age[near] ** 2).sum()) / 4,
            np.log(1 + near.sum()),
            np.ceil(np.sqrt(np.sum((point - place) ** 2)) / max_step - 1e-6) / 4,
            label_distance(point, place, static, counts, own, radius),
            min(rivals[k], 3),
            np.log(1 + counts[near].sum()) / 4,
            np.log(1 + latest[near].sum()) / 4,
        ]
        scores.append(np.dot(seen, linear) + np.tanh(seen @ into + offset) @ out)
    return np.array(scores)
