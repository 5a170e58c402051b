"""Local work as loops over rounds, clients and their batches in float64, as FedProx and K-GT write it."""

import numpy as np

from oracles.rivals import averaged


def drifted(y, batches, gradient, lr, mu=0.0, correction=0.0):
    """y <- y - eta (g_B(y) + mu (y - x) + c) over batches B, from y = x (FedProx, the steps that solve its h; K-GT)."""
    x = y
    for rows in batches:
        y = y - lr * (gradient(y, rows) + mu * (y - x) + correction)
    return y


def dpsgd(start, batches, gradient, mixes, lr, mu=0.0):
    """x <- W (local work).

    Args:
      start: [N, n].
      batches: [R][N] lists of batches, each the rows of a step.
      gradient: (i, w, rows) -> gradient.
      mixes: [R] matrices.
      lr, mu: the step size, and the strength of the proximal term.
    """
    x = [np.array(start, float)]
    for of_round, mix in zip(batches, mixes):
        of = lambda i: lambda w, rows: gradient(i, w, rows)  # noqa: E731
        y = [drifted(x[-1][i], of_round[i], of(i), lr, mu) for i in range(len(start))]
        x.append(averaged(mix, np.stack(y)))
    return np.stack(x)


def kgt(start, batches, gradient, mixes, lr, exchange_lr):
    """z = (x - y) / (K eta); c <- c - z + W z; x <- W (x - eta_s K eta z). Returns the models and the last c.

    Args:
      start, batches, gradient, mixes: as for `dpsgd`.
      lr: eta, one for all rounds or one for each.
      exchange_lr: eta_s.
    """
    x, c = [np.array(start, float)], np.zeros_like(start)
    for of_round, mix, eta in zip(batches, mixes, np.broadcast_to(lr, len(mixes))):
        z, lengths = np.zeros_like(c), [eta * len(of_client) for of_client in of_round]
        for i in range(len(start)):
            of = lambda w, rows, i=i: gradient(i, w, rows)  # noqa: E731
            y = drifted(x[-1][i], of_round[i], of, eta, correction=c[i])
            z[i] = (x[-1][i] - y) / lengths[i] if lengths[i] else 0
        x.append(averaged(mix, x[-1] - exchange_lr * np.array(lengths)[:, None] * z))
        c = c - z + averaged(mix, z)
    return np.stack(x), c
