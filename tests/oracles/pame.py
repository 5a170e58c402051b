"""PaME algorithms 1 and 2 as loops over nodes and coordinates, in float64."""

import numpy as np


def partial_message_exchange(own, received, indices):
    """Algorithm 2: a coordinate's mean over the messages that hold it, the node's own value where none does.

    Args:
      own: [n] w_i.
      received: the models w_j of the senders; only the coordinates that they sent are looked at.
      indices: for each sender, the coordinates T_j.
    """
    average = np.array(own, np.float64)
    for coordinate in range(len(average)):
        values = [float(w[coordinate]) for w, t in zip(received, indices) if coordinate in list(t)]
        if values:
            average[coordinate] = sum(values) / len(values)
    return average


def pame(start, gradient, neighbours, coordinates, periods, lr, growth):
    """Algorithm 1 with given draws.

    Args:
      start: [N, n] the models.
      gradient: (i, w [n]) -> the gradient of node i at w.
      neighbours: for each iteration and node, the neighbours picked (looked at where the node communicates).
      coordinates: for each iteration and node, T_j.
      periods: kappa_i.
      lr: 1 / sigma^0.
      growth: gamma.

    Returns:
      [iterations + 1, N, n].
    """
    models = np.array(start, np.float64)
    num_nodes = len(models)
    heard = [1] * num_nodes
    sigma = 1 / lr
    history = [models.copy()]
    for k in range(len(neighbours)):
        following = models.copy()
        for i in range(num_nodes):
            v = models[i]
            if k % periods[i] == 0:
                picked = list(neighbours[k][i])
                heard[i] = max(len(picked), 1)
                v = partial_message_exchange(models[i], models[picked], [coordinates[k][j] for j in picked])
            following[i] = v - gradient(i, v) / (sigma * heard[i])
        models = following
        sigma *= growth
        history.append(models.copy())
    return np.stack(history)
