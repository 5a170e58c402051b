"""Radios in plain NumPy, float64: path losses of the standards, signals pair by pair, turns, bursts."""

import math


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
