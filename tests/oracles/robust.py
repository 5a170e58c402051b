"""Rules of aggregation as loops, from their papers. ``own`` [d] is a client's model, ``heard`` a list of others [d]."""

import numpy as np


def median(own, heard):
    return np.array([np.median([x[c] for x in (own, *heard)]) for c in range(len(own))])


def trimmed_mean(own, heard, f):
    """BRIDGE-T: without the f largest and f smallest of the others; the own value always counts."""
    if len(heard) < 2 * f + 1:
        return own
    found = []
    for c in range(len(own)):
        kept = sorted(x[c] for x in heard)[f : len(heard) - f]
        found.append((own[c] + sum(kept)) / (len(kept) + 1))
    return np.array(found)


def trimmed_share(own, heard, trim):
    return trimmed_mean(own, heard, int(np.floor(trim * len(heard) + 1e-6)))


def weiszfeld(models, steps, nu):
    z = np.zeros_like(models[0])
    for _ in range(steps):
        closeness = [1 / max(np.linalg.norm(z - x), nu) for x in models]
        z = sum(b * x for b, x in zip(closeness, models)) / sum(closeness)
    return z


def krum_scores(models, f):
    """The sum of the squared distances of each to its n - f - 2 nearest others."""
    found = []
    for j, x in enumerate(models):
        others = sorted(np.sum((x - y) ** 2) for k, y in enumerate(models) if k != j)
        found.append(sum(others[: len(models) - f - 2]))
    return found


def multi_krum(own, heard, f, count=None):
    models = [own, *heard]
    if len(models) < 2 * f + 3:
        return own
    order = np.argsort(krum_scores(models, f), kind="stable")
    return np.mean([models[k] for k in order[: len(models) - f if count is None else count]], axis=0)


def krum(own, heard, f):
    return multi_krum(own, heard, f, count=1)


def clip(z, tau):
    length = np.linalg.norm(z)
    return z if length <= tau else z * tau / length


def clipped_gossip(own, heard, weights, tau):
    return own + sum((w * clip(x - own, tau) for w, x in zip(weights, heard)), np.zeros_like(own))


def adaptive_radius(own, heard, weights, f):
    """The radius of the theory, with the f farthest models in the place of the attackers'."""
    order = np.argsort([np.linalg.norm(x - own) for x in heard], kind="stable")
    near, far = order[: max(len(heard) - f, 0)], order[max(len(heard) - f, 0) :]
    if not len(far):
        return np.inf
    spread = sum(weights[k] * np.sum((heard[k] - own) ** 2) for k in near)
    return np.sqrt(spread / sum(weights[k] for k in far))


def code_radius(own, heard, f):
    """The radius in the code of He, Karimireddy and Jaggi: the (f + 1)-th largest distance, or else the largest."""
    distances = sorted(np.linalg.norm(x - own) for x in heard)
    if not distances:
        return 0.0
    return distances[-1 - f] if len(distances) > f else distances[-1]


def norm_clipping(own, heard, weights, bound):
    limit = bound * np.linalg.norm(own)
    return (1 - sum(weights)) * own + sum((w * clip(x, limit) for w, x in zip(weights, heard)), np.zeros_like(own))


def benign(own, heard, own_loss, losses, rho):
    """The models that UBAR uses, by index."""
    order = np.argsort([np.linalg.norm(x - own) for x in heard], kind="stable")
    close = order[: max(int(np.floor(rho * len(heard) + 1e-6)), 1)]
    return [k for k in close if losses[k] <= own_loss] or [min(close, key=lambda k: losses[k])]


def ubar(own, heard, own_loss, losses, rho, alpha):
    if not heard:
        return own
    used = [heard[k] for k in benign(own, heard, own_loss, losses, rho)]
    return alpha * own + (1 - alpha) * np.mean(used, axis=0)


def balance(own, heard, gamma, kappa, progress, alpha):
    bound = gamma * np.exp(-kappa * progress) * np.linalg.norm(own)
    accepted = [x for x in heard if np.linalg.norm(x - own) <= bound]
    return alpha * own + (1 - alpha) * np.mean(accepted, axis=0) if accepted else own


def nearest_mixing(models, f):
    """Each model becomes the mean of the n - f nearest to it, itself included."""
    mixed = []
    for x in models:
        order = np.argsort([np.sum((x - y) ** 2) for y in models], kind="stable")
        mixed.append(np.mean([models[k] for k in order[: len(models) - f]], axis=0))
    return mixed


def earned(trust, own_loss, losses, rate):
    """Trust in those that are heard, after one model of each."""
    return [(1 - rate) * t + rate * min(1.0, own_loss / loss) for t, loss in zip(trust, losses)]


def by_trust(own, heard, weights, trust, least):
    return own + sum((w * t * (x - own) for w, t, x in zip(weights, trust, heard) if t >= least), np.zeros_like(own))
