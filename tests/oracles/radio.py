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


BUILDINGS = {  # Al-Hourani, Kandeepan and Lardner (2014): a, b, and the excess losses at 2 GHz with and without sight
    "suburban": (4.88, 0.43, 0.1, 21),
    "urban": (9.61, 0.16, 1.0, 20),
    "dense_urban": (12.08, 0.11, 1.6, 23),
    "high_rise": (27.23, 0.08, 2.3, 34),
}


def in_sight(environment, elevation):
    """The probability of a line of sight at an elevation in degrees."""
    a, b = BUILDINGS[environment][:2]
    return 1 / (1 + a * math.exp(-b * (elevation - a)))


def air_to_ground(environment, distance, above, gigahertz=2.0):
    """The mean path loss between the air and the ground: dB at metres on the ground and above it."""
    slant = math.hypot(distance, above)
    seen = in_sight(environment, math.degrees(math.atan2(above, distance)))
    with_sight, without = BUILDINGS[environment][2:]
    return 20 * math.log10(4 * math.pi * slant * gigahertz * 1e9 / 299792458) + seen * with_sight + (1 - seen) * without


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
