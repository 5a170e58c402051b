"""What attackers send or learn from in place of what they should.

Sources: He, Karimireddy, Jaggi 2022 (sign flip, dissensus), Baruch 2019 (a little is enough), Xie 2020 (inner product),
Karimireddy 2022 (mimic), Tolpegin 2020 and Gu 2017 (labels and triggers).
"""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np


@dataclass
class Traits:
    """Whether attackers train, whether they take over the result of a round, and whom their lies are for."""

    trains: bool = True
    moves_on: bool = True
    to_each: bool = False
    poisons: bool = False


ATTACKS = {
    **dict.fromkeys(("sign_flip", "scaled", "constant", "zero", "gaussian", "mimic"), Traits()),
    **dict.fromkeys(("label_flip", "label_flip_pair", "backdoor"), Traits(poisons=True)),
    **dict.fromkeys(("a_little_is_enough", "inner_product"), Traits(trains=False, to_each=True)),
    "dissensus": Traits(to_each=True),
    "replay": Traits(trains=False, moves_on=False),
}


def to_all(c, vectors, attackers, active, noise):
    """[N, d], what clients send: attackers the same to everybody. ``noise()`` draws standard normal numbers [N, d]."""
    honest = np.flatnonzero(np.array(active) & ~attackers)
    lies = {
        "sign_flip": lambda: -c["attack.flip_scale"] * vectors,
        "scaled": lambda: c["attack.scale"] * vectors,
        "constant": lambda: np.full_like(vectors, c["attack.value"]),
        "zero": lambda: np.zeros_like(vectors),
        "gaussian": lambda: c["attack.deviation"] * noise(),
        "mimic": lambda: np.tile(vectors[honest[0]], (len(vectors), 1)) if len(honest) else vectors,
    }.get(c["attack.name"], lambda: vectors)()
    return np.where(attackers[:, None], lies, vectors)


def to_one(c, own, honest, others, weights, liars, own_is_honest):
    """[d], what all attackers send to one client that hears ``liars`` of them.

    Args:
      own: [d] the client's model; ``own_is_honest`` says whether it counts among the honest ones.
      honest: the models of the honest clients that it hears, and ``others`` who they are.
      weights: [N] the weights by which it mixes.
      liars: the attackers that it hears.
    """
    everybody = [*honest, own] if own_is_honest else list(honest)
    mean = np.mean(everybody, axis=0) if everybody else np.zeros_like(own)
    if c["attack.name"] == "inner_product":
        return -c["attack.strength"] * mean
    if c["attack.name"] == "dissensus":
        pull = sum((weights[j] * (x - own) for j, x in zip(others, honest)), np.zeros_like(own))
        return own - c["attack.apart"] * pull / (sum(weights[j] for j in liars) or 1.0)
    n, m = len(everybody) + len(liars), len(liars)
    z = c["attack.deviations"]
    if not z:
        supporters = n // 2 + 1 - m
        share = max(n - m - supporters, 0) / max(n - m, 1)
        z = 0.0 if share <= 0.5 else min(NormalDist().inv_cdf(share), 5.0) if share < 1 else 5.0
    return mean - z * (np.std(everybody, axis=0, ddof=1) if len(everybody) > 1 else 0.0)


def poisoned(c, sample, x, y, classes, brightest):
    """(samples, labels) from which attackers learn, for the samples of these indices."""
    name, x, y = c["attack.name"], np.array(x), np.array(y)
    for k, index in enumerate(sample):
        if name == "label_flip":
            y[k] = classes - 1 - y[k]
        elif name == "label_flip_pair":
            y[k] = c["attack.wrong_label"] if y[k] == c["attack.source_label"] else y[k]
        elif name == "backdoor":
            spread = np.float32((int(index) * 2654435769) % 2**32) / np.float32(2**32)
            if spread < c["attack.poisoned_share"]:
                x[k], y[k] = stamped(c, x[k], brightest), c["attack.target_label"]
    return x, y


def stamped(c, image, brightest):
    size, marked = c["attack.trigger_size"], np.array(image)
    marked[max(image.shape[0] - size, 0) :, max(image.shape[1] - size, 0) :] = brightest
    return marked
