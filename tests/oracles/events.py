"""Clients with clocks as a queue of events: one event at a time, in float64, as the papers write what a client does.

An event is (slot, phase, rank, who ...). In a slot first the works end that end in it (phase 0), then clients talk
(phase 1), in the order of the moments of their pairs, and then those whose work has ended go on (phase 2).
"""

import heapq

import numpy as np

ENDS, TALKS, GOES_ON, CLOSES = range(4)


class Clients:
    """What every protocol has: models, works that end, and a record of each slot."""

    def __init__(self, start, gradient, lr, graphs, slots, moments=None):
        """``graphs`` [R, N, N] who hears whom, ``slots`` [N] of a work, ``moments`` [R, N, N] when pairs meet."""
        self.x = np.array(start, float)
        self.gradient, self.lr, self.graphs, self.slots = gradient, lr, graphs, slots
        self.clients, self.ended, self.step = range(len(start)), set(), {}
        self.snapshot = self.x.copy()
        self.begun = np.zeros(len(start), int)  # the slot in which the work began
        self.sent, self.late, self.queue = np.zeros((len(graphs), len(start)), int), [], []
        for i in self.clients:
            heapq.heappush(self.queue, (slots[i] - 1, ENDS, 0.0, i, i))
        for t, graph in enumerate(graphs):
            heapq.heappush(self.queue, (t, CLOSES, 0.0, 0, 0))
            for i in self.clients if moments is not None else ():
                for j in range(i):
                    if graph[i, j] and graph[j, i]:
                        heapq.heappush(self.queue, (t, TALKS, moments[t][i, j], i, j))

    def run(self):
        """The models, [R + 1, N, n]."""
        models = [self.x.copy()]
        while self.queue:
            t, phase, _, i, j = heapq.heappop(self.queue)
            if t >= len(self.graphs):
                break
            if phase == ENDS:
                self.ended.add(i)
                self.step[i] = self.lr * self.gradient(i, self.snapshot[i])
                self.ends(t, i)
                heapq.heappush(self.queue, (t, GOES_ON, 0.0, i, i))
            elif phase == TALKS:
                self.talks(t, i, j)
            elif phase == GOES_ON:
                self.goes_on(t, i)
                self.snapshot[i], self.begun[i] = self.x[i], t + 1
                heapq.heappush(self.queue, (t + self.slots[i], ENDS, 0.0, i, i))
            else:
                models.append(self.x.copy())
                self.ended.clear()
                self.closes(t)
        return np.stack(models)

    def ends(self, t, i):
        """What happens as soon as a work ends."""

    def closes(self, t):
        """What happens when a slot is over."""


class Pairs(Clients):
    """Protocols in which a client exchanges with one other in a slot."""

    busy = frozenset()

    def talks(self, t, i, j):
        if self.ended & {i, j} and not self.busy & {i, j}:
            self.busy |= {i, j}
            self.exchange(t, i, j)

    def closes(self, t):
        self.busy = frozenset()


class ADPSGD(Pairs):
    """Lian et al. 2018, algorithm 1: the pair averages, then the gradient of the snapshot is subtracted."""

    def exchange(self, t, i, j):
        self.x[i] = self.x[j] = (self.x[i] + self.x[j]) / 2
        self.sent[t, [i, j]] += 1

    def goes_on(self, t, i):
        self.x[i] = self.x[i] - self.step[i]
        self.late.append((t, i, t - self.begun[i]))


class Push(Pairs):
    """Gossip learning: a work is added, the model is sent, and the receiver merges it by age."""

    answers = False

    def __init__(self, *args):
        super().__init__(*args)
        self.age = np.zeros(len(self.x))

    def ends(self, t, i):
        self.x[i] = self.x[i] - self.step[i]
        self.age[i] += 1
        self.late.append((t, i, t - self.begun[i]))

    def exchange(self, t, i, j):
        messages = [(k, other, self.x[k].copy(), self.age[k]) for k, other in ((i, j), (j, i))]
        for sender, receiver, model, age in messages:
            if sender in self.ended or self.answers:
                total = self.age[receiver] + age
                self.x[receiver] = (self.age[receiver] * self.x[receiver] + age * model) / total
                self.age[receiver] = max(self.age[receiver], age)
                self.sent[t, sender] += 1

    def goes_on(self, t, i):
        """Its next work begins with the merged model."""


class PushPull(Push):
    answers = True


class OSGP(Clients):
    """Assran et al. 2019, algorithm 2, in x and w: parts that arrive wait in an inbox until the own work has ended.

    A client keeps a quarter of weight at least, of the one that it had at the beginning, and pushes what is beyond.
    """

    def __init__(self, *args):
        super().__init__(*args)
        self.held, self.w = self.x.copy(), np.ones(len(self.x))
        self.inbox = {i: [] for i in self.clients}

    def ends(self, t, i):
        self.held[i] = self.held[i] - self.step[i]
        heapq.heappush(self.queue, (t, TALKS, 0.0, i, i))

    def talks(self, t, i, _):
        hearers = np.flatnonzero(self.graphs[t][:, i])
        keeps = max(1 / (1 + len(hearers)), min(1, 0.25 / self.w[i]))
        if keeps == 1:
            return
        share = (1 - keeps) / len(hearers)
        for j in hearers:
            self.inbox[j].append((share * self.held[i], share * self.w[i], t))
        self.held[i], self.w[i] = keeps * self.held[i], keeps * self.w[i]
        self.sent[t, i] += len(hearers)

    def goes_on(self, t, i):
        for part, weight, _ in self.inbox[i]:
            self.held[i], self.w[i] = self.held[i] + part, self.w[i] + weight
        waits = [t - then for _, _, then in self.inbox[i]]
        self.late.append((t, i, np.mean(waits) if waits else 0.0))
        self.inbox[i] = []
        self.x[i] = self.held[i] / self.w[i]


class SWIFT(Clients):
    """Bornstein et al. 2023, algorithm 1: a client broadcasts, computes, and averages what it has from its neighbours.

    The graph is the same in all slots. ``mix`` [N, N] are symmetric weights.
    """

    def __init__(self, start, gradient, lr, graphs, slots, mix):
        super().__init__(start, gradient, lr, graphs, slots)
        self.mix, self.works, self.mixed = mix, np.ones(len(self.x)), {}
        self.mailbox = {i: {j: (self.x[j].copy(), 0) for j in np.flatnonzero(graphs[0][i])} for i in self.clients}

    def ends(self, t, i):
        heapq.heappush(self.queue, (t, TALKS, 0.0, i, i))

    def talks(self, t, i, _):
        weights = {j: self.mix[i, j] * min(1, self.works[j] / self.works[i]) for j in self.mailbox[i]}
        self.mixed[i] = (1 - sum(weights.values())) * self.x[i]
        for j, (model, _) in self.mailbox[i].items():
            self.mixed[i] = self.mixed[i] + weights[j] * model
            self.sent[t, j] += 1
        self.late.append((t, i, np.mean([t - then for _, then in self.mailbox[i].values()])))

    def goes_on(self, t, i):
        self.x[i] = self.mixed[i] - self.step[i]
        self.works[i] += 1
        for j in self.mailbox[i]:
            self.mailbox[j][i] = (self.x[i].copy(), t + 1)
