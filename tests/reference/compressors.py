"""What becomes of messages that are shortened, and the bits that they take.

Stich 2018 (random_k, top_k), Karimireddy 2019 (sign), Alistarh 2017 (qsgd), Michelusi, Scutari, Lee 2022 (anq).
"""

import math

import numpy as np

WIDTH = 32  # bits of a coordinate


def kept(share, size):
    """How many of the coordinates a message holds: ceil(share n), at least one."""
    return max(min(math.ceil(share * size * (1 - 2.0**-21)), size), 1)


def sparse_bits(size, count):
    """The bits of some coordinates and of their indices, as a list or a bitmap, whichever is shorter."""
    if count in (0, size):
        return count * WIDTH
    return count * WIDTH + min(count * max((size - 1).bit_length(), 1), size)


def compress(name, numbers, draws, key, x):
    """(what is decoded [N, n], the bits of each client's message)."""
    n, size = x.shape
    if name in ("random_k", "top_k"):  # those with the smallest words, or the largest
        count, found = kept(numbers["transmission"], size), np.zeros_like(x)
        last = draws.coordinate_words(key, size) if name == "random_k" else -np.abs(x)
        for i in range(n):
            chosen = np.argsort(last[i], kind="stable")[:count]
            found[i, chosen] = x[i, chosen]
        return found, [sparse_bits(size, count)] * n
    if name == "sign":
        scale = np.abs(x).mean(axis=1, keepdims=True)
        return np.where(x < 0, -scale, scale), [size + WIDTH] * n
    if name == "qsgd":
        levels, found, drawn = numbers["levels"], np.zeros_like(x), draws.rounding(key, x.shape)
        for i in range(n):
            norm = np.linalg.norm(x[i])
            if norm > 0:
                place = np.abs(x[i]) / norm * levels
                found[i] = norm * np.sign(x[i]) * (np.floor(place) + (drawn[i] < place - np.floor(place))) / levels
        return found, [WIDTH + size * (1 + levels.bit_length())] * n
    if name == "anq":
        found, bits = np.zeros_like(x), []
        for i in range(n):
            levels = [nearest_level(v, numbers["eta"], numbers["omega"]) for v in x[i]]
            found[i] = [level[1] for level in levels]
            bits.append(sum(2 * (2 * abs(k) + (k <= 0)).bit_length() - 1 for k, _ in levels))
        return found, bits
    if name == "gaussian_noise":
        x = x + numbers["noise"] * draws.normal(key, x.shape)
    return x, [size * WIDTH] * n


def nearest_level(x, eta, omega):
    """(k, q_k), the nearest of the points sign(k) eta / omega (((1 + omega) / (1 - omega))^|k| - 1); 2 eta k at 0."""
    if omega == 0:
        level = math.ceil((abs(x) / eta - 1) / 2)
        return int(np.sign(x)) * max(level, 0), np.sign(x) * 2 * eta * max(level, 0)
    ratio = (1 + omega) / (1 - omega)
    level = max(math.ceil(math.log(max((1 + omega * abs(x) / eta) * (1 - omega), 1e-300)) / math.log(ratio)), 0)
    return int(np.sign(x)) * level, np.sign(x) * eta / omega * (ratio**level - 1)
