"""Who takes part in a round: each wrapper takes the links of the network inside it, and returns those outside of it.

From the inside to the outside: the server (FedMobile 7 and appendix A), presence, batteries, clocks, picked neighbours
(PaME V-D), attackers. A wrapper has `links` (of a round) and may have `observe` (what a round was).
"""

import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np

from tests.reference.graphs import reachable
from tests.reference.mixing import metropolis_hastings
from tests.reference.world import Links

BEFORE, NEVER = -1, 2**30


class Wrapper:
    """Passes everything on."""

    def __init__(self, inner, c, draws):
        self.inner, self.c, self.draws, self.n = inner, c, draws, c["network.num_clients"]
        self.start()

    def start(self):
        """Makes the state before the first round."""

    def there(self, seen):
        """Who can be in contact in the coming round."""
        return self.inner.there(seen)

    def links(self, t, seen):
        return self.inner.links(t, seen)

    def observe(self, t, seen, heard, stats, joules):
        """Looks at a round that is over."""


class Meetings(Wrapper):
    """Clients meet the server by a pattern, and each other in random pairs (FedMobile appendix B)."""

    def start(self):
        self.last, self.met = np.full(self.n, BEFORE), np.zeros(self.n, int)
        self.next = self.following(self.draws.first_gaps())

    def following(self, key):
        c, i = self.c, np.arange(self.n)
        pattern = c["server.pattern"]
        if pattern == "fixed":
            return np.where(self.met == 0, i % c["server.interval"], self.last + c["server.interval"])
        if pattern == "random":
            gap = self.draws.gap_of(key, c["server.gap_min"], c["server.gap_max"])
            return np.where(self.met == 0, i % c["server.gap_max"], self.last + gap)
        mean, limit = c["server.mean_gap"], c["server.gap_limit"]  # exponential, truncated, rounded up
        gap = np.ceil(-mean * np.log1p(self.draws.gap_uniform(key) * math.expm1(-limit / mean)))
        return self.last + np.clip(gap, 1, limit).astype(int)

    def links(self, t, seen):
        c, n = self.c, self.n
        now = self.next == t
        self.last, self.met = np.where(now, t, self.last), self.met + now
        self.next = np.where(now, self.following(self.draws.gaps(t)), self.next)
        mean = {"fixed": "interval", "exponential": "mean_gap"}.get(c["server.pattern"])
        mean = c[f"server.{mean}"] if mean else (c["server.gap_min"] + c["server.gap_max"]) / 2
        told = self.next if c["server.known_next"] else np.maximum(self.last + int(np.round(mean)), t + 1)
        order, pairs = self.draws.pair_order(t), int(np.float32(c["server.pairs"]) * n / 2 + 1e-4)
        partner = np.arange(n)
        for k in range(pairs):
            a, b = order[2 * k], order[2 * k + 1]
            partner[a], partner[b] = b, a
        return of_pairs(partner, now, self.last.copy(), told)


def in_range(position, units, reach):
    """Who is in the range of a unit, whose places are a text x,y;x,y."""
    places = np.array([[float(v) for v in place.split(",")] for place in units.split(";")])
    squared = ((position[:, None] - places) ** 2).sum(axis=2).min(axis=1)
    return squared <= reach**2 * (1 + 1e-6)


def of_pairs(partner, at_server, last, following):
    """The links of disjoint pairs: one half for each of the two."""
    alone = np.eye(len(partner), dtype=bool)
    hears = alone[partner] & ~alone
    mix = np.where(hears, 0.5, 0.0) + np.diag(np.where(hears.any(axis=1), 0.5, 1.0))
    return Links(hears, mix, at_server=at_server, last_server=last, next_server=following, partner=partner)


class Roadside(Wrapper):
    """Clients meet the server while they are in the range of a unit (FedMobile appendix A)."""

    def start(self):
        self.last, self.met = np.full(self.n, BEFORE), np.zeros(self.n, int)

    def near(self, position, there):
        now = in_range(position, self.c["server.units"], self.c["server.unit_range"])
        return now if there is None else now & there

    def links(self, t, seen):
        c, links = self.c, self.inner.links(t, seen)
        now = self.near(seen["position"], seen["there"])
        self.last, self.met = np.where(now, t, self.last), self.met + now
        told = np.full(self.n, NEVER)
        for i in range(self.n):
            if c["server.known_next"]:
                told[i] = next((s for s, r in enumerate(seen["ahead"]) if s > t and self.near(*r)[i]), NEVER)
            elif self.met[i]:
                mean = (self.last[i] - BEFORE) / self.met[i]
                told[i] = max(self.last[i] + int(np.round(np.float32(mean))), t + 1)
        if not c["server.one_at_a_time"]:
            links.at_server, links.last_server, links.next_server = now, self.last.copy(), told
            return links
        ranks, partner = self.draws.matching_ranks(t), np.arange(self.n)
        for i, j in sorted(itertools.combinations(range(self.n), 2), key=lambda pair: -ranks[pair]):
            if links.hears[i, j] and links.hears[j, i] and partner[i] == i and partner[j] == j:
                partner[i], partner[j] = j, i
        return of_pairs(partner, now, self.last.copy(), told)


