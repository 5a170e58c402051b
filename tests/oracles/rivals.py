"""The uncompressed rivals as loops over rounds and clients in float64, as their papers write them."""

import numpy as np


def averaged(mix, x):
    """Row i: the sum over j of mix[i][j] x[j]."""
    out = np.zeros_like(x)
    for i in range(len(x)):
        for j in range(len(x)):
            out[i] = out[i] + mix[i][j] * x[j]
    return out


def all_gradients(gradient, x):
    return np.stack([gradient(i, x[i]) for i in range(len(x))])


def nids(start, gradient, mixes, etas):
    """x^1 = x^0 - eta g^0; x^(k+1) = (I + W_k) / 2 (2 x^k - x^(k-1) - eta_k g^k + eta_(k-1) g^(k-1))."""
    x = [np.array(start, float)]
    g = [all_gradients(gradient, x[0])]
    x.append(x[0] - etas[0] * g[0])
    for k in range(1, len(mixes)):
        g.append(all_gradients(gradient, x[k]))
        inside = 2 * x[k] - x[k - 1] - (etas[k] * g[k] - etas[k - 1] * g[k - 1])
        x.append((inside + averaged(mixes[k], inside)) / 2)
    return np.stack(x)


def gradient_tracking(start, gradient, mixes, etas):
    """y^0 = g^0; x^(k+1) = W_k (x^k - eta_k y^k); y^(k+1) = W_(k+1) y^k + g^(k+1) - g^k."""
    x = [np.array(start, float)]
    g = all_gradients(gradient, x[0])
    y = g.copy()
    for k in range(len(mixes)):
        x.append(averaged(mixes[k], x[k] - etas[k] * y))
        if k + 1 < len(mixes):
            following = all_gradients(gradient, x[k + 1])
            y = averaged(mixes[k + 1], y) + following - g
            g = following
    return np.stack(x)


def lambda_2(mix):
    """The largest size of an eigenvalue of W below one; 0 if there is none."""
    return max((abs(value) for value in np.linalg.eigvalsh(mix) if abs(value) < 1 - 1e-5), default=0.0)


def fast_mix(mix, z, steps, rate=None):
    """K steps z^(k+1) = (1 + b) W z^k - b z^(k-1) from z^(-1) = z^0, with b from lambda_2."""
    root = np.sqrt(1 - (lambda_2(mix) if rate is None else rate) ** 2)
    b = (1 - root) / (1 + root)
    before = now = z
    for _ in range(steps):
        before, now = now, (1 + b) * averaged(mix, now) - b * before
    return now


def dmgt_svrg(start, gradient, mixes, etas, coins, steps):
    """x <- M(x - eta s); v' = g(x) - g(w) + grad f(w); s <- M(s + v' - v); where a coin says so, w <- x.

    Args:
      start: [N, n].
      gradient: (i, w, t) -> gradient on the minibatch of iteration t; without t over all samples.
      mixes, etas: of each iteration.
      coins: [R][N] of each iteration, whether a client takes a new anchor.
      steps: K.
    """
    x = [np.array(start, float)]
    w = x[0].copy()
    v = s = all_gradients(gradient, x[0])
    for k in range(len(mixes)):
        x.append(fast_mix(mixes[k], x[k] - etas[k] * s, steps))
        if k + 1 < len(mixes):
            at_x, at_w = (np.stack([gradient(i, y[i], k + 1) for i in range(len(y))]) for y in (x[k + 1], w))
            following = at_x - at_w + all_gradients(gradient, w)
            s = fast_mix(mixes[k + 1], s + following - v, steps)
            v = following
            w = np.where(coins[k + 1][:, None], x[k + 1], w)
    return np.stack(x)


def dfedsam(start, gradient, mixes, lr, rho, steps, weight_decay=0.0):
    """E steps y <- y - eta (grad f(y + rho g / |g|) + wd y), then W y."""
    history = [np.array(start, float)]
    for mix in mixes:
        y = history[-1].copy()
        for i in range(len(y)):
            for _ in range(steps):
                g = gradient(i, y[i])
                norm = np.sqrt((g**2).sum())
                near = y[i] + (rho * g / norm if norm > 0 else 0 * g)
                y[i] = y[i] - lr * (gradient(i, near) + weight_decay * y[i])
        history.append(averaged(mix, y))
    return np.stack(history)


def dfedavgm(start, gradient, mixes, etas, momentum, steps, weight_decay=0.0):
    """E steps y^(k+1) = y^k - eta (g + wd y) + theta (y^k - y^(k-1)) from rest, then W y; etas by local step."""
    history = [np.array(start, float)]
    for t, mix in enumerate(mixes):
        y = history[-1].copy()
        for i in range(len(y)):
            path = [y[i], y[i]]
            for k in range(steps):
                now, before = path[-1], path[-2]
                step = gradient(i, now) + weight_decay * now
                path.append(now - etas[t * steps + k] * step + momentum * (now - before))
            y[i] = path[-1]
        history.append(averaged(mix, y))
    return np.stack(history)


def epidemic(start, gradient, receivers, lr, steps):
    """E plain steps, then each averages its own model and those it received, evenly.

    Args:
      start: [N, n].
      gradient: (i, w) -> gradient.
      receivers: [R][N] the receivers of each sender.
      lr: learning rate.
      steps: E.
    """
    history = [np.array(start, float)]
    for sends in receivers:
        y = history[-1].copy()
        for i in range(len(y)):
            for _ in range(steps):
                y[i] = y[i] - lr * gradient(i, y[i])
        heard = [[y[i]] for i in range(len(y))]
        for j, to in enumerate(sends):
            for i in to:
                heard[i].append(y[j])
        history.append(np.stack([np.mean(models, axis=0) for models in heard]))
    return np.stack(history)
