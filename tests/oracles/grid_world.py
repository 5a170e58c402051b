"""The grid world of MADFL and DADFL in plain NumPy loops: contact, cluster centres, and one round's move in law.

Everything is float64. The coordinates are small integers, so a squared distance is exact, its root is exact where it
is an integer, and equal distances compare equal: no tie is decided by rounding.
"""

import math
from fractions import Fraction

import numpy as np


def square_grid(size):
    """Points (p, q), p and q in 1..size, in row-major order (MADFL section II; the order is the digest's).

    >>> square_grid(2).tolist()
    [[1, 1], [1, 2], [2, 1], [2, 2]]
    """
    return np.array([(p, q) for p in range(1, size + 1) for q in range(1, size + 1)])


def distance(a, b):
    """Euclidean distance of two places.

    >>> distance((1, 1), (4, 5))
    5.0
    """
    return math.sqrt((float(a[0]) - float(b[0])) ** 2 + (float(a[1]) - float(b[1])) ** 2)


def random_movement_law(location, grid, max_step):
    """Law of the next place under random movement (MADFL and DADFL eq. 3).

    >>> random_movement_law(0, square_grid(2), 1).round(3).tolist()
    [0.333, 0.333, 0.333, 0.0]
    """
    law = np.zeros(len(grid))
    for index in range(len(grid)):
        if distance(grid[index], grid[location]) <= max_step:
            law[index] = 1.0
    return law / law.sum()


def histogram(place, own_counts, static_position, static_counts, radius):
    """Label histogram of a mobile client at a place (MADFL eq. 9, DADFL eq. 4); all zeros where there is no sample.

    >>> histogram((1, 1), [1, 0], [(1, 1), (1, 3)], [[1, 2], [9, 9]], 1).tolist()
    [0.5, 0.5]
    >>> histogram((1, 2), [0, 0], [(1, 1), (1, 3)], [[1, 2], [9, 9]], 0).tolist()
    [0.0, 0.0]
    """
    num_classes = len(own_counts)
    counts = [int(own_counts[label]) for label in range(num_classes)]
    for j in range(len(static_position)):
        if distance(static_position[j], place) <= radius:
            for label in range(num_classes):
                counts[label] += int(static_counts[j][label])
    total = sum(counts)
    return np.array([count / total if total else 0.0 for count in counts])


def distribution_distances(location, own_counts, static_position, static_counts, grid, radius):
    """Distance of every grid point's histogram to the present place's (MADFL eq. 10, DADFL eq. 5).

    >>> line = [(1, 1), (1, 2), (1, 3)]
    >>> distribution_distances(0, [0, 0], line, [[4, 0], [0, 4], [2, 2]], line, 0).round(3).tolist()
    [0.0, 1.414, 0.707]
    """
    reference = histogram(grid[location], own_counts, static_position, static_counts, radius)
    distances = np.zeros(len(grid))
    for index in range(len(grid)):
        there = histogram(grid[index], own_counts, static_position, static_counts, radius)
        distances[index] = math.sqrt(sum((float(a) - float(b)) ** 2 for a, b in zip(there, reference)))
    return distances


def destination_probabilities(location, own_counts, static_position, static_counts, grid, radius, candidates):
    """Law of a new destination (MADFL eq. 9-11 over all grid points, eq. 13 over cluster centres; DADFL eq. 4-6).

    All distances zero: uniform over the candidates (settled). The reference is the present place, candidate or not.

    >>> line, here, there = [(1, 1), (1, 2), (1, 3)], 0, 1
    >>> world = ([0, 0], line, [[4, 0], [0, 4], [2, 2]], line, 0)
    >>> destination_probabilities(here, *world, [True, True, True]).round(3).tolist()
    [0.0, 0.667, 0.333]
    >>> destination_probabilities(there, *world, [True, False, True]).round(3).tolist()
    [0.667, 0.0, 0.333]
    >>> destination_probabilities(here, *world, [True, False, False]).tolist()
    [1.0, 0.0, 0.0]
    """
    distances = distribution_distances(location, own_counts, static_position, static_counts, grid, radius)
    weight = np.zeros(len(grid))
    for index in range(len(grid)):
        if candidates[index]:
            weight[index] = distances[index]
    if weight.sum() == 0.0:
        for index in range(len(grid)):
            weight[index] = float(candidates[index])
    return weight / weight.sum()