class Presence(Wrapper):
    """Clients come and go; who is away has no links, and stands still or trains on."""

    def start(self):
        c = self.c
        self.before, self.was = np.ones(self.n, bool), np.ones(self.n, bool)
        self.waits = np.zeros(self.n, bool)
        if c["presence.name"] == "poisson":
            order, gaps, stays = self.draws.arrivals()
            gaps = np.where(np.arange(self.n) < c["presence.at_start"], 0, gaps / c["presence.arrivals"])
            self.come = np.cumsum(gaps)[order]
            self.leave = self.come + (stays * c["presence.stay"] if math.isfinite(c["presence.stay"]) else math.inf)
        self.says = self.said(0)

    def said(self, t):
        c, name, before = self.c, self.c["presence.name"], self.before
        if name == "markov":
            come, leave = c["presence.come"], c["presence.leave"]
            at_first = come / (come + leave) if come + leave > 0 else 1.0
            chance = np.where(before, 1 - leave, come) if t else np.full(self.n, at_first)
            return self.draws.presence_uniform(t) < chance
        if name == "poisson":
            return (self.come <= t) & (t < self.leave)
        if name == "cyclic":
            shift = c["presence.spread"] * self.draws.presence_uniform()
            hour = np.mod(c["presence.begin"] + t * c["motion.dt"] / 3600 - shift, 24)
            return (hour < c["presence.hours"]) | (c["presence.hours"] >= 24)
        if name == "table":
            there = np.zeros(self.n, bool)
            for line in Path(c["presence.file"]).read_text().split()[1:]:
                client, begin, end = map(int, line.split(","))
                there[client] |= begin <= t < end
            return there
        return np.ones(self.n, bool)  # trace

    def there(self, seen):
        return self.says & self.inner.there(seen)

    def links(self, t, seen):
        c, now = self.c, self.there(seen)
        links = self.inner.links(t, seen).among(now)
        comes = now & ~self.was if t else np.zeros(self.n, bool)
        if c["presence.newcomers"] == "initial":
            links.renewed = {i: i for i in np.flatnonzero(comes)}
        elif c["presence.newcomers"] == "neighbour":
            self.waits = (self.waits & now) | comes
            teachers = {i: np.flatnonzero(links.hears[i] & ~self.waits) for i in np.flatnonzero(self.waits)}
            links.renewed = {i: known[0] for i, known in teachers.items() if len(known)}
            self.waits[list(links.renewed)] = False
        if c["presence.absent"] == "idle":
            links.active = now if links.active is None else now & links.active
        self.was, self.before = now, self.says
        self.says = self.said(t + 1)
        return links


class Battery(Wrapper):
    """A client begins a round if it has energy left, and ends what it begins: left = start + harvested - used."""

    def start(self):
        c = self.c
        self.capacity = c["energy.capacity"] * (1 + c["energy.spread"] * self.draws.battery_spread())
        self.first = c["energy.start"] * self.capacity
        self.left, self.harvested = self.first.copy(), np.zeros(self.n)

    def there(self, seen):
        return (self.left > 0) & self.inner.there(seen)

    def links(self, t, seen):
        alive = self.left > 0
        links = self.inner.links(t, seen).among(alive)
        links.active = alive if links.active is None else alive & links.active
        return links

    def observe(self, t, seen, heard, stats, joules):
        c = self.c
        gathered = np.full(self.n, c["energy.harvest"])
        if c["energy.chargers"]:
            near = in_range(seen["position_after"], c["energy.chargers"], c["energy.charger_range"])
            gathered = gathered + c["energy.charge"] * near
        due = self.first + self.harvested - joules
        self.harvested = self.harvested + np.clip(gathered, 0, np.maximum(self.capacity - due, 0))
        self.left = self.first + self.harvested - joules


class Clocks(Wrapper):
    """A round is a slot; a client computes for as many slots as its work takes, and nobody waits."""

    def __init__(self, inner, c, draws, seconds, asynchronous):
        self.seconds, self.asynchronous = seconds, asynchronous
        super().__init__(inner, c, draws)

    def start(self):
        slots = np.ceil(self.seconds / self.c["motion.dt"] * (1 - 1e-5))
        self.slots = np.maximum(slots, 1).astype(int)
        self.remain = self.slots.copy()

    def links(self, t, seen):
        links = self.inner.links(t, seen)
        there = np.ones(self.n, bool) if links.active is None else links.active
        self.remain = np.where(there, np.maximum(self.remain - 1, 0), self.remain)
        ends = there & (self.remain == 0)
        if self.c["clock.joins"] == "in_contact":
            can = there if self.asynchronous else ends
            ends = ends & np.array([any(links.hears[i, j] and can[j] for j in range(self.n)) for i in range(self.n)])
        if not self.asynchronous:
            stay = {"in_range": links.audible.copy()} | {
                k: getattr(links, k) for k in ("in_radius", "outage", "renewed")
            }
            links = replace(
                replace(links, **dict.fromkeys(stay)).among(ends), **stay, active=ends
            )  # who computes stays
        self.remain = np.where(ends, self.slots, self.remain)
        links.finishes = ends
        return links


