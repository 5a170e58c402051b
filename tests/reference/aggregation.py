"""How a client combines the models that it hears with its own, rule by rule, from the papers.

A rule sees one client: its own model, those that it hears by sender, its weights. It returns the next model and the
senders whose models it used. Yin 2018 and Fang 2022 (median, trimmed means), Blanchard 2017 (Krum), Pillutla 2022,
He 2022 (clipping), Allouah 2023 (nearest-neighbour mixing), Guo 2022 (UBAR), Fang 2024 (BALANCE), Sun 2019,
Huang 2021 (FedAMP), Kharrat 2025 (DPFL).
"""

import math

import numpy as np

JUDGES = ("reputation", "ubar", "dpfl")
WEIGHING = ("mean", "norm_clipping", "clipped_gossip", "clipped_gossip_adaptive", "self_centred_clipping", "reputation")
MEASURED = ("krum", "multi_krum", "ubar", "balance", "reputation", "dpfl")  # rules that reject models


class Near:
    """What one client hears: ``models`` by client, its own among them; those that are not finite are not heard."""

    def __init__(self, me, own, heard, weights, c, progress, loss=None, trust=None):
        self.me, self.own, self.weights, self.c, self.progress = me, own, weights, c, progress
        self.heard = {j: x for j, x in heard.items() if np.isfinite(x).all()}
        self.models = dict(sorted({**self.heard, me: own}.items()))
        self.loss, self.trust = loss, trust

    @property
    def f(self):
        return self.c["algorithm.max_attackers"]

    def distance(self, j):
        return np.linalg.norm(self.models[j] - self.own)


def least(rule, f):
    """The fewest models, the own one included, with which a rule works."""
    return {
        "trimmed_mean": 2 * f + 2,
        "nnm_trimmed_mean": 2 * f + 2,
        **dict.fromkeys(("krum", "multi_krum", "nnm_krum"), 2 * f + 3),
        **dict.fromkeys(("trimmed_mean_of_all", "nnm_median", "nnm_geometric_median"), 2 * f + 1),
        **dict.fromkeys(("clipped_gossip_adaptive", "self_centred_clipping"), f + 2),
    }.get(rule, 1)


def floor_of(share, count):
    """floor(share count), where a product just below a whole number is that number."""
    return math.floor(share * count * (1 + 2.0**-21))


def combine(rule, near):
    """(the next model, the senders used, whether the client fell back for lack of models)."""
    few = rule != "mean" and len(near.models) < least(rule, near.c.get("algorithm.max_attackers", 0))
    found = RULES[rule](near)
    model, used = found if isinstance(found, tuple) else (found, set(near.heard))
    return model, used, bool(few and near.heard)


def clip(z, tau):
    length = np.linalg.norm(z)
    return z if length <= tau else z * (tau / length)


def clipped(near, tau):
    return near.own + sum((near.weights[j] * clip(x - near.own, tau) for j, x in near.heard.items()), 0 * near.own)


def median(near):
    return np.median(list(near.models.values()), axis=0)


def trimmed(near, cut):
    """BRIDGE-T: without the largest and smallest of the others, coordinate by coordinate; the own value counts."""
    if len(near.heard) < 2 * cut + 1:
        return near.own
    columns = np.sort(list(near.heard.values()), axis=0)[cut : len(near.heard) - cut]
    return (near.own + columns.sum(axis=0)) / (len(columns) + 1)


def trimmed_mean(near):
    return trimmed(near, near.f)


def trimmed_mean_of_all(near):
    """Yin 2018, as a server has it: the own value may be cut."""
    if len(near.models) < 2 * near.f + 1:
        return near.own
    return np.sort(list(near.models.values()), axis=0)[near.f : len(near.models) - near.f].mean(axis=0)


def trimmed_share(near):
    return trimmed(near, floor_of(near.c["algorithm.trim"], len(near.heard)))


def geometric_median(near):
    """Smoothed Weiszfeld from the origin."""
    z, models = np.zeros_like(near.own), list(near.models.values())
    for _ in range(near.c["algorithm.weiszfeld_steps"]):
        closeness = [1 / max(np.linalg.norm(x - z), near.c["algorithm.least_distance"]) for x in models]
        z = sum(b * x for b, x in zip(closeness, models)) / sum(closeness)
    return z


def krum_order(near):
    """The clients by the sum of the squared distances to their n - f - 2 nearest others."""
    count, scores = len(near.models) - near.f - 2, {}
    for j, x in near.models.items():
        others = sorted(np.sum((x - y) ** 2) for k, y in near.models.items() if k != j)
        scores[j] = sum(others[: max(count, 0)])
    return sorted(scores, key=lambda j: (scores[j], j))


def best(near, count):
    if len(near.models) < 2 * near.f + 3:
        return near.own, set()
    chosen = krum_order(near)[:count]
    return np.mean([near.models[j] for j in chosen], axis=0), set(chosen) - {near.me}


def krum(near):
    return best(near, 1)


def multi_krum(near):
    return best(near, len(near.models) - near.f)


