"""What clients compute and send in a round: each algorithm from its paper, one client after another.

The state of a client is its row of each array of ``rows``; what is not a client's is in ``common``. A round is given as
a `Round` (`simulator`), which knows links, gradients, draws, and what becomes of messages on the way.
"""

import math
from dataclasses import dataclass

import numpy as np

from tests.reference.compressors import WIDTH, compress, kept, sparse_bits
from tests.reference.world import uniform

REGISTERED = {}
BEFORE, NEVER = -1, 2**30
COMPRESSING = ("transmission", "levels", "eta", "omega", "noise")


@dataclass
class Stats:
    """What a round was: losses, messages and bits of the senders, who heard whom, and who computed."""

    loss: np.ndarray
    messages: np.ndarray
    bits: np.ndarray
    heard: np.ndarray = None  # None: all links of those that sent
    computed: np.ndarray = None  # None: all that take part
    whole: np.ndarray = None  # who computed a gradient over all samples besides
    at_server: np.ndarray = None
    late: np.ndarray = None  # staleness
    relays: tuple = None  # (to, source), -1 for none
    link_bits: np.ndarray = None


def named(*names):
    def add(kind):
        REGISTERED.update(dict.fromkeys(names, kind))
        return kind

    return add


class Algorithm:
    """The base: a name, numbers, and the state."""

    asynchronous, fixed, participates, has_server, uses_links = False, False, False, False, True
    steps_once = True  # a step of the recursion a round, which knows no optimiser

    def __init__(self, c):
        self.c, self.name, self.n = c, c["algorithm.name"], c["network.num_clients"]

    def number(self, name):
        return self.c[f"algorithm.{name}"]

    def start(self, models):
        self.rows, self.common = self.fresh(np.array(models)), {"round": 0, **self.shared(np.array(models))}

    def fresh(self, models):
        """The clients' rows at the start, for these models."""
        return {"x": models}

    def shared(self, models):
        return {}

    @property
    def models(self):
        return self.rows["x"]

    @property
    def exchanged_models(self):
        """The shared models, where those that are evaluated are others."""

    @property
    def gradients(self):
        """The gradients of a minibatch that a client computes in a round."""
        return 1 if self.steps_once else self.c["algorithm.local_steps"] if not self.c["algorithm.local_epochs"] else 1

    def step_size(self, k):
        return self.number("lr") * decay(self.c, k)

    def all_gradients(self, r, points=None, step=0, **more):
        """(losses, gradients with weight decay) of all clients at their models."""
        points = self.rows["x"] if points is None else points
        found = [r.gradient(i, points[i], step, **more) for i in range(self.n)]
        return np.array([f[0] for f in found]), np.array([f[1] for f in found]) + self.number("weight_decay") * points

    def whole_models(self, r, hears=None, extra=0, times=1):
        """(messages, bits) where each sends its model, or ``times`` vectors, to all that hear it."""
        messages = times * (r.links.hears if hears is None else hears).sum(axis=0)
        return messages, messages * WIDTH * (r.size + extra)

    def compressed(self, name, r, key, x, **changed):
        numbers = {each: self.c.get(f"algorithm.{each}") for each in COMPRESSING}
        return compress(name, numbers | changed, r.draws, key, r.run.rounded_at(x))

    # Local work by an optimiser: MADFL II-B; FedProx's term (Li 2020) is mu (y - x).

    def of_optimiser(self, models, of=""):
        none = np.zeros(len(models), int)
        return {f"{of}x": np.array(models), f"{of}m": 0 * models, f"{of}v": 0 * models, f"{of}count": none}

    def local_work(self, r, start, seen=lambda gradient, y: gradient(y), stretch=None, **phase):
        """(models after the local steps of each client, losses of the first steps); ``phase`` is of personal models."""
        after, losses, of = np.array(start), np.zeros(self.n), phase.get("of", "")
        mu, near = phase.get("held", (self.number("proximal"), start))
        for i in range(self.n):
            for k, batch in enumerate(phase.get("steps", r.steps)(i)):
                factor = 1 if stretch is None else stretch[i]

                def gradient(y, i=i, k=k, batch=batch):
                    loss, g = r.gradient(i, y, k, phase.get("when"), batch=batch)
                    return loss, np.where(phase.get("inside", True), g + mu * (y - near[i]), 0)

                loss, g = seen(gradient, after[i])
                losses[i] = loss if k == 0 else losses[i]
                step = factor * self.update(i, g, after[i], of=of)
                after[i] = np.where(phase.get("inside", True), after[i] + step, after[i])
        return after, losses

    def finished_work(self, r, start, **more):
        """As `local_work`, of those whose work ends; the others keep their models and the state of the optimiser."""
        before, goes_on = {name: self.rows[name].copy() for name in ("m", "v", "count")}, ~r.ends
        after, losses = self.local_work(r, start, **more)
        for row, old in ((after, start), *((self.rows[name], old) for name, old in before.items())):
            row[goes_on] = old[goes_on]
        return after, losses

    def descend(self, r, step):
        """(models after local steps that each add ``step(i, k, gradient)``, losses of the first steps)."""
        x, after, losses = self.rows["x"], np.array(self.rows["x"]), np.zeros(self.n)
        for i in range(self.n):
            for k, batch in enumerate(r.steps(i)):
                loss, g = r.gradient(i, after[i], k, batch=batch)
                losses[i] = loss if k == 0 else losses[i]
                g = g + self.number("weight_decay") * after[i] + self.number("proximal") * (after[i] - x[i])
                after[i] = after[i] + step(i, k, g)
        return after, losses

    def update(self, i, g, y, nesterov=False, of=""):
        """The step of the optimiser: SGD with PyTorch's momentum and weight decay, or AdamW."""
        rows = {name: self.rows[of + name] for name in ("m", "v", "count")}
        count = int(rows["count"][i])
        rows["count"][i], eta = count + 1, self.step_size(count)
        if self.c["algorithm.optimizer"] == "adam" and self.name != "dsgdm_n":
            rows["m"][i] = 0.9 * rows["m"][i] + 0.1 * g
            rows["v"][i] = 0.999 * rows["v"][i] + 0.001 * g**2
            m, v = rows["m"][i] / (1 - 0.9 ** (count + 1)), rows["v"][i] / (1 - 0.999 ** (count + 1))
            return -eta * (m / (np.sqrt(v) + 1e-8) + self.number("weight_decay") * y)
        g, beta = g + self.number("weight_decay") * y, self.number("momentum")
        rows["m"][i] = beta * rows["m"][i] + g
        return -eta * (g + beta * rows["m"][i] if nesterov or self.name == "dsgdm_n" else rows["m"][i])


