"""Where clients are and whom they could hear in a round: places, contact lists, radios.

Sources: MADFL II, DADFL III and IV, the thesis 4 and 5 (swept contact, speed-aware weights), DADFL's FedAvg weights;
Gudmundson 1991 for the shadowing, Gilbert 1960 for bursts, Shannon's bound for rates.
"""

import csv
import itertools
import math
from dataclasses import dataclass

import numpy as np

from tests.reference import graphs
from tests.reference.mixing import automatic_ratio, fedavg, lazy, max_degree, metropolis_hastings, speed_aware, uniform

MARGIN = 1e-6  # a place at exactly the radius is within it, also where the radius is a root


@dataclass
class Links:
    """Who hears whom in a round: ``hears[i, j]`` where i hears j, with the weight ``mix[i, j]``."""

    hears: np.ndarray
    mix: np.ndarray
    in_range: np.ndarray = None  # before any are picked; None: all of ``hears``
    active: np.ndarray = None  # who takes part; None: all
    finishes: np.ndarray = None  # whose work ends; None: everybody's
    renewed: dict = None  # client -> the client whose model it takes, itself for the first one
    attackers: np.ndarray = None  # who attacks in the round
    at_server: np.ndarray = None
    last_server: np.ndarray = None
    next_server: np.ndarray = None
    partner: np.ndarray = None
    rate: np.ndarray = None
    in_radius: np.ndarray = None
    outage: np.ndarray = None
    budget: np.ndarray = None

    @property
    def audible(self):
        return self.hears if self.in_range is None else self.in_range

    def among(self, some):
        """Removes all links from and to the others, whose weights go to the receivers' own models."""
        kept = some[:, None] & some
        self.mix = given_back(self.mix, ~kept & ~np.eye(len(some), dtype=bool))
        for name in ("hears", "in_range", "in_radius", "outage"):
            if (links := getattr(self, name)) is not None:
                setattr(self, name, links & kept)
        if self.at_server is not None:
            self.at_server = self.at_server & some
        if self.partner is not None:
            self.partner = np.array([p if some[i] and some[p] else i for i, p in enumerate(self.partner)])
        if self.renewed is not None:  # who hears its teacher no more goes on with its own model
            self.renewed = {i: j for i, j in self.renewed.items() if i == j or (some[i] and some[j])}
        return self


def given_back(mix, removed):
    """The weights where those of some links, [N, N] bool, go to the receivers' own models."""
    lost = np.where(removed, mix, 0.0)
    return mix - lost + np.diag(lost.sum(axis=1))


# Contact.


def place_at(times, points, t):
    """Where a piecewise straight path is at a time; at a jump, after it."""
    for (a, p), (b, q) in itertools.pairwise(zip(times, points)):
        if a <= t < b or (t == b and b > a and t == times[-1]):
            return p + (q - p) * (t - a) / (b - a)
    return points[-1] if t >= times[-1] else points[0]


def pieces(path_i, path_j):
    """The relative motion of two paths: (length, place, velocity) of each piece of time on which both are straight."""
    (times_i, points_i), (times_j, points_j) = path_i, path_j
    begin, end = max(times_i[0], times_j[0]), min(times_i[-1], times_j[-1])
    cuts = sorted({t for t in (*times_i, *times_j) if begin <= t <= end})
    for a, b in itertools.pairwise(cuts):
        if b <= a:
            continue
        inner = a + (b - a) * 0.25, a + (b - a) * 0.75  # away from jumps at the ends
        first, last = (place_at(times_i, points_i, t) - place_at(times_j, points_j, t) for t in inner)
        velocity = (last - first) / (inner[1] - inner[0])
        yield b - a, first - velocity * (inner[0] - a), velocity


def closest(path_i, path_j):
    """The smallest distance of two clients during a movement (thesis 4)."""
    best = math.inf
    for length, place, velocity in pieces(path_i, path_j):
        speed = velocity @ velocity
        nearest = min(max(-(place @ velocity) / speed, 0.0), length) if speed > 0 else 0.0
        best = min(best, np.linalg.norm(place + velocity * nearest))
    return best


