"""Attacks as loops, from their papers. ``honest``: models [d] of honest clients that a client hears, and its own."""

import numpy as np
from scipy.stats import norm


def a_little_is_enough(own, honest, num_attackers, z=0.0):
    """The honest mean minus z deviations, with the largest z that keeps a majority on the attackers' side."""
    n, m = len(honest) + num_attackers, num_attackers
    supporters = n // 2 + 1 - m
    bound = norm.ppf((n - m - supporters) / (n - m))
    z = z or min(max(bound, 0.0), 5.0)
    deviation = np.std(honest, axis=0, ddof=1) if len(honest) > 1 else 0.0
    return np.mean(honest, axis=0) - z * deviation


def inner_product(honest, epsilon):
    return -epsilon * np.mean(honest, axis=0)


def dissensus(own, honest_others, weights, weight_of_attackers, epsilon):
    pull = sum(w * (x - own) for w, x in zip(weights, honest_others))
    return own - epsilon * pull / weight_of_attackers


def backdoor(images, size):
    stamped = np.array(images)
    for image in stamped:
        for i in range(image.shape[0]):
            for j in range(image.shape[1]):
                if i >= image.shape[0] - size and j >= image.shape[1] - size:
                    image[i, j] = images.max()
    return stamped


def within_reach(links, attackers, memory, from_round=0, at_server=None):
    """The honest clients that a chain of contacts of the last B rounds links to an attacker, after each round.

    ``links`` [R, N, N]: whom each client can hear. A word goes on by one client in a round, or by way of the server to
    all who meet it; ``at_server`` [R, N] says who does. The server keeps what it was told.
    """
    found = []
    for t in range(len(links)):
        reached = set()
        for start in range(max(t - memory + 1, from_round), t + 1):
            told, server_told = set(np.flatnonzero(attackers)), False
            for s in range(start, t + 1):
                meets = set() if at_server is None else set(np.flatnonzero(at_server[s]))
                server_told |= bool(told & meets)
                told |= {i for i in range(len(attackers)) if any(links[s][i, j] for j in told)}
                told |= meets if server_told else set()
            reached |= told
        found.append(np.isin(np.arange(len(attackers)), list(reached)) & ~attackers)
    return np.array(found)
