"""What clients learn from: their samples, the loss and its gradient, minibatches, epochs, and what is measured.

Two problems, on which a wrong weight is a visible number: regressions that each seed draws (PaME V-A), and softmax
regression on samples that are divided among the clients. Models are vectors [d] in the order of their leaves.
"""

import math
from fnmatch import fnmatchcase

import numpy as np
from safetensors.numpy import load_file

from tests.reference.attacks import poisoned

KERNEL, A, B = "base/Dense_0/kernel", "adapters/Dense_0/kernel/a", "adapters/Dense_0/kernel/b"


def softmax_loss(outputs, labels):
    """(the loss of each sample, its derivative by the outputs)."""
    shifted = outputs - outputs.max(axis=1, keepdims=True)
    total = np.exp(shifted).sum(axis=1, keepdims=True)
    slopes = np.exp(shifted) / total
    slopes[np.arange(len(labels)), labels] -= 1
    return (np.log(total) - shifted)[np.arange(len(labels)), labels], slopes


def kept_models(c, leaves):
    """[N, d], the models from which clients start: each from its own of a file, or all from the mean of these."""
    file, n = load_file(c["model.pretrained"]), c["network.num_clients"]
    own = np.concatenate([file[f"clients/params/{name}"].reshape(-1, math.prod(s)) for name, s in leaves], axis=1)
    own = own.astype(float)
    return own if c["model.pretrained_clients"] == "own" else np.tile(own.mean(axis=0), (n, 1))


def undecided(outputs):
    """Within this, two outputs are alike in single precision, and a test sample may fall to either label."""
    return 1e-4 * max(np.abs(outputs).max(), 1e-3)


class Task:
    """The samples of a run. ``leaves`` are the names and sizes of the parts of a model, in their order."""

    def __init__(self, c, draws, leaves):
        self.c, self.draws, self.n, self.leaves = c, draws, c["network.num_clients"], leaves
        shared, parts = c["model.shared"], []
        for name, shape in leaves:
            exchanged = not shared or any(fnmatchcase(name, pattern.strip()) for pattern in shared.split(","))
            parts += [exchanged] * math.prod(shape)
        self.exchanged = np.array(parts, bool)

    @property
    def shared_shapes(self):
        """The shapes of the leaves that are exchanged."""
        shared = self.c["model.shared"]
        keep = lambda name: not shared or any(fnmatchcase(name, p.strip()) for p in shared.split(","))  # noqa: E731
        return [shape for name, shape in self.leaves if keep(name)]

    def begin(self, t, there, positions):
        """Lets the samples of a round be there, for clients that collect them."""

    def batches(self, t):
        """[N] lists of the minibatches of a round's epochs (McMahan 2017), each places among the own samples."""
        c, held = self.c, self.held
        size, words = c["algorithm.batch_size"], self.draws.epoch_words(t, c["algorithm.local_epochs"], self.total)
        most, found, first = math.ceil(max(held) / size), [], 0
        for i in range(self.n):
            mine, own = [], self.first(i, first)
            for epoch in words:
                order = sorted(range(held[i]), key=lambda k, own=own, epoch=epoch: (epoch[own + k], k))
                if c["algorithm.epoch_steps"] == "own":
                    mine += [order[k : k + size] for k in range(0, held[i], size)]
                elif held[i]:  # as many steps as the client with the most, of sizes as even as whole numbers allow
                    each, more, at = held[i] // most, held[i] % most, 0
                    for part in range(most):
                        mine.append(order[at : at + each + (part < more)])
                        at += each + (part < more)
            found.append(mine)
            first += held[i]
        return found

    def first(self, i, before):
        """Where the samples of a client begin in the list of all."""
        return before

    def sums(self, count, whole):
        """The factor of a gradient: the number of samples where gradients are sums (thesis, algorithm 1).

        Beside sums over minibatches of M, a whole gradient counts M times the mean: estimates of both are unbiased.
        """
        if self.c["algorithm.gradient"] != "sum":
            return 1
        return self.c["algorithm.batch_size"] or count if whole else count