def decay(c, k):
    """The factor of the learning rate at step k."""
    final = c["algorithm.lr_final"]
    if c["algorithm.lr_schedule"] == "cosine":
        steps = c["rounds"] * c["algorithm.local_steps"]
        return (1 - final) * 0.5 * (1 + math.cos(math.pi * min(k, steps) / steps)) + final
    return max(c["algorithm.lr_decay"] ** k, final) if c["algorithm.lr_schedule"] == "exponential" else 1.0


class Waiting(Algorithm):
    """A recursion that waits in rounds without any link: nothing changes, nobody computes (docs/pame.md)."""

    def round(self, r):
        if self.n > 1 and not r.links.hears.any():
            loss, _ = self.all_gradients(r)
            none = np.zeros(self.n, int)
            return Stats(loss, none, none, computed=np.zeros(self.n, bool))
        stats = self.recurse(r)
        self.common["round"] += 1
        return stats


# Local steps, then an exchange of whole models.


@named("dpsgd", "dsgdm_n", "dfedsam")
class DPSGD(Algorithm):
    """x <- W (x - eta g) (Lian 2017); Nesterov's momentum (Lin 2021); gradients at y + rho g / |g| (Shi 2023)."""

    steps_once = False

    def fresh(self, models):
        return self.of_optimiser(models)

    @property
    def gradients(self):
        return super().gradients * (2 if self.name == "dfedsam" else 1)

    def seen(self, gradient, y):
        loss, g = gradient(y)
        if self.name == "dfedsam":
            norm = np.linalg.norm(g)
            g = gradient(y + (self.number("rho") * g / norm if norm > 0 else 0 * g))[1]
        return loss, g

    def round(self, r):
        y, loss = self.local_work(r, self.rows["x"], self.seen)
        self.rows["x"], hears = self.exchange(r, y)
        messages, bits = self.whole_models(r, hears)
        return Stats(loss, messages, bits, hears)

    def exchange(self, r, y):
        return r.combine(y), r.links.hears


# Personal models.


@named("ditto")
class Ditto(DPSGD):
    """Beside x of D-PSGD, v <- v - eta (g(v) + lambda (v - x)) with x of the round's beginning (Li 2021)."""

    def fresh(self, models):
        return {**self.of_optimiser(models), **self.of_optimiser(models, "own_")}

    @property
    def models(self):
        return self.rows["own_x"]

    @property
    def exchanged_models(self):
        return self.rows["x"]

    @property
    def gradients(self):
        return 2 * super().gradients

    def round(self, r):
        rows, held = self.rows, (self.number("personal_proximal"), self.rows["x"].copy())
        rows["own_x"], _ = self.local_work(r, rows["own_x"], of="own_", held=held)
        return super().round(r)


@named("apfl")
class APFL(Ditto):
    """m = a v + (1 - a) x: v <- v - eta a g(m); x of D-PSGD; once a round a <- a - eta' <v - x, g(m)> (Deng 2020)."""

    def fresh(self, models):
        return super().fresh(models) | {"alpha": np.full(len(models), self.number("alpha"))}

    def mixture(self, i):
        a = self.rows["alpha"][i]
        return a * self.rows["own_x"][i] + (1 - a) * self.rows["x"][i]

    @property
    def models(self):
        return np.array([self.mixture(i) for i in range(self.n)])

    def round(self, r):
        rows, losses, start = self.rows, np.zeros(self.n), self.rows["x"].copy()
        for i in range(self.n):
            for k, batch in enumerate(r.steps(i)):
                x, v, a = rows["x"][i].copy(), rows["own_x"][i].copy(), rows["alpha"][i]
                loss, g = r.gradient(i, x, k, batch=batch)
                h = r.gradient(i, self.mixture(i), k, batch=batch)[1]
                rows["x"][i] = x + self.update(i, g + self.number("proximal") * (x - start[i]), x)
                rows["own_x"][i] = v + self.update(i, a * h, v, of="own_")
                if k == 0:
                    losses[i] = loss
                    rows["alpha"][i] = np.clip(a - self.number("alpha_lr") * (v - x) @ h, 0, 1)
        rows["x"] = r.combine(rows["x"])
        return Stats(losses, *self.whole_models(r))


@named("dfedalt", "dfedsalt")
class DFedAlt(DPSGD):
    """K steps on the personal leaves, then those on the shared ones, which are sent (Shi 2023, Collins 2021)."""

    def fresh(self, models):
        return {**self.of_optimiser(models), **self.of_optimiser(models, "own_")}

    @property
    def gradients(self):
        shared = super().gradients * (2 if self.name == "dfedsalt" else 1)
        return shared + (1 if self.c["algorithm.local_epochs"] else self.number("personal_steps"))

    def seen(self, gradient, y):
        loss, g = gradient(y)
        if self.name == "dfedsalt":
            norm = np.linalg.norm(g)
            g = gradient(y + (self.number("rho") * g / norm if norm > 0 else 0 * g))[1]
        return loss, g

    def round(self, r):
        shared, rows, when = r.task.exchanged, self.rows, ("personal", r.t)
        epochs = r.task.batches(when) if self.c["algorithm.local_epochs"] else None
        steps = (lambda i: [None] * self.number("personal_steps")) if epochs is None else epochs.__getitem__
        own = {"of": "own_", "held": (0, rows["x"]), "inside": ~shared, "when": when, "steps": steps}
        y, loss = self.local_work(r, rows["x"], **own)
        y, _ = self.local_work(r, y, self.seen, inside=shared)
        rows["x"] = r.combine(y)
        return Stats(loss, *self.whole_models(r))


@named("local_only")
class LocalOnly(DPSGD):
    """Every client learns alone."""

    uses_links = False

    def exchange(self, r, y):
        return y, np.zeros_like(r.links.hears)


