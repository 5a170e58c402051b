"""A round put together, and what is measured of it.

A round follows MADFL's algorithm 1: the links are those of the present places; clients that collect do so; those that
are renewed begin anew; the algorithm computes and exchanges; then costs are counted, and batteries are emptied.
"""

import math

import numpy as np

from tests.reference import wrappers
from tests.reference.aggregation import JUDGES, MEASURED, WEIGHING, Near, combine
from tests.reference.algorithms import REGISTERED
from tests.reference.attacks import ATTACKS, to_all, to_one
from tests.reference.compressors import WIDTH, sparse_bits
from tests.reference.costs import Costs
from tests.reference.task import Regression, Softmax
from tests.reference.world import World


class Round:
    """What a round gives to an algorithm."""

    def __init__(self, run, t, links):
        self.run, self.c, self.t, self.links, self.task, self.draws = run, run.c, t, links, run.task, run.draws
        self.n, self.alone, self.used, self.judged = run.n, None, None, None
        self.epochs = self.task.batches(t) if self.c["algorithm.local_epochs"] else None
        self.memory = run.last_sent

    @property
    def size(self):
        """The coordinates that are exchanged."""
        return int(self.task.exchanged.sum())

    @property
    def ends(self):
        return np.ones(self.n, bool) if self.links.finishes is None else self.links.finishes

    def part(self, i):
        return self.links.active is None or self.links.active[i]

    def attacks(self, i):
        return self.links.attackers is not None and self.links.attackers[i]

    def poisons(self, i):
        """Whether a client learns from poisoned samples."""
        return self.attacks(i) and ATTACKS[self.c["attack.name"]].poisons

    def steps(self, i):
        """The minibatches of a client's local steps; None: drawn in the step, or all samples."""
        if self.epochs is None:
            return [None] * self.c["algorithm.local_steps"]
        return self.epochs[i]

    @property
    def most_steps(self):
        return max(len(self.steps(i)) for i in range(self.n))

    def gradient(self, i, x, step, when=None, **more):
        """(loss, gradient) of a client; an attacker learns from its own samples, or not at all."""
        when = self.t if when is None else when
        loss, g = self.task.gradient(i, x, when, step, attacks=self.poisons(i), **more)
        if self.attacks(i) and not ATTACKS[self.c["attack.name"]].trains:
            g = np.zeros_like(g)
        return loss, self.run.rounded_at(g)

    def lied(self, vectors, which=0, flat=False, key=None):
        """What all clients send in place of their vectors [N, d]; attackers lie to everybody alike.

        Noise is drawn leaf by leaf, or at once for algorithms that send one flat vector.
        """
        if self.links.attackers is None or not self.links.attackers.any():
            return np.array(vectors)
        shapes, inside = [(self.size,)] if flat else self.task.shared_shapes, self.task.exchanged

        def noise():
            found = np.zeros_like(vectors)
            found[:, inside] = self.draws.noise_of_attackers(self.t, which, shapes, key)
            return found

        active = [self.part(i) for i in range(self.n)]
        return to_all(self.c, vectors, self.links.attackers, active, noise)

    def average(self, own, told, mix, lies=None):
        """W_ii x_i + sum of W_ij y_j, of the coordinates that are exchanged."""
        after = np.array(own)
        for i in range(self.n):
            total = mix[i, i] * own[i]
            for j in range(self.n):
                if j != i and mix[i, j] != 0:
                    total = total + mix[i, j] * (told[j] if lies is None else lies[i].get(j, told[j]))
            after[i] = np.where(self.task.exchanged, total, own[i])
        return after

    def combine(self, own, which=0, hears=None, mix=None, tells=True):
        """What each client has after an exchange by the rule of aggregation."""
        hears, mix = self.links.hears if hears is None else hears, self.links.mix if mix is None else mix
        rule, told = self.c["algorithm.aggregation"], self.lied(own, which)
        lies = self.lies(own, told, hears, mix)
        if self.links.budget is not None:
            return self.in_parts(own, told, hears, mix)
        if rule == "mean":
            return self.average(own, told, mix, lies)
        inside, after = self.task.exchanged, np.array(own)
        alone, rejected = np.zeros(self.n, bool), np.zeros((self.n, self.n), bool)
        if rule == "reputation":
            t0, forgets = self.c["algorithm.first_trust"], self.c["algorithm.forgetting"]
            self.run.trust = t0 + (1 - forgets) * (self.run.trust - t0)
        for i in range(self.n):
            heard = {j: self.run.rounded(lies[i].get(j, told[j])[inside]) for j in np.flatnonzero(hears[i])}
            loss = (lambda x, i=i: self.judgement(i, own[i], x)) if rule in JUDGES else None
            near = Near(i, own[i][inside], heard, mix[i], self.c, self.t / self.c["rounds"], loss, self.run.trust[i])
            after[i, inside], used, alone[i] = combine(rule, near)
            rejected[i] = hears[i] & ~np.isin(np.arange(self.n), list(used)) & (not alone[i])
        if tells:
            found = {"alone": alone, "judged": hears & ~alone[:, None], "used": rejected}
            for name, new in found.items():  # of all exchanges of the round
                before = getattr(self, name)
                setattr(self, name, new if before is None else before | new)
        return after

    def judgement(self, i, own, exchanged):
        """The loss of a model on a client's own minibatch, with its own personal leaves; NaN without samples."""
        if not self.task.held[i]:
            return math.nan
        whole = np.array(own)
        whole[self.task.exchanged] = exchanged
        batch = self.steps(i)[0] if self.epochs is not None else None
        loss = self.task.gradient(i, whole, self.t, 0, batch=batch, attacks=self.poisons(i))[0]
        return np.float32(self.run.rounded(np.append(whole, loss))[-1])  # outputs of large models round small losses

    def lies(self, own, told, hears, mix):
        """What attackers who know everything send to each client: a dictionary a receiver."""
        found = [{} for _ in range(self.n)]
        if self.links.attackers is None or not ATTACKS[self.c["attack.name"]].to_each:
            return found
        inside = self.task.exchanged
        for i in range(self.n):
            heard = [j for j in np.flatnonzero(hears[i]) if np.isfinite(told[j][inside]).all()]
            liars, others = [j for j in heard if self.attacks(j)], [j for j in heard if not self.attacks(j)]
            honest, lie = [told[j][inside] for j in others], np.zeros_like(own[i])
            weighs = self.c["algorithm.aggregation"] in WEIGHING
            weights = mix[i] if weighs else np.full(self.n, 1 / (len(heard) + 1))
            lie[inside] = to_one(self.c, own[i][inside], honest, others, weights, liars, not self.attacks(i))
            found[i] = {j: lie for j in np.flatnonzero(hears[i]) if self.attacks(j)}
        return found

    def in_parts(self, own, told, hears, mix):
        """x_i + sum W_ij m_ij (y_j - x_i), where m_ij are the coordinates that fit: those that changed most first."""
        inside, size, after = self.task.exchanged, self.size, np.array(own)
        last, sent = self.run.last_sent, self.run.last_sent.copy()
        self.link_bits = np.zeros((self.n, self.n))
        for j in range(self.n):
            y = told[j][inside]
            order = sorted(
                range(size), key=lambda at, y=y, j=j: (-abs(np.float32(y[at]) - np.float32(last[j, at])), at)
            )
            for i in np.flatnonzero(hears[:, j]):
                fits = [k for k in range(1, size + 1) if sparse_bits(size, k) <= self.links.budget[i, j]]
                count = max(fits, default=1) if math.isfinite(self.links.budget[i, j]) else size
                chosen = order[:count]
                at = np.flatnonzero(inside)[chosen]
                after[i, at] += mix[i, j] * (y[chosen] - own[i][at])
                sent[j, chosen] = y[chosen]
                self.link_bits[i, j] = sparse_bits(size, count)
        self.memory = sent
        return after