class Regression(Task):
    """f_i(w) = mean of 1/2 (a w - b)^2, or of log(1 + exp(a w)) - b a w, plus l2 / 2 |w|^2 (PaME V-A)."""

    def __init__(self, c, draws, leaves, samples):
        super().__init__(c, draws, leaves)
        (self.a, self.b), self.test, self.l2 = samples["train"], samples["test"], c["data.l2"]
        self.is_linear = c["data.name"].endswith("linear")
        self.held = [len(b) for b in self.b]
        self.total = sum(self.held)

    def of_samples(self, w, a, b):
        outputs = a @ w
        if self.is_linear:
            return (outputs - b) ** 2 / 2, outputs - b
        return np.logaddexp(0, outputs) - b * outputs, 1 / (1 + np.exp(-outputs)) - b

    def gradient(self, i, w, t, step, batch=None, whole=False, attacks=False, means=False):
        a, b, size = self.a[i], self.b[i], self.c["algorithm.batch_size"]
        if batch is None and size and not whole:
            batch = self.draws.synthetic_minibatch(t, step, len(b), size)[i]
        if batch is not None:
            a, b = a[np.asarray(batch, int)], b[np.asarray(batch, int)]
        losses, slopes = self.of_samples(w, a, b)
        count = max(len(b), 1)
        scale = 1 if means else self.sums(len(b), whole)
        return losses.sum() / count + self.l2 / 2 * w @ w, scale * (a.T @ slopes / count + self.l2 * w)

    def score(self, w):
        a, b = self.test
        losses, _ = self.of_samples(w, a, b)
        if self.is_linear:
            return max(1 - 2 * losses.mean() / np.var(b), 0), losses.mean(), 0.0
        outputs = a @ w
        return np.mean((outputs > 0) == (b > 0.5)), losses.mean(), np.mean(np.abs(outputs) <= undecided(outputs))

    def objective(self, w):
        every = [self.of_samples(w, a, b)[0].mean() for a, b in zip(self.a, self.b)]
        return sum(every) + self.n * self.l2 / 2 * w @ w