@named("epidemic", "epidemic_oracle")
class Epidemic(DPSGD):
    """EL (De Vos 2023): sent to s random others, or over a random s-regular graph; the plain mean of what is heard."""

    def exchange(self, r, y):
        s, hears = self.number("num_peers"), np.zeros_like(r.links.hears)
        if self.name == "epidemic_oracle":
            hears = r.draws.regular_part(r.t, r.links.hears, s)
        else:
            words = r.draws.receivers(r.t)
            for j in range(self.n):
                able = [i for i in range(self.n) if r.links.hears[i, j]]
                for i in sorted(able, key=lambda i, j=j: (words[j, i] >> 1, i))[:s]:
                    hears[i, j] = True
        return r.combine(y, hears=hears, mix=uniform(hears)), hears


@named("allreduce")
class AllReduce(DPSGD):
    """The exact mean of all models in every round, as a ring all-reduce counts it (Patarasuk 2009)."""

    uses_links = False

    def round(self, r):
        y, loss = self.local_work(r, self.rows["x"], self.seen)
        members = [i for i in range(self.n) if r.part(i)]
        said, mean = r.lied(y), 0
        for i in members:
            mean = mean + said[i] / len(members)
        for i in range(self.n):
            y[i] = np.where(r.task.exchanged, mean, y[i]) if members else y[i]
        self.rows["x"] = y
        messages, bits, hears = np.zeros(self.n, int), np.zeros(self.n, int), np.zeros((self.n, self.n), bool)
        for place, i in enumerate(members):
            sizes = [r.size // len(members) + (k < r.size % len(members)) for k in range(len(members))]
            messages[i] = 2 * (len(members) - 1)
            bits[i] = WIDTH * (2 * r.size - sizes[(place + 1) % len(members)] - sizes[(place + 2) % len(members)])
            if len(members) > 1:
                hears[i, members[place - 1]] = True
        return Stats(loss, messages, bits, hears)


@named("dfedavgm")
class DFedAvgM(Algorithm):
    """y^(k+1) = y^k - eta g + theta (y^k - y^(k-1)), from rest in every round, then W y (Sun 2023)."""

    steps_once = False

    def shared(self, models):
        return {"step": 0}

    def round(self, r):
        moved = 0 * self.rows["x"]

        def step(i, k, g):
            moved[i] = self.number("momentum") * moved[i] - self.step_size(self.common["step"] + k) * g
            return moved[i]

        after, loss = self.descend(r, step)
        self.common["step"] += r.most_steps
        self.rows["x"] = r.combine(after)
        return Stats(loss, *self.whole_models(r))


@named("qg_dsgdm", "qg_dsgdm_n")
class QuasiGlobal(Algorithm):
    """m = beta m^ + g; x+ = W (x - eta m); m^ <- mu m^ + (1 - mu) (x - x+) / eta (Lin 2021)."""

    def fresh(self, models):
        return {"x": models, "m": 0 * models}

    def round(self, r):
        x, eta, beta, mu = self.rows["x"], self.step_size(self.common["round"]), self.number("momentum"), None
        loss, g = self.all_gradients(r)
        m = beta * self.rows["m"] + g
        after = r.combine(x - eta * (beta * m + g if self.name.endswith("_n") else m))
        mu = self.number("momentum_memory")
        if eta > 0:
            self.rows["m"] = mu * self.rows["m"] + (1 - mu) * (x - after) / eta
        self.rows["x"], self.common["round"] = after, self.common["round"] + 1
        return Stats(loss, *self.whole_models(r))


# Recursions that correct the gradient.


@named("nids", "d2", "extra")
class Corrected(Waiting):
    """NIDS (Li 2019), D2 (Tang 2018), EXTRA (Shi 2015): the difference of the steps of two rounds."""

    def __init__(self, c):
        super().__init__(c)
        self.fixed = self.name != "nids"

    def fresh(self, models):
        return {"x": models, "before": np.array(models), "descent": 0 * models}

    def recurse(self, r):
        rows, first = self.rows, self.common["round"] == 0
        x, before = rows["x"], rows["before"]
        loss, g = self.all_gradients(r)
        descent = self.step_size(self.common["round"]) * g
        planned = 2 * x - before - (descent - rows["descent"])
        messages, bits = self.whole_models(r)
        if self.name == "extra":  # x^(k+2) = (I + W) x^(k+1) - W~ x^k - ...; before holds W~ x^k
            heard = r.combine(x)
            after, kept_back = x + heard - before - (descent - rows["descent"]), (x + heard) / 2
        elif self.name == "d2":
            share = self.number("laziness")
            after = r.combine(planned, mix=(1 - share) * r.links.mix + share * np.eye(self.n))
            kept_back = x
        else:
            heard = r.combine(planned)
            after, kept_back = planned if first else (planned + heard) / 2, x
            messages, bits = (0 * messages, 0 * bits) if first else (messages, bits)
        self.rows = {"x": after, "before": kept_back, "descent": descent}
        return Stats(loss, messages, bits)


@named("gradient_tracking")
class Tracking(Algorithm):
    """y <- W y + g(x) - g(x_before); x <- W (x - eta y); y^0 = g(x^0) (Pu 2021)."""

    def fresh(self, models):
        return {"x": models, "y": 0 * models, "g": 0 * models}

    def round(self, r):
        rows, k = self.rows, self.common["round"]
        loss, g = self.all_gradients(r)
        y = r.combine(rows["y"]) + g - rows["g"]
        x = r.combine(rows["x"] - self.step_size(k) * y, which=1)
        self.rows, self.common["round"] = {"x": x, "y": y, "g": g}, k + 1
        return Stats(loss, *self.whole_models(r, times=1 if k == 0 else 2))


@named("kgt")
class KGT(Algorithm):
    """E steps y <- y - eta (g + c); z = (x - y) / (E eta); c <- c - z + W z; x <- W (x - eta_s E eta z) (Liu 2024)."""

    steps_once = False

    def fresh(self, models):
        return {"x": models, "c": 0 * models}

    def round(self, r):
        x, c, eta = self.rows["x"], self.rows["c"], self.step_size(self.common["round"] * r.most_steps)
        y, loss = self.descend(r, lambda i, k, g: -eta * (g + c[i]))
        drift, length = x - y, [len(r.steps(i)) * eta for i in range(self.n)]
        z = np.array([drift[i] / length[i] if length[i] > 0 else 0 * x[i] for i in range(self.n)])
        mixed = r.combine(z)
        after = r.combine(x - self.number("exchange_lr") * drift, which=1)
        self.rows, self.common["round"] = {"x": after, "c": c - z + mixed}, self.common["round"] + 1
        return Stats(loss, *self.whole_models(r, times=2))


@named("dmgt_svrg")
class DMGTSVRG(Algorithm):
    """v+ = g(x) - g(w) + grad f(w); s <- M(s + v+ - v); x <- M(x - eta s); M: Chebyshev gossip (Liu 2024, Ye 2020)."""

    gradients = 2

    def fresh(self, models):
        nothing = 0 * models
        return {"x": models, "w": np.array(models), "gw": nothing, "begun": np.zeros(len(models), bool),
                "v": nothing.copy(), "s": nothing.copy()}  # fmt: skip

    def round(self, r):
        rows, k, steps = self.rows, self.common["round"], self.number("gossip_steps")
        rate = self.number("mixing_rate")
        if rate == 1:
            sizes = np.abs(np.linalg.eigvalsh(r.links.mix))
            rate = max((s for s in sizes if s < 1 - 1e-5), default=0.0)
        root = math.sqrt(1 - rate**2)
        b = (1 - root) / (1 + root)

        def gossip(z, exchange):
            now = before = z
            for step in range(steps):
                now, before = (1 + b) * r.combine(now, which=exchange * steps + step, tells=False) - b * before, now
            return now

        x, eta = rows["x"], self.step_size(k)
        renewed = (r.draws.coins(r.t) < self.number("anchor_probability")) | ~rows["begun"]
        whole = np.array(
            [r.gradient(i, x[i], 1, whole=True)[1] if renewed[i] else rows["gw"][i] for i in range(self.n)]
        )
        loss, v = np.zeros(self.n), 0 * x
        for i in range(self.n):
            loss[i], here = r.gradient(i, x[i], 0)
            there = r.gradient(i, rows["w"][i], 0)[1]
            v[i] = (here - there + rows["gw"][i] if rows["begun"][i] else whole[i]) + self.number("weight_decay") * x[i]
        planned = rows["s"] + v - rows["v"]
        mixed = gossip(planned, 0)
        s = planned if k == 0 else mixed
        after = gossip(x - eta * s, 1)
        w, gw = np.where(renewed[:, None], x, rows["w"]), np.where(renewed[:, None], whole, rows["gw"])
        self.rows = {"x": after, "w": w, "gw": gw, "begun": np.ones(self.n, bool), "v": v, "s": s}
        self.common["round"] = k + 1
        return Stats(loss, *self.whole_models(r, times=steps if k == 0 else 2 * steps), whole=renewed)


@named("aug_dgm")
class AugDGM(Tracking):
    """x <- W (x - eta y); y <- W (y + g(x) - g(x_before)); y^0 = g(x^0) (Xu 2015)."""

    def round(self, r):
        rows, k = self.rows, self.common["round"]
        loss, g = self.all_gradients(r)
        planned = rows["y"] + g - rows["g"]
        heard = r.combine(planned)
        y = planned if k == 0 else heard
        x = r.combine(rows["x"] - self.step_size(k) * y, which=1)
        self.rows, self.common["round"] = {"x": x, "y": y, "g": g}, k + 1
        return Stats(loss, *self.whole_models(r, times=1 if k == 0 else 2))


@named("led")
class LED(Algorithm):
    """E steps z <- z - eta g - (b / E) y, from x; x <- W' z; y <- y + z - x (Alghunaim 2024)."""

    steps_once = False

    def fresh(self, models):
        return {"x": models, "y": 0 * models}

    def round(self, r):
        y, eta = self.rows["y"], self.step_size(self.common["round"] * r.most_steps)
        pulls = [self.number("correction_lr") / max(len(r.steps(i)), 1) * y[i] for i in range(self.n)]
        z, loss = self.descend(r, lambda i, k, g: -eta * g - pulls[i])
        for i in range(self.n):
            if not len(r.steps(i)):
                z[i] = z[i] - pulls[i]
        share = self.number("laziness")
        after = r.combine(z, mix=(1 - share) * r.links.mix + share * np.eye(self.n))
        self.rows, self.common["round"] = {"x": after, "y": y + z - after}, self.common["round"] + 1
        return Stats(loss, *self.whole_models(r))


@named("proxskip")
class ProxSkip(Algorithm):
    """z = x - eta g - y; at heads x <- W' z and y <- y + p (z - x), else x <- z (Mishchenko 2022)."""

    def fresh(self, models):
        return {"x": models, "y": 0 * models}

    def round(self, r):
        rows, p, share = self.rows, self.number("exchange_probability"), self.number("laziness")
        loss, g = self.all_gradients(r)
        z, hears = rows["x"] - self.step_size(self.common["round"]) * g - rows["y"], r.links.hears
        mix = (1 - share) * r.links.mix + share * np.eye(self.n)
        if not r.draws.common_coin(r.t) < p:
            hears, mix = np.zeros_like(hears), np.eye(self.n)
        after = r.combine(z, hears=hears, mix=mix)
        self.rows, self.common["round"] = {"x": after, "y": rows["y"] + p * (z - after)}, self.common["round"] + 1
        return Stats(loss, *self.whole_models(r, hears), hears)


def apart(r, x):
    """(sum over the neighbours j of x_i - x_j, their number), from the rule's mean over them and oneself."""
    degree = r.links.hears.sum(axis=1)
    mix = (r.links.hears + np.eye(r.n)) / (degree + 1)[:, None]
    return (degree + 1)[:, None] * (x - r.combine(x, mix=mix)), degree


@named("dlm")
class DLM(Waiting):
    """x <- x - (g + c L x + phi) / (1 / eta + 2 c d); phi <- phi + c L x, of the new x (Ling 2015)."""

    fixed = True

    def fresh(self, models):
        return {"x": models, "phi": 0 * models}

    def recurse(self, r):
        x, c, eta = self.rows["x"], self.number("penalty"), self.step_size(self.common["round"])
        loss, g = self.all_gradients(r)
        differences, degree = apart(r, x)
        phi = self.rows["phi"] + (c * differences if self.common["round"] else 0)
        step = eta / (1 + 2 * c * degree * eta)
        self.rows = {"x": x - step[:, None] * (g + c * differences + phi), "phi": phi}
        return Stats(loss, *self.whole_models(r))


@named("dinno")
class DiNNO(Algorithm):
    """p <- p + rho L x; E steps on f + p y + rho sum_j |y - (x_i + x_j) / 2|^2 from x (Yu 2022)."""

    steps_once = False

    def fresh(self, models):
        return {**self.of_optimiser(models), "p": 0 * models}

    def round(self, r):
        rows, rho, x = self.rows, self.number("penalty"), self.rows["x"]
        differences, degree = apart(r, x)
        rows["p"] = rows["p"] + rho * differences
        after, losses = np.array(x), np.zeros(self.n)
        for i in range(self.n):
            for k, batch in enumerate(r.steps(i)):
                loss, g = r.gradient(i, after[i], k, batch=batch)
                losses[i] = loss if k == 0 else losses[i]
                g = g + self.number("proximal") * (after[i] - x[i])
                g = g + rows["p"][i] + rho * (2 * degree[i] * (after[i] - x[i]) + differences[i])
                after[i] = after[i] + self.update(i, g, after[i])
        rows["x"] = after
        return Stats(losses, *self.whole_models(r))


@named("gt_sarah")
class GTSarah(Algorithm):
    """v <- grad f(x) at times, else g(x) - g(x_before) + v; y <- W y + v - v_before; x <- W x - eta y (Xin 2022)."""

    gradients = 2

    def fresh(self, models):
        return {"x": models, "before": np.array(models), "v": 0 * models, "y": 0 * models,
                "begun": np.zeros(len(models), bool)}  # fmt: skip

    def round(self, r):
        rows, k, decay = self.rows, self.common["round"], self.number("weight_decay")
        renewed = (k % self.number("whole_every") == 0) | ~rows["begun"]
        loss, v = np.zeros(self.n), 0 * rows["x"]
        for i in range(self.n):
            x, before = rows["x"][i], rows["before"][i]
            loss[i], here = r.gradient(i, x, 0)
            if renewed[i]:
                v[i] = r.gradient(i, x, 1, whole=True)[1] + decay * x
            else:
                v[i] = here - r.gradient(i, before, 0)[1] + decay * (x - before) + rows["v"][i]
        y = r.combine(rows["y"]) + v - rows["v"]
        after = r.combine(rows["x"], which=1) - self.step_size(k) * y
        self.rows = {"x": after, "before": rows["x"], "v": v, "y": y, "begun": np.ones(self.n, bool)}
        self.common["round"] = k + 1
        return Stats(loss, *self.whole_models(r, times=1 if k == 0 else 2), whole=renewed)


# Compressed innovations: receivers hold estimates, which messages move.


class Innovations(Algorithm):
    fixed = True

    def fresh(self, models):
        return {"x": models, "known": 0 * models}

    @property
    def compressor(self):
        return self.c["algorithm.compressor"] or {"dcd_psgd": "qsgd", "anq_nids": "anq"}.get(self.name, "top_k")

    def send(self, r, key, x, known, speaks=True, **changed):
        """(estimates after messages C(x - x_hat), messages, bits)."""
        value, bits = self.compressed(self.compressor, r, key, r.lied(x - known, flat=True, key=key), **changed)
        receivers = np.where(speaks, r.links.hears.sum(axis=0), 0)
        return np.where((receivers > 0)[:, None], known + value, known), receivers, receivers * np.array(bits)

    def pull(self, r, known):
        return np.array([sum(r.links.mix[i, j] * known[j] for j in range(self.n)) - known[i] for i in range(self.n)])


@named("choco")
class Choco(Innovations):
    """y = x - eta g; x_hat <- x_hat + C(y - x_hat); x <- y + gamma (W - I) x_hat (Koloskova 2019)."""

    def round(self, r):
        loss, g = self.all_gradients(r)
        y = self.rows["x"] - self.step_size(self.common["round"]) * g
        known, messages, bits = self.send(r, r.draws.own(r.t), y, self.rows["known"])
        self.rows = {"x": y + self.number("consensus_lr") * self.pull(r, known), "known": known}
        self.common["round"] += 1
        return Stats(loss, messages, bits)


@named("dcd_psgd")
class DCD(Innovations):
    """y = W x - eta g; x <- x + C(y - x), so that all know x (Tang 2018); without links the step is not compressed."""

    def fresh(self, models):
        return {"x": models, "known": np.array(models)}

    def round(self, r):
        loss, g = self.all_gradients(r)
        y = self.rows["x"] + self.pull(r, self.rows["known"]) - self.step_size(self.common["round"]) * g
        known, messages, bits = self.send(r, r.draws.own(r.t), y, self.rows["known"])
        self.rows = {"x": np.where((messages > 0)[:, None], known, y), "known": known}
        self.common["round"] += 1
        return Stats(loss, messages, bits)


@named("beer")
class Beer(Innovations):
    """Zhao 2022, algorithm 1; the second exchange of an iteration is at the beginning of the next round."""

    def fresh(self, models):
        nothing = 0 * models
        return {"x": models, "v": nothing, "h": nothing.copy(), "k": nothing.copy(), "g": nothing.copy()}

    def round(self, r):
        rows, k, gamma = self.rows, self.common["round"], self.number("consensus_lr")
        of_v, of_x = r.draws.split(r.draws.own(r.t))
        loss, g = self.all_gradients(r)
        v = rows["v"] + gamma * self.pull(r, rows["k"]) + g - rows["g"]
        known_v, first, first_bits = self.send(r, of_v, v, rows["k"], k > 0)
        x = rows["x"] + gamma * self.pull(r, rows["h"]) - self.step_size(k) * v
        known_x, second, second_bits = self.send(r, of_x, x, rows["h"])
        self.rows, self.common["round"] = {"x": x, "v": v, "h": known_x, "k": known_v, "g": g}, k + 1
        return Stats(loss, first + second, first_bits + second_bits)


@named("squarm_sgd")
class Squarm(Innovations):
    """Nesterov's steps; who has moved enough sends C(x - x_hat); x <- x + gamma (W - I) x_hat (Singh 2021)."""

    steps_once = False

    def fresh(self, models):
        return {"x": models, "known": 0 * models, "m": 0 * models}

    def round(self, r):
        m, first, beta = self.rows["m"], self.common["round"] * r.most_steps, self.number("momentum")

        def step(i, k, g):
            m[i] = beta * m[i] + g
            return -self.step_size(first + k) * (beta * m[i] + g)

        x, loss = self.descend(r, step)
        last = self.step_size(first + r.most_steps - 1)
        far = ((x - self.rows["known"]) ** 2).sum(axis=1) > self.number("trigger") * last**2
        known, messages, bits = self.send(r, r.draws.own(r.t), x, self.rows["known"], far)
        self.rows = {"x": x + self.number("consensus_lr") * self.pull(r, known), "known": known, "m": m}
        self.common["round"] += 1
        return Stats(loss, messages, bits)


@named("anq_nids")
class AnqNids(Innovations, Waiting):
    """NIDS whose y is heard through quantised innovations; eta of the quantiser shrinks (Li 2019, Michelusi 2022)."""

    def fresh(self, models):
        return {"x": models, "before": np.array(models), "descent": 0 * models, "known": 0 * models}

    def recurse(self, r):
        rows, k = self.rows, self.common["round"]
        loss, g = self.all_gradients(r)
        descent = self.step_size(k) * g
        y = 2 * rows["x"] - rows["before"] - (descent - rows["descent"])
        changed = {"eta": self.c["algorithm.eta"] * self.number("eta_decay") ** k} if self.compressor == "anq" else {}
        known, messages, bits = self.send(r, r.draws.own(r.t), y, rows["known"], k > 0, **changed)
        after = y + self.pull(r, known) / 2 if k else y
        self.rows = {"x": after, "before": rows["x"], "descent": descent, "known": known}
        return Stats(loss, messages, bits)


# Push-sum.


@named("sgp")
class SGP(Algorithm):
    """x <- P (x - eta g(z)), w <- P w, z = x / w, P column-stochastic (Assran 2019)."""

    steps_once = False

    def fresh(self, models):
        return {**self.of_optimiser(models), "w": np.ones(len(models))}

    def round(self, r):
        rows, hears = self.rows, r.links.hears
        z, loss = self.local_work(r, rows["x"], stretch=1 / rows["w"])
        pushed = np.zeros((self.n, self.n))
        for j in range(self.n):
            pushed[hears[:, j] | (np.arange(self.n) == j), j] = rows["w"][j] / (1 + hears[:, j].sum())
        w = pushed.sum(axis=1)
        rows["x"], rows["w"] = r.average(z, r.lied(z), pushed / w[:, None]), w
        return Stats(loss, *self.whole_models(r, extra=1))


@named("osgp")
class OSGP(SGP):
    """Pushed parts wait until their receiver's work ends; a client keeps w_min of weight at least (Assran 2019)."""

    asynchronous = True

    def fresh(self, models):
        nothing = {name: np.zeros(len(models)) for name in ("inbox_w", "waiting", "waited")}
        return {**super().fresh(models), "inbox": 0 * models, **nothing}

    def round(self, r):
        rows, ends, n = self.rows, r.ends, self.n
        z, loss = self.finished_work(r, rows["x"], stretch=1 / rows["w"])
        told, hears, total = r.lied(z), np.zeros((n, n), bool), rows["w"].copy()
        rows["waited"] = rows["waited"] + rows["waiting"]
        for j in range(n):
            hearers = np.flatnonzero(r.links.hears[:, j])
            keeps = max(rows["w"][j] / (1 + len(hearers)), min(rows["w"][j], self.number("least_weight")))
            if not ends[j] or not len(hearers) or keeps >= rows["w"][j]:
                continue
            for i in hearers:
                share = (rows["w"][j] - keeps) / len(hearers)
                rows["inbox"][i] = rows["inbox"][i] + share * np.where(r.task.exchanged, told[j], 0)
                rows["inbox_w"][i] += share
                rows["waiting"][i] += 1
                hears[i, j] = True
            total[j] = keeps
        late = rows["waited"] / np.maximum(rows["waiting"], 1)
        for i in range(n):
            if ends[i]:
                weight = total[i] + rows["inbox_w"][i]
                z[i] = np.where(r.task.exchanged, (total[i] * z[i] + rows["inbox"][i]) / weight, z[i])
                total[i] = weight
                rows["inbox"][i], rows["inbox_w"][i], rows["waiting"][i], rows["waited"][i] = 0, 0, 0, 0
        rows["x"], rows["w"] = z, total
        return Stats(loss, *self.whole_models(r, hears, extra=1), hears, late=late)


# Clients with clocks.


class Late(Algorithm):
    """A work on a snapshot: its gradient is that of the model with which the work began."""

    asynchronous, steps_once = True, False

    def fresh(self, models):
        none = np.zeros(len(models), int)
        return {**self.of_optimiser(models), "snapshot": np.array(models), "passed": none, "age": none.astype(float)}

    def finished(self, r):
        """(the change of each work that ends, the losses)."""
        after, loss = self.finished_work(r, self.rows["snapshot"])
        return after - self.rows["snapshot"], loss

    def begin_next(self, r, models):
        self.rows["snapshot"] = np.where(r.ends[:, None], models, self.rows["snapshot"])
        self.rows["passed"] = np.where(r.ends, 0, self.rows["passed"] + 1)


@named("adpsgd", "push", "push_pull")
class Pairs(Late):
    """Who ends a work meets one other: AD-PSGD averages (Lian 2018), gossip learning merges by age (Ormandi 2013)."""

    def round(self, r):
        rows, n, ends = self.rows, self.n, r.ends
        change, loss = self.finished(r)
        late, moments, first = rows["passed"].astype(float), r.draws.moments(r.t), self.name != "adpsgd"
        x, age = (rows["x"] + change, rows["age"] + ends) if first else (rows["x"].copy(), rows["age"].copy())
        hears, busy, weights = np.zeros((n, n), bool), set(), np.zeros((n, n))
        possible = [(i, j) for i in range(n) for j in range(i) if r.links.hears[i, j] and r.links.hears[j, i]]
        for i, j in sorted(possible, key=lambda pair: -moments[pair]):
            if (ends[i] or ends[j]) and not {i, j} & busy:
                busy |= {i, j}
                for to, of in ((i, j), (j, i)):
                    hears[to, of] = ends[of] or self.name != "push"
        for i in range(n):
            for j in np.flatnonzero(hears[i]):
                both = age[i] + age[j]
                weights[i, j] = 0.5 if self.name == "adpsgd" or not both else age[j] / both
            weights[i, i] = 1 - weights[i].sum()
        x = r.combine(x, hears=hears, mix=weights)
        rows["age"] = np.array([max([age[i], *(age[j] for j in np.flatnonzero(hears[i]))]) for i in range(n)])
        if not first:
            x, rows["age"] = x + change, rows["age"] + ends
        rows["x"] = x
        self.begin_next(r, x)
        return Stats(loss, *self.whole_models(r, hears, extra=int(first)), hears, late=late)


@named("swift")
class Swift(Late):
    """Who ends a work averages with what its neighbours began with: w_ij = W_ij min(1, p_j / p_i) (Bornstein 2023)."""

    def fresh(self, models):
        return {**super().fresh(models), "works": np.ones(len(models))}

    @property
    def models(self):
        return self.rows["snapshot"]

    def round(self, r):
        rows, n = self.rows, self.n
        change, loss = self.finished(r)
        hears, weights, late = r.links.hears & r.ends[:, None], np.zeros((n, n)), np.zeros(n)
        for i in range(n):
            near = np.flatnonzero(hears[i])
            for j in near:
                weights[i, j] = r.links.mix[i, j] * min(1, rows["works"][j] / rows["works"][i])
            weights[i, i] = 1 - weights[i].sum()
            late[i] = np.mean([rows["passed"][j] for j in near]) if len(near) else 0
        x = r.combine(rows["snapshot"], hears=hears, mix=weights) + change
        self.begin_next(r, x)
        rows["works"] = rows["works"] + r.ends
        return Stats(loss, *self.whole_models(r, hears, extra=1), hears, late=late)


# Partial messages.


@named("pame")
class PaME(Algorithm):
    """PaME, algorithms 1 and 2: each coordinate's mean over those that sent it, then a step of 1 / (sigma m_i)."""

    participates, gradients = True, 1

    def fresh(self, models):
        size = len(models)
        return {**self.of_optimiser(models), "period": np.zeros(size, int), "heard": np.ones(size, int),
                "works": np.zeros(size, int)}  # fmt: skip

    def round(self, r):
        rows, n, k = self.rows, self.n, self.common["round"]
        of_period, of_neighbours, of_coordinates = r.draws.split(r.draws.own(r.t), 3)
        drawn = r.draws.periods(of_period, self.number("period_min"), self.number("period_max"))
        rows["period"] = np.where(rows["works"] == 0, drawn, rows["period"])
        words, picked = r.draws.words_of_pairs(of_neighbours), np.zeros((n, n), bool)
        for i in range(n):
            # Clients with clocks of their own count their works.
            if (k if r.links.finishes is None else rows["works"][i]) % rows["period"][i] == 0:
                near = list(np.flatnonzero(r.links.hears[i]))
                count = math.ceil(self.number("participation") * len(near) * (1 - 2.0**-21))
                for j in sorted(near, key=lambda j, i=i: (words[i, j] >> 1, j))[:count]:
                    picked[i, j] = True
                rows["heard"][i] = max(picked[i].sum(), 1)
        count, told = kept(self.number("transmission"), r.size), r.lied(rows["x"], flat=True)
        words, where = r.draws.coordinate_words(of_coordinates, r.size), np.flatnonzero(r.task.exchanged)
        sent = [set(sorted(range(r.size), key=lambda at, j=j: (words[j, at], at))[:count]) for j in range(n)]
        averaged = rows["x"].copy()
        for i in range(n):
            for at, coordinate in enumerate(where):
                values = [told[j][coordinate] for j in np.flatnonzero(picked[i]) if at in sent[j]]
                if values:
                    averaged[i, coordinate] = np.mean(values)
        loss = np.zeros(n)
        for i in range(n):
            loss[i], g = r.gradient(i, averaged[i], 0)
            step = self.update(i, g, averaged[i])
            rows["x"][i] = averaged[i] + step * self.number("penalty_growth") ** -k / rows["heard"][i]
        self.common["round"], rows["works"] = k + 1, rows["works"] + 1
        messages = picked.sum(axis=0)
        return Stats(loss, messages, messages * sparse_bits(r.size, count), picked)


# A server.


@named("server_fedavg")
class FedAvg(Algorithm):
    """All begin from the server's model, which becomes the mean of their results (McMahan 2017)."""

    has_server, uses_links, steps_once = True, False, False

    def fresh(self, models):
        return self.of_optimiser(models)

    def shared(self, models):
        return {"server": models[0].copy()}

    def round(self, r):
        start = np.repeat(self.common["server"][None], self.n, axis=0)
        y, loss = self.local_work(r, start)
        members = [i for i in range(self.n) if r.part(i)]
        said = r.lied(y)
        if members:
            self.common["server"] = np.mean([said[i] for i in members], axis=0)
        self.rows["x"], part = y, np.isin(np.arange(self.n), members)
        return Stats(loss, 2 * part, 2 * part * WIDTH * r.size, np.zeros((self.n, self.n), bool), at_server=part)


@named("fedmobile", "fedmobile_u", "fedmobile_d", "fedmobile_local", "fedmobile_auto", "async_fl", "virtual_upload",
       "virtual_download", "virtual_download_once")  # fmt: skip
class FedMobile(Algorithm):
    """FedMobile, 3, 4 and appendix E: cumulative updates to a server, relays of updates and models in between."""

    has_server, steps_once = True, False

    def fresh(self, models):
        size, nothing = len(models), 0 * models
        zero = np.zeros(size, int)
        return {**self.of_optimiser(models), "held": nothing, "private": nothing.copy(), "mixed": np.zeros(size, bool),
                "copy": np.array(models), "version": zero + BEFORE, "gave": zero.copy(), "took": zero.copy(),
                "contacts": zero.copy()}  # fmt: skip

    def shared(self, models):
        return {"server": models[0].copy()}

    def __init__(self, c):
        super().__init__(c)
        self.sends_up = self.name in ("fedmobile", "fedmobile_u", "fedmobile_local", "fedmobile_auto")
        self.sends_down = self.name in ("fedmobile", "fedmobile_d", "fedmobile_local", "fedmobile_auto")

    def search(self, slot, now, last, following):
        """The search intervals [N, 4]: theta, Theta, omega, Omega, given or from what each client has seen."""
        names = ("upload_from", "upload_until", "download_from", "download_until")
        if self.name != "fedmobile_auto":
            return [[self.number(name) for name in names]] * self.n
        known = following < NEVER
        gaps = np.where(known, following - last, 0).astype(float)
        gaps = np.where(known, gaps, gaps.sum() / max(known.sum(), 1))
        found = []
        for i in range(self.n):
            rate = (self.rows["contacts"][i] + 1) / (slot + 3) * gaps[i] / 2
            low, high = 0.0, 2 / 3  # 2 k u (1 - u) = exp(k u^2) - 1
            for _ in range(16):
                u = (low + high) / 2
                low, high = (low, u) if math.expm1(rate * u * u) > 2 * rate * u * (1 - u) else (u, high)
            u = (low + high) / 2
            begin, end = math.floor((1 - u) * gaps[i] / 2), math.ceil((1 + u) * gaps[i] / 2)
            found.append((begin, end, begin, end))
        return found

    def round(self, r):
        rows, n, t, links = self.rows, self.n, self.common["round"], r.links
        now, last, following = links.at_server, np.maximum(links.last_server, BEFORE), links.next_server
        part = np.array([r.part(i) for i in range(n)])
        uploads = part if self.name == "virtual_upload" else now
        downloads = part if self.name == "virtual_download" else now.copy()
        if self.name == "virtual_download_once":
            downloads = downloads | (part & (t - last == self.number("download_after")))
        # Equation (4).
        told = r.lied(rows["held"])
        self.common["server"] = self.common["server"] - sum((told[i] for i in np.flatnonzero(uploads)), 0 * told[0]) / n
        rows["version"] = np.where(downloads, t, rows["version"])
        gives, to, takes, source = self.relays(r, t, now, last, following)
        # RESET and COMBINE (4.1), with compressed private updates (E).
        compressor, update_bits = self.c["algorithm.compressor"], np.full(n, WIDTH * r.size)
        error = np.zeros_like(rows["held"])
        if self.sends_up and compressor and gives.any():
            value, bits = self.compressed(compressor, r, r.draws.own(r.t), rows["private"])
            error = value - rows["private"]
            update_bits = np.where(rows["mixed"], update_bits, bits)
        held, private = rows["held"].copy(), rows["private"].copy()
        clear = uploads | gives
        held[clear], private[clear] = np.where(gives[:, None], -error, 0)[clear], 0
        for i in np.flatnonzero(gives):
            held[to[i]] = held[to[i]] + told[i] + error[i]
        gets = np.isin(np.arange(n), to[gives])
        rows["mixed"] = (rows["mixed"] & ~clear) | gives | gets
        # REPLACE (4.2).
        keeps_copy = self.sends_down and self.name != "fedmobile_local"
        offered, server = r.lied(rows["copy"] if keeps_copy else rows["x"], which=1), self.common["server"]
        from_server = (downloads | (takes & downloads[source]))[:, None]
        after = [np.where(takes[:, None], offered[source], rows[name]) for name in ("x", "copy")]
        x, copy = (np.where(from_server, server, each) for each in after)
        rows["version"] = rows["version"][source]
        # Equations (2) and (3).
        after, loss = self.local_work(r, x)
        rows["x"], rows["copy"] = after, copy
        rows["held"], rows["private"] = held + x - after, private + x - after
        self.common["round"] = t + 1
        models = np.array([int((takes & (source == j)).sum()) for j in range(n)])
        messages = uploads.astype(int) + downloads + gives + models
        bits = WIDTH * r.size * (uploads.astype(int) + downloads + models) + gives * update_bits
        heard, me = np.zeros((n, n), bool), np.arange(n)
        heard[to[gives], me[gives]] = heard[me[takes], source[takes]] = True
        relays = np.where(gives, to, -1), np.where(takes, source, -1)
        return Stats(loss, messages, bits, heard, at_server=uploads | downloads, relays=relays)

    def relays(self, r, t, now, last, following):
        """Who gives its update to whom, and who takes a model from whom (4.1, 4.2, 6)."""
        rows, n, links = self.rows, self.n, r.links
        me = np.arange(n)
        gives, takes, to, source = np.zeros(n, bool), np.zeros(n, bool), me.copy(), me.copy()
        if not (self.sends_up or self.sends_down):
            return gives, to, takes, source
        rows["gave"], rows["took"] = np.where(now, 0, rows["gave"]), np.where(now, 0, rows["took"])
        rows["contacts"] = rows["contacts"] + (
            links.hears.any(axis=1) if links.partner is None else links.partner != me
        )
        search, version = self.search(t, now, last, following), rows["version"].copy()
        for i in range(n):
            theta, big_theta, omega, big_omega = search[i]
            hears_me, heard = np.flatnonzero(links.hears[:, i]), np.flatnonzero(links.hears[i])
            if self.sends_up and rows["gave"][i] < self.number("max_upload") and not now[i]:
                end = last[i] + big_theta
                able = [j for j in hears_me if following[j] <= end and following[j] < following[i]]
                if last[i] + theta <= t <= end and able:
                    gives[i], to[i] = True, min(able, key=lambda j: (following[j], j))
            if self.sends_down and rows["took"][i] < self.number("max_download"):
                begin = following[i] - big_omega
                able = [j for j in heard if last[j] >= begin and last[j] > last[i] and version[j] > version[i]]
                if begin <= t <= following[i] - omega and able:
                    takes[i], source[i] = True, min(able, key=lambda j: (-version[j], j))
        rows["gave"], rows["took"] = rows["gave"] + gives, rows["took"] + takes
        return gives, to, takes, source