def time_within(path_i, path_j, radius):
    """For how long two clients are within a radius of each other, between the roots of |p + v t|^2 = R^2."""
    total = 0.0
    for length, place, velocity in pieces(path_i, path_j):
        speed = velocity @ velocity
        inside = radius**2 * (1 + MARGIN) - place @ place
        if speed == 0:
            total += length if inside >= 0 else 0.0
            continue
        middle = -(place @ velocity) / speed
        root = middle**2 + inside / speed
        if root >= 0:
            total += max(min(middle + math.sqrt(root), length) - max(middle - math.sqrt(root), 0.0), 0.0)
    return total


class World:
    """The clients in space, on a graph or in a contact list: `links` of a round, before any wrapper.

    ``seen`` is what the fast simulator has recorded of a round: places, paths, speeds, who is in the trace, the graph.
    """

    def __init__(self, c, draws, samples, work, load):
        self.c, self.draws, self.n, self.samples, self.load = c, draws, c["network.num_clients"], samples, load
        factor = 1 + c["network.radius_spread"] * draws.radius_factors()
        radius = c["network.radius"]
        self.radius = np.full(self.n, radius) * (factor if math.isfinite(radius) else 1)
        self.known = np.zeros((self.n, self.n), int)  # of bursts: 0 apart, 1 good, 2 bad
        self.lasted = np.zeros((self.n, self.n))
        self.in_time = None if math.isinf(c["cost.deadline"]) else work <= c["cost.deadline"] * (1 + 1e-5)
        self.table = self.contacts() if c["network.world"] == "contacts" and not c["network.graph"] else None
        self.waves = draws.waves(32) if c.get("radio.shadowing", 0) > 0 else None

    def contacts(self):
        """The contact list, {round: [(i, j), ...]}, from its file of rows round,i,j."""
        found = {}
        with open(self.c["trace.file"], newline="") as rows:
            for row in csv.DictReader(rows):
                found.setdefault(int(row["round"]), []).append((int(row["i"]), int(row["j"])))
        return found

    def there(self, seen):
        """Who can be in contact in the coming round: those that the trace shows."""
        return np.ones(self.n, bool) if seen["there"] is None else seen["there"]

    def graph(self, t):
        """Who hears whom on a graph that is not drawn."""
        if self.c["network.graph"] != "file":
            return graphs.links(self.n, self.c["network.graph"], t)
        met = np.zeros((self.n, self.n), bool)
        with open(self.c["graph.file"], newline="") as rows:
            for i, j in csv.reader(rows):
                met[int(i), int(j)] = True
                met[int(j), int(i)] |= not self.c["graph.directed"]
        return met

    def links(self, t, seen):
        """The links of a round: contacts, less those that radio, deadline and durations remove, then the weights."""
        c, n = self.c, self.n
        in_space = not c["network.graph"] and self.table is None
        t = t + (c["network.order"] == "move_first" and in_space)
        squared = None
        if c["network.graph"]:
            met = np.array(seen["graph"]) if seen["graph"] is not None else self.graph(t)
        elif self.table is not None:
            met = np.zeros((n, n), bool)
            last = max(self.table)
            for i, j in self.table.get(t % (last + 1) if c["trace.at_end"] == "repeat" else min(t, last), []):
                met[i, j] = True
                met[j, i] |= not c["trace.directed"]
        else:
            met, squared = self.meet(t, seen)
        links = Links(met, np.eye(n))
        edge = np.minimum(self.radius[:, None], self.radius)
        links, reach = self.radio(t, seen, links, squared, edge)
        if self.in_time is not None:
            links.hears = links.hears & self.in_time[:, None] & self.in_time
        if c["cost.short_contact"] != "ignore":
            self.short_contacts(seen, links, reach)
        contact = links.hears.copy()
        if c["network.link_failure"] > 0 or c["network.link_fading"] > 0:
            fails = np.full((n, n), c["network.link_failure"])
            if squared is not None:
                with np.errstate(divide="ignore", invalid="ignore"):
                    share = np.where(np.isinf(edge), 0.0, squared / edge**2)
                fails = fails + c["network.link_fading"] * np.clip(np.nan_to_num(share), 0, 1)
            links.hears = contact & (self.draws.link_failures(t) >= np.clip(fails, 0, 1))
        if self.table is not None:
            contact = contact | contact.T
        links.mix = self.weights(links.hears, contact, seen.get("speed"))
        return links

    def meet(self, t, seen):
        """(who is in contact, the squared distances), at the beginning of the round or during the last movement."""
        n, swept = self.n, self.c["network.contact"] == "swept"
        met, squared = np.zeros((n, n), bool), np.zeros((n, n))
        for i, j in itertools.permutations(range(n), 2):
            if swept:
                distance = closest(seen["path"][i], seen["path"][j])
            else:
                distance = np.linalg.norm(seen["position"][i] - seen["position"][j])
            squared[i, j] = distance**2
            here = seen["there"] is None or (seen["there"][i] and seen["there"][j])
            within = squared[i, j] <= min(self.radius[i], self.radius[j]) ** 2 * (1 + MARGIN)
            met[i, j] = within and here and (not swept or t > 0)
        return met, squared

    # Radio: SNR = power - loss(d) - shadowing + 10 log10 G - noise.

    def radio(self, t, seen, links, squared, reach):
        """Removes links in outage, and says the rates of the others and how far each pair could be apart."""
        c, n, met = self.c, self.n, links.hears
        if c["radio.name"] == "disc" and not c["radio.sharing"] and not c["radio.burst"]:
            return links, reach
        heard, snr = met.copy(), None
        if c["radio.burst"] > 0:
            begin, end, drawn = c["radio.burst"], c["radio.burst_end"], self.draws.bursts(t)
            bad = drawn < np.array([begin / (begin + end), begin, 1 - end])[self.known]
            self.known = np.where(met, 1 + bad, 0)
            heard &= self.known != 2
        if c["radio.name"] == "log_distance":
            heard, snr, reach = self.signals(t, seen, heard, np.sqrt(squared), reach)
        if c["radio.name"] != "disc" or c["radio.burst"] > 0:
            links.in_radius, links.outage = met.copy(), met & ~heard
        links.hears = heard
        if c["radio.rate"] or c["radio.sharing"]:
            bits = np.full((n, n), c["cost.bandwidth"])
            if c["radio.rate"] == "shannon":
                bits = c["radio.width"] * np.log2(1 + 10 ** ((snr - c["radio.gap"]) / 10))
            if c["radio.sharing"] == "turns":
                contenders = 1 + heard.sum(axis=1)
                bits = bits / np.where(heard | np.eye(n, dtype=bool), contenders, 0).max(axis=1)
            elif c["radio.sharing"] == "interference":
                bits = bits * c["radio.activity"]
            links.rate = np.where(heard, bits, 0.0)
        return links, reach

    def signals(self, t, seen, heard, distance, reach):
        c, n = self.c, self.n
        loss = c["radio.reference_loss"] + 10 * c["radio.exponent"] * np.log10(np.maximum(distance, 1))
        gain = np.zeros((n, n))
        if c["radio.fading"] == "rayleigh":
            gain += 10 * np.log10(np.maximum(-np.log1p(-self.draws.fading(t, 0)), 1e-300))
        elif c["radio.fading"] == "nakagami":
            shape = c["radio.fading_shape"]
            power = sum((-np.log1p(-self.draws.fading(t, k + 2)) for k in range(int(shape))), np.zeros((n, n)))
            if shape > int(shape):
                angle = np.cos(2 * np.pi * self.draws.fading(t, 1))
                power = power - np.log1p(-self.draws.fading(t, 0)) * angle**2
            gain += 10 * np.log10(np.maximum(power, 1e-300) / shape)
        np.fill_diagonal(gain, 0.0)
        if self.waves is not None:
            gain -= c["radio.shadowing"] * self.shadowing(seen["position"])
        level, noise = c["radio.power"] - loss + gain, np.full((n, n), c["radio.noise"])
        if c["radio.sharing"] == "interference":
            others = np.zeros((n, n))
            for i, j in itertools.permutations(range(n), 2):
                others[i, j] = sum(10 ** (level[i, k] / 10) for k in range(n) if k not in (i, j) and heard[i, k])
            noise = 10 * np.log10(10 ** (noise / 10) + c["radio.activity"] * np.maximum(others, others.T))
        above = c["radio.power"] + gain - noise - c["radio.threshold"] - c["radio.reference_loss"]
        far = np.where(above >= 0, 10 ** (above / (10 * c["radio.exponent"])), 0.0)
        arrives = (far > 0) & (distance**2 <= far**2 * (1 + MARGIN))
        return heard & arrives, np.maximum(level - noise, c["radio.threshold"]), np.minimum(reach, far)

    def shadowing(self, position):
        """A sum of sinusoids over both places, both directions added, with variance one."""
        n, (first, second, phases), distance = self.n, self.waves, self.c["radio.shadowing_distance"]
        found = np.zeros((n, n))
        for i, j in itertools.product(range(n), repeat=2):
            p, q = position[i] / distance, position[j] / distance
            total = sum(np.cos(first @ p + second @ q + phases) + np.cos(first @ q + second @ p + phases))
            apart = np.linalg.norm(position[i] - position[j]) / distance
            found[i, j] = total / math.sqrt(len(phases) * (1 + math.exp(-2 * apart)))
        return found

    # Contacts that are too short for the messages of a round (docs/costs.md).

    def short_contacts(self, seen, links, reach):
        c, n, rule = self.c, self.n, self.c["cost.short_contact"]
        messages, bits, least = self.load
        carries, budget = np.zeros((n, n), bool), np.full((n, n), np.inf)
        for i, j in itertools.permutations(range(n), 2):
            lasts = c["motion.dt"] * links.hears[i, j]
            if c["network.contact"] == "swept":
                lasts = lasts * time_within(seen["path"][i], seen["path"][j], reach[i, j])
            rate = c["cost.bandwidth"] if links.rate is None else min(links.rate[i, j], links.rate[j, i])

            def takes(b, rate=rate):
                return c["cost.latency"] * messages + (b / rate if rate > 0 else math.inf)

            need = takes(least if rule == "largest" else bits)
            if not links.hears[i, j]:
                self.lasted[i, j] = self.lasted[i, j] if rule == "next_contact" else 0.0
                continue
            done = lasts
            if links.rate is not None:  # rates change, so shares of the messages are added
                need, done = 1.0, (lasts / need if need > 0 else math.inf)
            if rule in ("resume", "next_contact"):
                self.lasted[i, j] += done
                done = self.lasted[i, j]
            carries[i, j] = done >= need * (1 - 1e-5)
            if carries[i, j]:
                self.lasted[i, j] = 0.0
            if rule == "largest" and lasts < takes(bits) * (1 - 1e-5):
                budget[i, j] = max((lasts - c["cost.latency"] * messages) * rate, 0.0)
        links.hears = carries
        if rule == "largest":
            links.budget = budget

    def weights(self, hears, contact, speed):
        """The mixing matrix; where a link fails, these rules give its weight to the receiver's own model."""
        rule = self.c["network.mixing"]
        if rule == "fedavg":
            return fedavg(hears, self.samples)
        if rule == "uniform":
            return uniform(hears)
        if rule.startswith("speed_aware"):
            auto = rule == "speed_aware_auto"
            ratio = automatic_ratio(hears, speed, self.radius) if auto else np.full(self.n, self.c["network.ratio"])
            return speed_aware(hears, speed, ratio)
        mix = {"metropolis_hastings": metropolis_hastings, "max_degree": max_degree, "lazy": lazy}[rule](contact)
        return given_back(mix, contact & ~hears)