class Softmax(Task):
    """Softmax regression o = A x + b on samples that are divided among the clients; relays, the last, hold none."""

    def __init__(self, c, draws, leaves, samples, frozen):
        super().__init__(c, draws, leaves)
        self.x, self.y = samples["x"], samples["y"]
        self.x_test, self.y_test = self.ready(samples["x_test"], samples), samples["y_test"]
        self.samples, self.frozen, self.classes = samples, frozen, samples["classes"]
        self.of_client = [list(map(int, own)) for own in samples["of_client"]]
        self.total = len(self.y)
        self.collecting = c["data.collect"] > 0
        self.ring = None
        if self.collecting:
            self.regions = self.of_client
            self.ring = -np.ones((self.n, c["data.window"], c["data.collect"]), int)
            self.of_client = [[] for _ in range(self.n)]
            self.total = self.ring.size
        self.held = [len(own) for own in self.of_client]

    def ready(self, x, samples):
        return ((x - samples["mean"]) / samples["std"]).reshape(len(x), math.prod(x.shape[1:]))

    # Collecting on the way: each round some samples of the region where a client is; it keeps those of W rounds.

    def region(self, position):
        (low, high), side = self.samples["area"], self.c["data.regions"]
        share = np.clip(np.floor((position - low) / np.maximum(high - low, 1e-6) * side), 0, side - 1).astype(int)
        return share[0] * side + share[1]

    def begin(self, t, there, positions):
        c, n = self.c, self.n
        if not self.collecting:
            return
        drift = t // c["data.drift_every"] if c["data.drift"] == "places" else 0
        regions = [(self.region(p) - drift) % c["data.regions"] ** 2 for p in positions]
        drawn = self.draws.collected(t, c["data.collect"], [len(self.regions[r]) for r in regions])
        for i in range(n):
            own = self.regions[regions[i]]
            collects = there[i] and own and i < n - c["network.relays"]
            self.ring[i, t % c["data.window"]] = [own[k] for k in drawn[i]] if collects else -1
        self.of_client = [[int(s) for s in self.ring[i].ravel() if s >= 0] for i in range(n)]
        self.held = [len(own) for own in self.of_client]

    def outputs(self, w, x):
        """A x + b, of a model whose leaves are the trained ones; the others are frozen, alike for all."""
        parts = self.parts(w)
        if not self.c["adapters.rank"]:
            return x @ parts["Dense_0/kernel"] + parts["Dense_0/bias"]
        return x @ (parts[KERNEL] + self.scale * parts[A] @ parts[B]) + parts["base/Dense_0/bias"]

    @property
    def scale(self):
        """alpha / r of LoRA (Hu 2022, 4.1)."""
        return self.c["adapters.alpha"] / self.c["adapters.rank"]

    def parts(self, w):
        """All leaves of a model by name."""
        parts, at = dict(self.frozen), 0
        for name, shape in self.leaves:
            parts[name] = w[at : at + math.prod(shape)].reshape(shape)
            at += math.prod(shape)
        return parts

    def gradient(self, i, w, t, step, batch=None, whole=False, attacks=False, means=False):
        c, own = self.c, self.of_client[i]
        size = c["algorithm.batch_size"]
        if not own:
            return 0.0, np.zeros_like(w)
        if math.isfinite(c["privacy.clip"]):
            return self.private_gradient(i, w, t, step, attacks)
        if batch is None and size and not whole:
            batch = self.draws.minibatch(t, step, i, len(own), size)
        chosen = own if batch is None else [own[k] for k in batch]
        if not chosen:
            return 0.0, np.zeros_like(w)
        losses, found = self.of_samples(w, chosen, attacks)
        scale = 1 if means else self.sums(len(chosen), whole)
        return losses.mean(), scale * found.mean(axis=0)

    def of_samples(self, w, chosen, attacks):
        """The losses of some samples [S], and their gradients [S, d]."""
        x, y = self.x[chosen], self.y[chosen]
        if attacks:
            x, y = poisoned(self.c, chosen, x, y, self.classes, self.x.max())
        x = self.ready(x, self.samples)
        losses, slopes = softmax_loss(self.outputs(w, x), y)
        of = {"Dense_0/kernel": x[:, :, None] * slopes[:, None], "Dense_0/bias": slopes}
        if self.c["adapters.rank"]:
            parts, moves = self.parts(w), self.scale * of["Dense_0/kernel"]  # of W = W0 + scale A B, times scale
            of = {A: moves @ parts[B].T, B: parts[A].T @ moves}
        return losses, np.concatenate([of[k].reshape(len(y), math.prod(s)) for k, s in self.leaves], axis=1)

    def private_gradient(self, i, w, t, step, attacks):
        """(sum of g min(1, C / |g|) + sigma C z) / M (Abadi 2016); M = min(B, n): each is drawn with chance M / n."""
        c, own, size = self.c, self.of_client[i], self.c["algorithm.batch_size"]
        clip, mean_size = c["privacy.clip"], min(size or len(own), len(own))
        if size:
            sizes = np.repeat(np.maximum(self.held, 1), self.held)
            sizes = np.append(sizes, np.full(self.total - len(sizes), max(self.held[-1], 1)))  # samples of nobody
            first = sum(self.held[:i])
            below = self.draws.poisson_sample(t, step, tuple(sizes.tolist()))[first : first + len(own)]
            own = [sample for sample, drawn in zip(own, below) if drawn < size]
        losses, each = self.of_samples(w, own, attacks)
        norms = np.linalg.norm(each, axis=1, keepdims=True)
        total = (each * np.minimum(1, clip / np.maximum(norms, 1e-300))).sum(axis=0)
        shapes = tuple(shape for _, shape in self.leaves)
        total += c["privacy.noise"] * clip * self.draws.noise_of_gradients(t, step, shapes)[i]
        return losses.sum() / max(len(own), 1), self.sums(size or len(own), False) * total / mean_size

    def score(self, w):
        outputs = self.outputs(w, self.x_test)
        first, second = np.sort(outputs, axis=1)[:, :-3:-1].T
        loss = softmax_loss(outputs, self.y_test)[0].mean()
        return np.mean(outputs.argmax(axis=1) == self.y_test), loss, np.mean(first - second <= undecided(outputs))
