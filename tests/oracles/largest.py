"""Messages of the coordinates that changed most, in plain NumPy and float64: one link after another."""

import math

import numpy as np


def message_bits(size, count, width=32):
    """The bits of ``count`` values and of their indices, as a list or a bitmap, whichever is shorter."""
    if count in (0, size):
        return count * width
    return count * width + min(count * max(math.ceil(math.log2(size)), 1), size)


def fitting(size, budget, width=32):
    """How many coordinates a message of at most ``budget`` bits holds, counted one by one."""
    return max(count for count in range(size + 1) if message_bits(size, count, width) <= budget)


def mixed(mix, budget, adjacency, y, last):
    """The models after an exchange, what each client has last sent, and the bits of each link."""
    clients, size = y.shape
    after, sent, bits = y.copy(), last.copy(), np.zeros((clients, clients))
    for j in range(clients):
        order = sorted(range(size), key=lambda d: (-abs(y[j, d] - last[j, d]), d))
        for i in range(clients):
            if adjacency[i, j]:
                chosen = order[: fitting(size, budget[i, j])]
                after[i, chosen] += mix[i, j] * (y[j, chosen] - y[i, chosen])
                sent[j, chosen] = y[j, chosen]
                bits[i, j] = message_bits(size, len(chosen))
    return after, sent, bits