class Simulator:
    """A run of the slow simulator.

    Args:
      c: the resolved configuration, values by path.
      draws: the draws of its key.
      given: what is not computed here: first models, samples, and ``seen``, a record of places a round.
    """

    def __init__(self, c, draws, given):
        self.c, self.draws, self.n, self.seen = c, draws, c["network.num_clients"], given["seen"]
        kind = Regression if c["data.name"].startswith("synthetic") else Softmax
        extra = () if kind is Regression else (given["frozen"],)
        self.task = kind(c, draws, given["leaves"], given["samples"], *extra)
        self.algorithm = REGISTERED[c["algorithm.name"]](c)
        self.algorithm.start(given["models"])
        self.first = given["models"]
        self.rounded = given.get("rounded", lambda x: x)
        self.rounded_at = lambda x: np.where(x == 0, x, self.rounded(x))  # what is zero is so in any precision
        self.trust = np.full((self.n, self.n), c.get("algorithm.first_trust", 0.0), float)
        self.last_sent = np.array(given["models"])[:, self.task.exchanged]
        self.counts = given["counts"]
        held = self.first_held(given)
        self.costs = Costs(c, draws, held, self.algorithm.gradients, self.algorithm.uses_links) if self.counts else None
        self.network = self.wrapped(held, given)
        self.messages, self.bits = np.zeros(self.n, int), np.zeros(self.n, int)

    def first_held(self, given):
        """The samples by which costs and speeds count work: those of the first round, or of the first region."""
        if not self.c["data.collect"]:
            return self.task.held
        places = given["seen"][0]["position"]
        held = [max(len(self.task.regions[self.task.region(p)]), 1) for p in places]
        return [0 if i >= self.n - self.c["network.relays"] else h for i, h in enumerate(held)]

    def wrapped(self, held, given):
        c, draws, algorithm = self.c, self.draws, self.algorithm
        seconds = self.costs.computing if self.costs else np.zeros(self.n)
        self.world = network = World(c, draws, held, seconds, given["load"])
        if c["server.pattern"] == "roadside":
            network = wrappers.Roadside(network, c, draws)
        elif c["server.pattern"]:
            network = wrappers.Meetings(network, c, draws)
        self.layers = {}
        if c["presence.name"]:
            network = self.layers["presence"] = wrappers.Presence(network, c, draws)
        if c["energy.capacity"] > 0:
            network = self.layers["battery"] = wrappers.Battery(network, c, draws)
        if c["clock.joins"]:
            network = self.layers["clock"] = wrappers.Clocks(network, c, draws, seconds, algorithm.asynchronous)
        period = (c["algorithm.period_min"] + c["algorithm.period_max"]) // 2
        if not algorithm.participates and (c["algorithm.participation"] < 1 or period > 1):
            network = wrappers.Picks(network, c, draws, algorithm.fixed, period)
        if math.isfinite(c["privacy.clip"]):
            network = self.layers["account"] = wrappers.Account(network, c, draws, algorithm.gradients)
        if c["attack.name"]:
            everybody = not algorithm.uses_links and not c["server.pattern"]
            everybody = everybody or c["algorithm.name"] in ("allreduce", "local_only", "server_fedavg")
            network = self.layers["attack"] = wrappers.Attacked(network, c, draws, self.seen[0], everybody)
        return network

    def round(self, t):
        """Computes a round and returns what it was, as a dictionary of records."""
        c, n, seen, algorithm = self.c, self.n, self.seen[t], self.algorithm
        there = self.network.there(seen)
        self.present = self.layers["presence"].there(seen) if "presence" in self.layers else there
        self.task.begin(t, there, seen["position"])
        self.world.samples = self.task.held
        links = self.network.links(t, seen)
        r = Round(self, t, links)
        if links.renewed is not None:
            self.renew(links)
        before = {name: row.copy() for name, row in algorithm.rows.items()}
        stats = algorithm.round(r)
        computed = np.ones(n, bool) if stats.computed is None else stats.computed
        messages, bits = np.array(stats.messages, int), np.array(stats.bits, int)
        if r.links.budget is not None and hasattr(r, "link_bits"):
            stats.link_bits = np.where(links.hears if stats.heard is None else stats.heard, r.link_bits, 0)
            bits = stats.link_bits.sum(axis=0).astype(int)
            if stats.heard is None:
                stats.heard = links.hears
        moves = np.array([r.part(i) for i in range(n)])
        messages, bits = np.where(moves, messages, 0), np.where(moves, bits, 0)
        computed = computed & moves & r.ends & (np.array(self.task.held) > 0)
        if links.attackers is not None:
            traits = ATTACKS[c["attack.name"]]
            if not traits.moves_on:
                moves = moves & ~links.attackers
            if not traits.trains:
                computed = computed & ~links.attackers
        for name, row in algorithm.rows.items():
            for i in np.flatnonzero(~moves):
                row[i] = before[name][i]
        self.last_sent = np.where(moves[:, None], r.memory, self.last_sent)
        heard = links.hears & (messages > 0) if stats.heard is None else stats.heard
        for i, teacher in (links.renewed or {}).items():
            if teacher != i:  # it took the whole model of a neighbour
                messages[teacher] += 1
                bits[teacher] += WIDTH * sum(math.prod(shape) for _, shape in self.task.leaves)
        stats.messages, stats.bits, stats.computed = messages, bits, computed
        self.messages, self.bits = self.messages + messages, self.bits + bits
        if self.costs:
            self.costs.add(stats, links, heard, stats.link_bits, seen["moved_after"])
        for layer in self.layers.values():
            layer.observe(t, seen, heard, stats, self.costs.joules if self.costs else None)
        return self.record(r, links, stats, heard, there)

    def renew(self, links):
        """Clients that come begin anew, with the first model or that of the first neighbour that they hear."""
        algorithm, taught = self.algorithm, self.algorithm.models.copy()
        models = taught.copy()
        for i, teacher in links.renewed.items():
            models[i] = self.first[i] if teacher == i else taught[teacher]
        fresh = algorithm.fresh(models)
        for name, row in algorithm.rows.items():
            for i in links.renewed:
                row[i] = fresh[name][i]
        for i in links.renewed:
            self.last_sent[i] = models[i][self.task.exchanged]

    # What is measured.

    @property
    def honest(self):
        return ~self.layers["attack"].are if "attack" in self.layers else np.ones(self.n, bool)

    def record(self, r, links, stats, heard, there):
        n, honest = self.n, self.honest
        paired = links.partner is not None
        neighbours = (links.partner != np.arange(n)).astype(int) if paired else links.audible.sum(axis=1)
        loss = np.where((np.array(self.task.held) > 0) & honest, stats.loss, np.nan)
        found = {
            "num_neighbours": neighbours,
            "num_heard": heard.sum(axis=1),
            "train_loss": loss if links.finishes is None else np.where(stats.computed, loss, 0.0),
            "links": links.audible,
            "heard": heard,
            "mix": links.mix,
            "present": there,
        }
        if "presence" in self.layers:
            found["share_present"] = self.present.mean()
        if links.finishes is not None:
            found["works"] = stats.computed
        if stats.late is not None:
            found["staleness"] = stats.late if links.finishes is None else np.where(stats.computed, stats.late, 0.0)
        if "attack" in self.layers:
            found["contamination"] = self.layers["attack"].contamination
        if links.at_server is not None or stats.at_server is not None:
            found["met_server"] = links.at_server if stats.at_server is None else stats.at_server
        if stats.relays is not None:
            found["relay_upload"], found["relay_download"] = stats.relays
        if links.in_radius is not None:
            found["within_radius"], found["outage"] = links.in_radius.sum(axis=1), links.outage.sum(axis=1)
        if links.rate is not None:
            found["link_rate"] = np.where(links.audible, links.rate, 0).sum(axis=1)
        rule = self.c["algorithm.aggregation"]
        if r.alone is not None and rule != "mean":
            found["fell_back"] = r.alone
            if rule in MEASURED:
                found["rejected"] = r.used
                bad = np.zeros(n, bool) if links.attackers is None else links.attackers
                for name, of in (("true_rejections", bad), ("false_rejections", ~bad)):
                    some = ~bad[:, None] & of
                    found[name] = np.array([(r.used & some).sum(), (r.judged & some).sum()], float)
        return found

    def tuned(self, i, x):
        """The model that is evaluated of a client: after some steps from its own, on its own samples."""
        for k in range(self.c["personal.evaluate_after"]):
            x = x - self.c["personal.evaluate_lr"] * self.task.gradient(i, x, "evaluation", k, means=True)[1]
        return x

    def evaluate(self):
        """The scores of all models and of the judged one, and the sums so far."""
        models, algorithm, honest = self.algorithm.models, self.algorithm, self.honest
        one = algorithm.common["server"] if algorithm.has_server else models[honest].mean(axis=0)
        scores = [self.task.score(self.tuned(i, x)) for i, x in enumerate(models)]
        of_one = self.task.score(one)
        mean = models[honest].mean(axis=0)
        found = {
            "accuracy": np.array([s[0] for s in scores]),
            "loss": np.array([s[1] for s in scores]),
            "undecided": {"accuracy": np.array([s[2] for s in scores]), "mean_model_accuracy": of_one[2]},
            "mean_model_accuracy": of_one[0],
            "mean_model_loss": of_one[1],
            "consensus_distance": math.sqrt(sum(np.sum((x - mean) ** 2) for x in models[honest]) / honest.sum()),
            "messages": self.messages,
            "bits": self.bits,
        }
        if algorithm.exchanged_models is not None:
            of_shared = self.task.score(algorithm.exchanged_models[honest].mean(axis=0))
            found["shared_model_accuracy"], found["undecided"]["shared_model_accuracy"] = of_shared[0], of_shared[2]
        if isinstance(self.task, Regression):
            found["objective"] = self.task.objective(one)
        if self.costs:
            found["seconds"], found["joules"] = self.costs.seconds, self.costs.joules
        if "battery" in self.layers:
            battery = self.layers["battery"]
            found["survivors"], found["energy_left"] = np.mean(battery.left > 0), battery.left
            found["harvested"] = battery.harvested
        if "account" in self.layers:
            held, numbers = self.task.held, (self.c["privacy.noise"], self.c["privacy.delta"])
            rows = [(k, held[i], *numbers) for i, k in enumerate(self.layers["account"].released)]
            found["released_steps"], found["epsilon"] = self.layers["account"].released, np.array(rows)
        if "attack" in self.layers:
            found["attacker"] = self.layers["attack"].are
        return found
