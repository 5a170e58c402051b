"""Movement by what a client has met, in plain Python sets and loops: who knows whom, and the law of the next place."""

import math

import numpy as np

from oracles import grid_world


def tell(known, places, radius):
    """Knowledge after mobile clients within a radius of each other have told what they knew, all at once.

    >>> [sorted(known) for known in tell([{7}, {8}, {9}], [(1, 1), (1, 3), (1, 5)], 2)]
    [[7, 8], [7, 8, 9], [8, 9]]
    """
    near = [[grid_world.distance(a, b) <= radius for b in places] for a in places]
    return [set().union(*(known[j] for j in range(len(known)) if near[i][j])) for i in range(len(known))]


def knowledge(paths, static_position, radius, telling=False):
    """The static clients that each mobile client knows after each move, [T + 1] lists of M sets.

    Args:
      paths: [T + 1, M, 2] places of the mobile clients, the first one included.
      static_position: [Ns, 2] places of the static clients.
      radius: communication radius Rc.
      telling: whether mobile clients in range tell each other.

    >>> knowledge([[(1, 1)], [(1, 3)], [(1, 1)]], [(1, 1), (1, 4), (1, 9)], 1)
    [[{0}], [{0, 1}], [{0, 1}]]
    """
    known, history = [set() for _ in paths[0]], []
    for places in paths:
        known = [k | grid_world.covered_by(place, static_position, radius) for k, place in zip(known, places)]
        if telling:
            known = tell(known, places, radius)
        history.append([set(k) for k in known])
    return history


def met_enough(num_known, num_static, share):
    """Whether the warm-up is over: the share of the static clients is known, and one of them at least.

    >>> [met_enough(known, 15, 0.2) for known in (2, 3)], met_enough(0, 15, 0.0), met_enough(0, 0, 1.0)
    ([False, True], False, True)
    """
    return num_known >= max(math.ceil(round(share * num_static, 3)), min(num_static, 1))


def law(location, own_counts, static_position, static_counts, known, grid, radius, max_step, share, candidates):
    """Law of the next place of a client that is heading nowhere.

    Args:
      location: index of its place in the grid.
      own_counts: [C] its label counts.
      static_position: [Ns, 2] places of all static clients.
      static_counts: [Ns, C] their label counts.
      known: set of those that it knows.
      grid: [L, 2] places.
      radius: communication radius Rc.
      max_step: Rm.
      share: of the static clients that are met at random first.
      candidates: [L] bool, the places that may be its destination once it has met enough.

    >>> line = [(1, 1), (1, 2), (1, 3)]
    >>> [law(0, [1, 0], line, [[4, 0], [0, 4], [0, 4]], known, line, 0, 2, 0.5, [True] * 3).round(3).tolist()
    ...  for known in ({0}, {0, 1})]
    [[0.333, 0.333, 0.333], [0.0, 1.0, 0.0]]
    """
    if not met_enough(len(known), len(static_position), share):
        return grid_world.random_movement_law(location, grid, max_step)
    known = sorted(known)
    position = np.asarray(static_position)[known].reshape(-1, 2)
    counts = np.asarray(static_counts)[known].reshape(len(known), -1)
    return grid_world.distribution_aware_law(location, own_counts, position, counts, grid, radius, max_step, candidates)