class Account(Wrapper):
    """Counts the noised gradients of which others may know: those up to the last round in which a client has sent."""

    def __init__(self, inner, c, draws, gradients):
        self.gradients = gradients
        super().__init__(inner, c, draws)

    def start(self):
        self.steps, self.released = np.zeros(self.n, int), np.zeros(self.n, int)

    def observe(self, t, seen, heard, stats, joules):
        before = self.steps
        self.steps = before + self.gradients * stats.computed
        late = self.c["algorithm.name"] == "pame"  # which sends before it steps
        self.released = np.where(stats.messages > 0, before if late else self.steps, self.released)


class Picks(Wrapper):
    """Each client picks a share of its neighbours, in the rounds of the period (PaME V-D)."""

    def __init__(self, inner, c, draws, stay, period):
        self.stays, self.period, self.kept = stay, period, None
        super().__init__(inner, c, draws)

    def pick(self, hears, words):
        """ceil(nu d_i) of its neighbours each, those with the smallest words; both ways unless one is asked for."""
        picked = np.zeros_like(hears)
        for i in range(self.n):
            near = [j for j in range(self.n) if hears[i, j]]
            count = math.ceil(self.c["algorithm.participation"] * len(near) * (1 - 2.0**-21))
            for j in sorted(near, key=lambda j: (words[i, j] >> 1, j))[:count]:
                picked[i, j] = True
        return picked if self.c["algorithm.picks"] == "one_way" else (picked | picked.T) & hears

    def links(self, t, seen):
        links = self.inner.links(t, seen)
        if self.stays and self.kept is None:
            everything = reachable(links.hears)
            for attempt in range(100):
                self.kept = self.pick(links.hears, self.draws.picks_that_stay(attempt))
                if (reachable(self.kept) == everything).all():
                    break
            else:
                self.kept = links.hears.copy()
        kept = self.kept if self.stays else self.pick(links.hears, self.draws.picks(t))
        mix = links.mix if self.c["algorithm.participation"] >= 1 else metropolis_hastings(kept)
        turn = t % self.period == 0
        links.in_range = links.audible.copy()
        links.hears, links.mix = kept & turn, mix if turn else np.eye(self.n)
        return links


class Attacked(Wrapper):
    """Some clients attack from a round on; a word of theirs goes on by one contact a round, or by the server."""

    def __init__(self, inner, c, draws, seen, reaches_all):
        self.seen, self.reaches_all = seen, reaches_all
        super().__init__(inner, c, draws)

    def start(self):
        c, n = self.c, self.n
        drawn, who = self.draws.attackers(), c["attack.who"]
        count = round(c["attack.share"] * n) if c["attack.share"] else c["attack.number"]
        mobile, place = self.seen["mobile"], self.seen["position"]
        may = {"mobile": mobile, "static": ~mobile}.get(who, np.ones(n, bool))
        score = np.zeros(n)
        if who == "listed":
            listed = [int(w) for w in c["attack.clients"].split(",")]
            may, count = np.isin(np.arange(n), listed), len(listed)
        elif who in ("most_central", "outermost"):
            outside = ((n * place - place.sum(axis=0)) ** 2).sum(axis=1)
            score = outside if who == "most_central" else -outside
        order = sorted((i for i in range(n) if may[i]), key=lambda i: (score[i], drawn[i]))
        self.are = np.isin(np.arange(n), order[:count])
        self.age = np.where(self.are, 0, NEVER)
        self.server_age = NEVER

    def links(self, t, seen):
        links = self.inner.links(t, seen)
        begun = t >= self.c["attack.from_round"]
        links.attackers = self.are & begun
        if begun:
            heard = [
                min([self.age[j] for j in range(self.n) if links.hears[i, j]], default=NEVER) for i in range(self.n)
            ]
            meets = np.ones(self.n, bool) if self.reaches_all else links.at_server
            if meets is not None:
                self.server_age = min([self.server_age, *(self.age[i] for i in range(self.n) if meets[i])])
                heard = [min(h, self.server_age) if meets[i] else h for i, h in enumerate(heard)]
                self.server_age = min(self.server_age + 1, NEVER)
            after = [min(min(old, new) + 1, NEVER) for old, new in zip(self.age, heard)]
            self.age = np.where(self.are, 0, after)
        return links

    @property
    def contamination(self):
        """The share of honest clients whom an attacker's model may have reached within the last B rounds."""
        honest = ~self.are
        return (honest & (self.age <= self.c["attack.memory"])).sum() / max(honest.sum(), 1)