def nearest_first(rule):
    """Every model becomes the mean of the n - f nearest to it, itself included, before another rule."""

    def mixed(near):
        if len(near.models) < least(f"nnm_{rule.__name__}", near.f):
            return near.own
        means = {}
        for j, x in near.models.items():
            order = sorted(near.models, key=lambda k, x=x, j=j: (np.sum((x - near.models[k]) ** 2) * (k != j), k))
            means[j] = np.mean([near.models[k] for k in order[: len(order) - near.f]], axis=0)
        others = {j: x for j, x in means.items() if j != near.me}
        found = rule(Near(near.me, means[near.me], others, near.weights, near.c, near.progress))
        return found[0] if isinstance(found, tuple) else found

    return mixed


def norm_clipping(near):
    limit = near.c["algorithm.max_norm"] * np.linalg.norm(near.own)
    rest = 1 - sum(near.weights[j] for j in near.heard)
    return rest * near.own + sum((near.weights[j] * clip(x, limit) for j, x in near.heard.items()), 0 * near.own)


def clipped_gossip(near):
    return clipped(near, near.c["algorithm.clip_radius"])


def clipped_gossip_adaptive(near):
    """The radius of the theory, with the f farthest in the place of the attackers; 0 where all may be attackers."""
    order = sorted(near.heard, key=lambda j: (near.distance(j), j))
    trusted, doubted = order[: max(len(order) - near.f, 0)], order[max(len(order) - near.f, 0) :]
    weight = sum(near.weights[j] for j in doubted)
    spread = sum(near.weights[j] * near.distance(j) ** 2 for j in trusted)
    return clipped(near, math.sqrt(spread / weight) if weight > 0 else math.inf)


def self_centred_clipping(near):
    """At the distance of the (f + 1)-th farthest; of at most f others, at the largest, which clips nothing."""
    distances = sorted(near.distance(j) for j in near.heard)
    few = len(near.models) < near.f + 2
    return clipped(near, (distances[-1] if few else distances[-1 - near.f]) if distances else 0.0)


def mixed_with(near, accepted):
    if not accepted:
        return near.own, set()
    alpha = near.c["algorithm.own_weight"]
    return alpha * near.own + (1 - alpha) * np.mean([near.heard[j] for j in accepted], axis=0), set(accepted)


def ubar(near):
    """Of the nearest, those as good as the own model on the own samples, or the best; without samples all of them."""
    if not near.heard:
        return near.own, set()
    order = sorted(near.heard, key=lambda j: (near.distance(j), j))
    close = order[: max(floor_of(near.c["algorithm.benign_share"], len(order)), 1)]
    own = near.loss(near.own)
    if np.isnan(own):
        return mixed_with(near, close)
    losses = {j: near.loss(near.heard[j]) for j in close}
    return mixed_with(near, [j for j in close if losses[j] <= own] or [min(sorted(close), key=losses.get)])


def balance(near):
    bound = near.c["algorithm.closeness"] * math.exp(-near.c["algorithm.tightening"] * near.progress)
    return mixed_with(near, [j for j in near.heard if near.distance(j) <= bound * np.linalg.norm(near.own)])


def reputation(near):
    """Weights times a trust that models earn by their loss on the own samples; ``near.trust`` is kept by the client."""
    own, model, used = near.loss(near.own), np.array(near.own), set()
    for j, x in near.heard.items():
        if not np.isnan(own):
            loss = near.loss(x)
            evidence = 0.0 if np.isnan(loss) else 1.0 if loss <= own else own / loss
            near.trust[j] += near.c["algorithm.trust_rate"] * (evidence - near.trust[j])
        if near.trust[j] >= near.c["algorithm.least_trust"]:
            model, used = model + near.weights[j] * near.trust[j] * (x - near.own), used | {j}
    return model, used


def fedamp(near):
    """HeurFedAMP: the received models, weighed by the exponential of their cosine to the own one."""
    if not near.heard:
        return near.own
    cosine = lambda x: x @ near.own / (np.linalg.norm(x) * np.linalg.norm(near.own) or 1)  # noqa: E731
    shares = {j: math.exp(near.c["algorithm.attention"] * cosine(x)) for j, x in near.heard.items()}
    mean = sum(shares[j] * x for j, x in near.heard.items()) / sum(shares.values())
    return near.c["algorithm.own_weight"] * near.own + (1 - near.c["algorithm.own_weight"]) * mean


def dpfl(near):
    """The own model and up to B - 1 others, each the best for the average on the own samples while it is no worse."""
    chosen, least = [], near.loss(near.own)
    mean = lambda more: np.mean([near.own, *(near.heard[j] for j in (*chosen, *more))], axis=0)  # noqa: E731
    while len(chosen) + 1 < near.c["algorithm.most_models"] and len(chosen) < len(near.heard):
        losses = {j: near.loss(mean([j])) for j in sorted(near.heard) if j not in chosen}
        best = min(losses, key=losses.get)
        if not losses[best] <= least:
            break
        chosen, least = [*chosen, best], losses[best]
    return mean([]), set(chosen)


RULES = {
    rule.__name__: rule
    for rule in (median, trimmed_mean, trimmed_mean_of_all, trimmed_share, geometric_median, krum, multi_krum,
                 norm_clipping, clipped_gossip, clipped_gossip_adaptive, self_centred_clipping, ubar, balance,
                 reputation, fedamp, dpfl)
}  # fmt: skip
RULES |= {f"nnm_{rule.__name__}": nearest_first(rule) for rule in (median, trimmed_mean, geometric_median, krum)}