def next_place(location, destination, grid, max_step):
    """Where one round's move towards a destination ends (MADFL eq. 12, DADFL eq. 7).

    The destination if it is within reach, else the point within reach that is nearest to it; of equally near points the
    first in the grid's order (settled).

    >>> grid = square_grid(3)
    >>> next_place(0, 8, grid, 3), next_place(0, 8, grid, 2), next_place(0, 8, grid, 1), next_place(0, 8, grid, 0)
    (8, 4, 1, 0)
    """
    if distance(grid[destination], grid[location]) <= max_step:
        return int(destination)
    best, best_distance = None, math.inf
    for index in range(len(grid)):
        if distance(grid[index], grid[location]) <= max_step:
            left = distance(grid[index], grid[destination])
            if left < best_distance:
                best, best_distance = index, left
    return best


def distribution_aware_law(location, own_counts, static_position, static_counts, grid, radius, max_step, candidates):
    """Law of the next place after a round in which a new destination is drawn (MADFL algorithm 4 with flag 0).

    >>> line = [(1, 1), (1, 2), (1, 3)]
    >>> world = ([0, 0], line, [[4, 0], [0, 4], [2, 2]], line, 0)
    >>> distribution_aware_law(0, *world, 1, [True] * 3).round(3).tolist()
    [0.0, 1.0, 0.0]
    >>> distribution_aware_law(0, *world, math.inf, [True] * 3).round(3).tolist()
    [0.0, 0.667, 0.333]
    """
    drawn = destination_probabilities(location, own_counts, static_position, static_counts, grid, radius, candidates)
    law = np.zeros(len(grid))
    for destination in range(len(grid)):
        law[next_place(location, destination, grid, max_step)] += drawn[destination]
    return law


def covered_by(place, static_position, radius):
    """Set of the static clients within a radius of a place."""
    return frozenset(j for j in range(len(static_position)) if distance(place, static_position[j]) <= radius)


def centre_choices(remaining, cover, first):
    """Grid points that may become the next cluster centre, all equally likely (DADFL algorithm 1, lines 6 to 9).

    Args:
      remaining: set of the uncovered static clients.
      cover: for each grid point the set of the static clients it covers.
      first: whether this is the first centre, to which the second tie rule does not apply.
    """
    most = max(len(covered & remaining) for covered in cover)
    tied = [index for index, covered in enumerate(cover) if len(covered & remaining) == most]
    if len(tied) > 1 and not first:
        most = max(len(cover[index]) for index in tied)
        tied = [index for index in tied if len(cover[index]) == most]
    return tied


def cluster_centres_law(grid, static_position, radius):
    """Exact law of the cluster centres (DADFL algorithm 1): from the sorted indices of the centres to a probability.

    On a line of five places with clients on the places 0, 1 and 3: the places 0, 1, 2 cover two clients each. After 0
    or 1 only client 3 is left, coverable from 2, 3 and 4, of which 2 covers most clients in all. After 2 only client 0
    is left, coverable from 0 and 1, which cover two clients each.

    >>> line = [(1, q) for q in range(1, 6)]
    >>> {k: str(p) for k, p in sorted(cluster_centres_law(line, [(1, 1), (1, 2), (1, 4)], 1).items())}
    {(0, 2): '1/2', (1, 2): '1/2'}
    """
    cover = [covered_by(place, static_position, radius) for place in grid]
    law = {}

    def descend(remaining, chosen, probability):
        if not remaining:
            outcome = tuple(sorted(chosen))
            law[outcome] = law.get(outcome, Fraction(0)) + probability
            return
        choices = centre_choices(remaining, cover, first=not chosen)
        for centre in choices:
            descend(remaining - cover[centre], (*chosen, centre), probability / len(choices))

    descend(frozenset(range(len(static_position))), (), Fraction(1))
    return law


def is_possible_outcome(centres, grid, static_position, radius):
    """Whether DADFL algorithm 1 can return these centres in some order of choosing them.

    >>> line, clients = [(1, q) for q in range(1, 6)], [(1, 1), (1, 2), (1, 4)]
    >>> [is_possible_outcome(c, line, clients, 1) for c in [{0, 2}, {0, 3}, {0, 1, 2}, {0}]]
    [True, False, False, False]
    """
    cover = [covered_by(place, static_position, radius) for place in grid]

    def descend(remaining, left, first):
        if not remaining:
            return not left
        choices = [c for c in centre_choices(remaining, cover, first) if c in left]
        return any(descend(remaining - cover[c], left - {c}, False) for c in choices)

    return descend(frozenset(range(len(static_position))), frozenset(int(c) for c in centres), True)
