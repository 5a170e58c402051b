"""The costs of a round in plain NumPy, float64: contact durations, late messages, seconds and joules."""

import itertools

import numpy as np

from oracles.plane_world import place_at


def sampled_contact(times, points, radius, samples):
    """Share of equidistant times at which every two paths are within the radius: [N, N]."""
    t = (np.arange(samples) + 0.5) / samples
    places = np.array([place_at(a, b, t) for a, b in zip(times, points)])
    return (np.linalg.norm(places[:, None] - places[None], axis=-1) <= radius).mean(-1)


def exact_contact(times, points, radius):
    """Time within the radius, between merged breakpoints, from the roots of |p + v t|^2 = R^2: [N, N]."""
    n = len(times)
    found = np.zeros((n, n))
    for i, j in itertools.combinations(range(n), 2):
        for a, b in itertools.pairwise(np.unique(np.concatenate([times[i], times[j]]).astype(float))):
            inner = [a + (b - a) / 4, a + 3 * (b - a) / 4]  # away from jumps at the ends
            first, last = place_at(times[i], points[i], inner) - place_at(times[j], points[j], inner)
            v = (last - first) / (inner[1] - inner[0])
            p = first - v * (inner[0] - a)
            roots = np.roots([v @ v, 2 * p @ v, p @ p - radius**2])
            cuts = [0.0, *sorted(r.real for r in roots if r.imag == 0 and 0 < r.real < b - a), b - a]
            for c, d in itertools.pairwise(cuts):
                if np.linalg.norm(p + v * (c + d) / 2) <= radius:
                    found[i, j] += d - c
    return found + found.T


def resumed(contact, seconds, need, forgets=True):
    """The rounds in which two clients' messages arrive, from the contact's state and seconds in each round: [R] bool.

    What was sent in an earlier contact counts, too, unless it is forgotten.

    >>> resumed([1, 1, 1, 0, 1, 1], [1, 1, 1, 1, 1, 1], 2).astype(int).tolist()
    [0, 1, 0, 0, 0, 1]
    """
    carries, lasted = [], 0.0
    for is_contact, second in zip(contact, seconds):
        if not is_contact:
            lasted, carried = 0.0 if forgets else lasted, False
        else:
            lasted += second
            carried = lasted >= need
            if carried:
                lasted = 0.0
        carries.append(carried)
    return np.array(carries)


def computing(numbers, samples, speeds):
    """Seconds that each client computes in a round."""
    return np.array([numbers["seconds_per_sample"] * s / v for s, v in zip(samples, speeds)])


def round_seconds(numbers, samples, speeds, messages, bits):
    """Seconds of one round: the slowest computes (no longer than the deadline), then the slowest sends."""
    compute = min(max(computing(numbers, samples, speeds)), numbers["deadline"])
    send = max(m * numbers["latency"] + b / numbers["bandwidth"] for m, b in zip(messages, bits))
    return max(numbers["round_seconds"], compute + send)


def round_joules(numbers, samples, messages, bits, adjacency):
    """Joules of each client in one round, movement left out; a sender's bits go to all that hear it, in equal parts."""
    n, joules = len(samples), []
    for i in range(n):
        received = sum(bits[j] / adjacency[:, j].sum() for j in range(n) if adjacency[i, j])
        joules.append(
            numbers["joules_per_sample"] * samples[i]
            + numbers["joules_per_bit"] * bits[i]
            + numbers["joules_per_bit_received"] * received
        )
    return np.array(joules)
