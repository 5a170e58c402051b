"""EXTRA, D2, the momentum methods, SGP and all-reduce as loops over rounds and clients in float64, as published."""

import numpy as np

from oracles.rivals import all_gradients, averaged


def extra(start, gradient, mix, etas):
    """x^1 = W x^0 - eta_0 g^0; x^(k+2) = (I + W) x^(k+1) - W~ x^k - (eta_(k+1) g^(k+1) - eta_k g^k)."""
    x = [np.array(start, float)]
    g = [all_gradients(gradient, x[0])]
    x.append(averaged(mix, x[0]) - etas[0] * g[0])
    identity = np.eye(len(mix))
    for k in range(len(etas) - 1):
        g.append(all_gradients(gradient, x[k + 1]))
        pulled = averaged(identity + mix, x[k + 1]) - averaged((identity + mix) / 2, x[k])
        x.append(pulled - (etas[k + 1] * g[k + 1] - etas[k] * g[k]))
    return np.stack(x)


def d2(start, gradient, mix, etas):
    """x^1 = W (x^0 - eta_0 g^0); x^(k+1) = W (2 x^k - x^(k-1) - eta_k g^k + eta_(k-1) g^(k-1))."""
    x = [np.array(start, float)]
    g = [all_gradients(gradient, x[0])]
    x.append(averaged(mix, x[0] - etas[0] * g[0]))
    for k in range(1, len(etas)):
        g.append(all_gradients(gradient, x[k]))
        x.append(averaged(mix, 2 * x[k] - x[k - 1] - etas[k] * g[k] + etas[k - 1] * g[k - 1]))
    return np.stack(x)


def dsgdm_n(start, gradient, mixes, etas, beta, steps, weight_decay=0.0):
    """E steps m <- beta m + g, y <- y - eta (beta m + g), then W y; etas by local step, momenta kept by the clients."""
    history = [np.array(start, float)]
    momentum = np.zeros_like(history[0])
    for t, mix in enumerate(mixes):
        y = history[-1].copy()
        for i in range(len(y)):
            for k in range(steps):
                g = gradient(i, y[i]) + weight_decay * y[i]
                momentum[i] = beta * momentum[i] + g
                y[i] = y[i] - etas[t * steps + k] * (beta * momentum[i] + g)
        history.append(averaged(mix, y))
    return np.stack(history)


def qg_dsgdm(start, gradient, mixes, etas, beta, mu, nesterov):
    """m = beta m_hat + g; x+ = W (x - eta m), or beta m + g for m; m_hat <- mu m_hat + (1 - mu) (x - x+) / eta."""
    history = [np.array(start, float)]
    m_hat = np.zeros_like(history[0])
    for mix, eta in zip(mixes, etas):
        x = history[-1]
        half = np.zeros_like(x)
        for i in range(len(x)):
            g = gradient(i, x[i])
            m = beta * m_hat[i] + g
            half[i] = x[i] - eta * (beta * m + g if nesterov else m)
        after = averaged(mix, half)
        for i in range(len(x)):
            m_hat[i] = mu * m_hat[i] + (1 - mu) * (x[i] - after[i]) / eta
        history.append(after)
    return np.stack(history)


def sgp(start, gradient, adjacencies, lr, steps, weight_decay=0.0):
    """Push-sum, message by message: client j gives x_j / (1 + receivers) and as much of w_j to each receiver.

    Args:
      start: [N, n].
      gradient: (i, w) -> gradient.
      adjacencies: [R, N, N], [i, j] where i hears j.
      lr: learning rate.
      steps: E, local steps on x with gradients at x / w.
      weight_decay: factor of z, added to the gradient.

    Returns:
      (z [R + 1, N, n], x [R + 1, N, n], w [R + 1, N]).
    """
    x = np.array(start, float)
    num_clients = len(x)
    w = np.ones(num_clients)
    history = [(x / w[:, None], x, w)]
    for adjacency in adjacencies:
        x = x.copy()
        for i in range(num_clients):
            for _ in range(steps):
                z = x[i] / w[i]
                x[i] = x[i] - lr * (gradient(i, z) + weight_decay * z)
        pushed_x, pushed_w = np.zeros_like(x), np.zeros_like(w)
        for j in range(num_clients):
            receivers = [j] + [i for i in range(num_clients) if adjacency[i][j]]
            for i in receivers:
                pushed_x[i] = pushed_x[i] + x[j] / len(receivers)
                pushed_w[i] = pushed_w[i] + w[j] / len(receivers)
        x, w = pushed_x, pushed_w
        history.append((x / w[:, None], x, w))
    return tuple(np.stack(part) for part in zip(*history))


def ring_allreduce(values):
    """The means of vectors, made by passing chunks around a ring, and what it takes.

    Args:
      values: [N, n], one vector a client.

    Returns:
      (the mean as each client has it in the end [N, n], messages sent [N], coordinates sent [N]).
    """
    num_clients = len(values)
    held = [np.array_split(np.array(v, float), num_clients) for v in values]
    messages, coordinates = np.zeros(num_clients, int), np.zeros(num_clients, int)
    for summing in (True, False):
        for step in range(num_clients - 1):
            sent = []
            for i in range(num_clients):
                # First client i begins with its own chunk, then with the one that it has summed up last.
                which = (i - step + (0 if summing else 1)) % num_clients
                sent.append((which, held[i][which].copy()))
                messages[i] += 1
                coordinates[i] += len(held[i][which])
            for i, (which, chunk) in enumerate(sent):
                to = (i + 1) % num_clients
                held[to][which] = held[to][which] + chunk if summing else chunk
    return np.stack([np.concatenate(chunks) for chunks in held]) / num_clients, messages, coordinates
