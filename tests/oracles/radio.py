"""Radios in plain NumPy, float64: path losses of the standards, signals pair by pair, turns, bursts."""

import math

import numpy as np


def streets(distance, gigahertz):
    """3GPP TR 37.885, table 6.2.1-1, vehicles in streets without line of sight: dB at metres."""
    return 36.85 + 30 * math.log10(distance) + 18.9 * math.log10(gigahertz)


def highway(distance, gigahertz):
    """3GPP TR 37.885, table 6.2.1-1, vehicles on a highway with line of sight: dB at metres."""
    return 32.4 + 20 * math.log10(distance) + 20 * math.log10(gigahertz)


def free_space(kilometres, megahertz):
    """ITU-R P.525: dB."""
    return 32.4 + 20 * math.log10(megahertz) + 20 * math.log10(kilometres)


def sinr(place, radius, power, noise, loss, activity):
    """The SINR in dB of every link within the radius if all others there send, the smaller of both directions."""
    n = len(place)
    apart = np.linalg.norm(place[:, None] - place[None], axis=-1)
    found = np.full((n, n), -np.inf)
    milliwatts = lambda i, j: 10 ** ((power - loss(max(apart[i, j], 1))) / 10)  # noqa: E731
    for i in range(n):
        for j in range(n):
            if i != j and apart[i, j] <= radius:
                others = [milliwatts(i, k) for k in range(n) if k not in (i, j) and apart[i, k] <= radius]
                found[i, j] = 10 * math.log10(milliwatts(i, j) / (10 ** (noise / 10) + activity * sum(others)))
    return np.minimum(found, found.T)


def turns(heard):
    """The share of the time of each client: a turn in as many as contend at the worst place that can hear it."""
    n = len(heard)
    groups = [{i, *np.flatnonzero(heard[i])} for i in range(n)]
    return np.array([1 / max(len(groups[k]) for k in groups[j]) for j in range(n)])


def sending(bits, heard, rate):
    """The seconds in which each client sends its bits, in equal parts to all that hear it: heard and rate [i, j]."""
    n, found = len(bits), np.zeros(len(bits))
    for j in range(n):
        receivers = [i for i in range(n) if heard[i, j]]
        found[j] = sum(bits[j] / len(receivers) / rate[i, j] for i in receivers)
    return found
