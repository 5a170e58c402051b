"""Draws configurations: some capabilities, put together at random, on few clients and small problems.

Each slot of `SLOTS` is a part of a study, with its choices by name; a choice says which fields it sets. A configuration
has one choice of some slots. `capabilities` names what a configuration has, for the matrix of pairs.
"""

import csv
import functools
import itertools
import random
import tempfile
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import numpy as np

ALTERNATING = ("dfedalt", "dfedsalt")
PERSONAL = ("ditto", "apfl", *ALTERNATING)
WHOLE = ("dpsgd", "dsgdm_n", "dfedsam", "dfedavgm", "epidemic", "epidemic_oracle", "qg_dsgdm", "qg_dsgdm_n", "nids",
         "d2", "extra", "gradient_tracking", "kgt", "dmgt_svrg", "adpsgd", "push", "push_pull", "swift",
         "aug_dgm", "led", "proxskip", "dlm", "dinno", "gt_sarah", *PERSONAL)  # fmt: skip
COMPRESS = ("choco", "beer", "dcd_psgd", "squarm_sgd", "anq_nids")
RELAYS = ("fedmobile", "fedmobile_u", "fedmobile_d", "fedmobile_local")
SERVER = (*RELAYS, "fedmobile_auto", "async_fl", "virtual_upload", "virtual_download", "virtual_download_once")
OTHERS = ("sgp", "osgp", "pame", "allreduce", "local_only", "server_fedavg")
ALGORITHMS = (*WHOLE, *COMPRESS, *SERVER, *OTHERS)
RULES = ("median", "trimmed_mean", "trimmed_share", "geometric_median", "krum", "multi_krum", "norm_clipping",
         "clipped_gossip", "clipped_gossip_adaptive", "self_centred_clipping", "ubar", "balance", "reputation",
         "nnm_median", "nnm_trimmed_mean", "nnm_geometric_median", "nnm_krum", "trimmed_mean_of_all",
         "fedamp", "dpfl")  # fmt: skip
COMPRESSORS = ("identity", "random_k", "top_k", "sign", "qsgd", "anq", "gaussian_noise")
ATTACKS = ("sign_flip", "scaled", "constant", "zero", "gaussian", "mimic", "replay", "a_little_is_enough",
           "inner_product", "dissensus", "label_flip", "label_flip_pair", "backdoor")  # fmt: skip
GRAPHS = ("ring", "torus", "star", "complete", "barbell", "exponential", "one_peer_exponential", "erdos_renyi",
          "random_regular", "small_world")  # fmt: skip
GRID = ("random_movement", "static", "dam", "dcm", "waypoint", "waiting", "cover_tour")
PLANE = ("random_walk", "random_waypoint", "gauss_markov", "manhattan", "levy_walk")
ON_GRID = {"network.grid_size": 4, "network.max_step": 2.0, "network.num_mobile": 3}


@functools.cache
def folder():
    """The folder of the files that configurations name, of this process."""
    made = Path(tempfile.mkdtemp(prefix="reference_"))
    rng = np.random.default_rng(0)
    labels, tests = np.arange(48) % 3, np.arange(24) % 3
    images = lambda y: np.clip(rng.normal(100 + 40 * y[:, None], 50, (len(y), 9)), 0, 255).astype(np.uint8)  # noqa: E731
    np.savez(made / "small.npz", x_train=images(labels).reshape(-1, 3, 3, 1), y_train=labels,
             x_test=images(tests).reshape(-1, 3, 3, 1), y_test=tests)  # fmt: skip
    return made


@functools.cache
def written(name, clients):
    """The path of a file for so many clients: a graph, contacts, a trace, or who is there."""
    path, rng = folder() / f"{name}{clients}.csv", np.random.default_rng(clients)
    if name == "graph":
        edges = {(i, (i + 1) % clients) for i in range(clients)} | {
            (i, (i + 2) % clients) for i in range(0, clients, 2)
        }
        path.write_text("".join(f"{i},{j}\n" for i, j in sorted(edges)))
        return str(path)
    rows, names = [], []
    if name == "contacts":
        names = ["round", "i", "j"]
        rows = [(t, i, j) for t in range(13) for i in range(clients) for j in range(i) if rng.random() < 0.3]
        rows.append((12, 1, 0))
    elif name == "presence":
        names = ["client", "from", "to"]
        rows = [(i, begin, begin + int(rng.integers(1, 5))) for i in range(clients) for begin in (i % 3, 6 + i % 2)]
    else:
        names = ["id", "time", "x", "y"]
        walk = rng.uniform(0, 200, (clients, 2))
        for t in range(14):
            walk = walk + rng.normal(0, 30, (clients, 2))
            rows += [(i, t, *walk[i].round(2)) for i in range(clients) if t in (0, 13) or rng.random() < 0.8]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([names, *rows])
    return str(path)


@functools.cache
def models_kept(clients, shapes):
    """The path of a file with the models of so many clients, as a study keeps them; ``shapes`` are (leaf, shape)."""
    from mdfl_jax.storage.model_files import Header, write

    path, rng = (
        folder() / f"models{clients}of{len(shapes)}{shapes[0][0][:1]}.safetensors",
        np.random.default_rng(clients),
    )
    tensors = {f"clients/params/{leaf}": rng.normal(0, 0.5, (clients, *s)).astype(np.float32) for leaf, s in shapes}
    write(path, Header("drawn", "drawn", "drawn", 0, 1, 0.5), tensors)
    return str(path)


def grid(rule):
    return {"network.mobility": rule, "network.radius": 1.5, **ON_GRID, "radio.reference_loss": 102.0}


def plane(rule):
    return {"network.mobility": rule, "network.world": "plane", "network.radius": 200.0, "network.num_mobile": 3}


# No sum of these joules is a capacity: at exactly zero, single and double precision would disagree.
COUNTED = {
    "cost.joules_per_sample": 0.01013,
    "cost.joules_per_bit": 0.001,
    "cost.bandwidth": 400.0,
    "cost.latency": 0.1,
}
TIMED = {"cost.seconds_per_sample": 0.4, "cost.speed_spread": 0.5}
SIGNAL = {"radio.name": "log_distance"}
SOFTMAX = {"data.name": "small"}
LORA = {"adapters.rank": 2, "adapters.alpha": 3.0, "model.trainable": "adapters/*"}
PRIVATE = {**SOFTMAX, "privacy.clip": 1.0, "privacy.public": "labels,moments"}
SLOTS = {
    "problem": {
        "logistic": {"data.name": "synthetic:logistic"},
        "softmax": {"data.name": "small", "data.partition": "iid"},
        "skewed": {"data.name": "small", "data.partition": "dirichlet", "data.alpha": 0.1},
    },
    "batch": {"minibatch": {"algorithm.batch_size": 3}},
    "work": {
        "steps": {"algorithm.local_steps": 2},
        "epochs": {"algorithm.local_epochs": 1, "algorithm.batch_size": 3},
        "equal epochs": {"algorithm.local_epochs": 2, "algorithm.batch_size": 3, "algorithm.epoch_steps": "equal"},
    },
    "proximal": {"proximal": {"algorithm.proximal": 0.5, "algorithm.local_steps": 2}},
    "optimizer": {
        "adam": {"algorithm.optimizer": "adam"},
        "momentum": {"algorithm.momentum": 0.5},
    },
    "decay": {"weight decay": {"algorithm.weight_decay": 0.1}},
    "schedule": {
        "cosine": {"algorithm.lr_schedule": "cosine", "algorithm.lr_final": 0.1},
        "exponential": {"algorithm.lr_schedule": "exponential", "algorithm.lr_decay": 0.8},
    },
    "gradient": {"sum": {"algorithm.gradient": "sum", "algorithm.lr": 0.005}},
    "leaves": {
        "shared": {**SOFTMAX, "model.shared": "*/kernel"},
        "trainable": {**SOFTMAX, "model.trainable": "*/kernel"},
        "lora": {**SOFTMAX, **LORA},
        "lora, shared A": {**SOFTMAX, **LORA, "model.shared": "*/a"},
        "lora, frozen A": {**SOFTMAX, **LORA, "model.trainable": "adapters/*/b"},
    },
    "start": {"kept": {"model.pretrained": "kept"}},
    "personal": {"evaluate after": {"personal.evaluate_after": 2, "personal.evaluate_lr": 0.05}},
    "privacy": {
        "clipped": {**PRIVATE},
        "noisy": {**PRIVATE, "privacy.noise": 0.3},
    },
    "samples": {
        "relays": {**SOFTMAX, "network.relays": 1, "network.num_mobile": 2},
        "collect": {**SOFTMAX, "data.collect": 2, "data.regions": 2, "data.window": 3, "algorithm.batch_size": 3},
        "drift": {**SOFTMAX, "data.collect": 3, "data.regions": 2, "data.window": 2, "data.drift": "places",
                  "data.drift_every": 2},
    },
    "world": {
        **{name: {"network.graph": name} for name in GRAPHS},
        "graph file": {"network.graph": "file", "graph.file": "graph"},
        "directed": {"network.graph": "file", "graph.file": "graph", "graph.directed": True},
        **{name: grid(name) for name in GRID},
        **{name: plane(name) for name in PLANE},
        "contacts": {"network.mobility": "contacts", "trace.file": "contacts"},
        "trace": {"network.mobility": "trace", "trace.file": "trace", "network.radius": 120.0},
        "trace with gaps": {"network.mobility": "trace", "trace.file": "trace", "network.radius": 120.0,
                            "trace.gaps": "absent", "trace.max_gap": 1.5},
    },
    "contact": {"swept": {"network.contact": "swept"}},
    "order": {"move first": {"network.order": "move_first"}},
    "radii": {"radius spread": {"network.radius_spread": 0.4}},
    "failure": {
        "link failure": {"network.link_failure": 0.3},
        "link fading": {"network.link_fading": 0.5},
    },
    "mixing": {name: {"network.mixing": name} for name in
               ("fedavg", "lazy", "max_degree", "speed_aware", "speed_aware_auto", "uniform")},
    "server": {
        "fixed": {"server.pattern": "fixed", "server.interval": 3, "server.pairs": 0.9},
        "random": {"server.pattern": "random", "server.gap_min": 2, "server.gap_max": 3, "server.pairs": 0.9},
        "exponential": {"server.pattern": "exponential", "server.mean_gap": 3.0, "server.gap_limit": 6,
                        "server.known_next": False},
        "roadside": {"server.pattern": "roadside", "server.units": "near"},
        "roadside, all in range": {"server.pattern": "roadside", "server.units": "near", "server.one_at_a_time": False},
    },
    "radio": {
        "log distance": SIGNAL,
        "rayleigh": {**SIGNAL, "radio.fading": "rayleigh"},
        "nakagami": {**SIGNAL, "radio.fading": "nakagami", "radio.fading_shape": 1.5},
        "shadowing": {**SIGNAL, "radio.shadowing": 6.0},
        "shannon": {**SIGNAL, "radio.rate": "shannon", "radio.width": 200.0},
    },
    "channel": {
        "turns": {"radio.sharing": "turns", "cost.bandwidth": 400.0},
        "interference": {**SIGNAL, "radio.sharing": "interference", "radio.activity": 0.2, "radio.rate": "shannon",
                         "radio.width": 200.0},
        "bursts": {"radio.burst": 0.3, "radio.burst_end": 0.5},
    },
    "picks": {
        "participation": {"algorithm.participation": 0.5},
        "one way": {"algorithm.participation": 0.5, "algorithm.picks": "one_way"},
        "period": {"algorithm.period_min": 2, "algorithm.period_max": 2},
    },
    "presence": {
        "markov": {"presence.name": "markov", "presence.leave": 0.4, "presence.come": 0.6},
        "poisson": {"presence.name": "poisson", "presence.at_start": 3, "presence.arrivals": 0.8, "presence.stay": 4.0},
        "cyclic": {"presence.name": "cyclic", "presence.hours": 10.0, "motion.dt": 7200.0},
        "table": {"presence.name": "table", "presence.file": "presence"},
        "of the trace": {"presence.name": "trace"},
    },
    "newcomers": {
        "initial": {"presence.newcomers": "initial"},
        "neighbour": {"presence.newcomers": "neighbour"},
    },
    "absent": {"train": {"presence.absent": "train"}},
    "clock": {
        "at once": {"clock.joins": "at_once", **TIMED},
        "in contact": {"clock.joins": "in_contact", **TIMED},
    },
    "energy": {
        "battery": {"energy.capacity": 1.5, "energy.spread": 0.3, "energy.harvest": 0.2,
                    "cost.joules_per_sample": 0.1013},
        "chargers": {"energy.capacity": 1.5, "energy.chargers": "near", "energy.charge": 0.6,
                     "cost.joules_per_sample": 0.1013},
    },
    "deadline": {"deadline": {"cost.deadline": 1.0, "cost.seconds_per_sample": 0.1, "cost.speed_spread": 0.7}},
    "short contact": {name: {"cost.short_contact": name, **COUNTED} for name in
                      ("drop", "resume", "next_contact", "largest")},
    "cost": {
        "counted": {**COUNTED, "cost.joules_per_metre": 0.1, "cost.seconds_per_sample": 0.01},
        "received bits": {"cost.joules_per_bit_received": 0.001, "cost.speed_ratio": 2.0,
                          "cost.seconds_per_sample": 0.05},
    },
    "attack": {name: {"attack.name": name, "attack.number": 2} for name in ATTACKS},
    "attackers": {
        "mobile": {"attack.who": "mobile", "attack.number": 1},
        "outermost": {"attack.who": "outermost"},
        "listed": {"attack.who": "listed", "attack.clients": "0,3"},
        "later": {"attack.from_round": 2, "attack.memory": 1},
    },
    "algorithm": {name: {"algorithm.name": name} for name in ALGORITHMS},
    "compressor": {name: {"algorithm.compressor": name} for name in COMPRESSORS},
    "aggregation": {name: {"algorithm.aggregation": name} for name in RULES},
    "links": {"lists": {"engine.links": "lists"}},
    "devices": {"two devices": {"engine.client_devices": 2}},
}  # fmt: skip
OWN = {  # numbers that make a member act within a few rounds
    "balance": {"algorithm.closeness": 1.5},
    "clipped_gossip": {"algorithm.clip_radius": 0.2},
    "norm_clipping": {"algorithm.max_norm": 1.05},
    "dpfl": {"algorithm.most_models": 3},
    "reputation": {"algorithm.first_trust": 0.4, "algorithm.trust_rate": 0.5},
    "epidemic": {"algorithm.num_peers": 2},
    "epidemic_oracle": {"algorithm.num_peers": 2},
    "pame": {"algorithm.period_min": 1, "algorithm.period_max": 3, "algorithm.participation": 0.5, "algorithm.lr": 0.1},
    "squarm_sgd": {"algorithm.trigger": 20.0},
    "gt_sarah": {"algorithm.whole_every": 3},
    "dmgt_svrg": {"algorithm.anchor_probability": 0.4},
    "virtual_download_once": {"algorithm.download_after": 1},
    "anq_nids": {"algorithm.eta_decay": 0.9},
    "osgp": {"algorithm.least_weight": 0.4},
    "ditto": {"algorithm.personal_proximal": 0.5},
    "apfl": {"algorithm.alpha": 0.4, "algorithm.alpha_lr": 0.3},
    "dfedalt": {"algorithm.personal_steps": 2},
    "dfedsalt": {"algorithm.personal_steps": 2, "algorithm.rho": 0.05},
    **{name: {} for name in RELAYS},
}
INTERVALS = {"algorithm.upload_from": 0, "algorithm.upload_until": 6, "algorithm.download_from": 0,
             "algorithm.download_until": 6}  # fmt: skip
BASE = {
    "seeds": 3, "data.name": "synthetic:linear", "data.shift": 1.0, "network.graph": "",
    "algorithm.lr": 0.05, "engine.client_devices": 1, "engine.links": "dense", "model.name": "linear",
}  # fmt: skip
SYNTHETIC = {"data.dimension": 5, "data.samples_per_client": 6, "data.truth_share": 1.0}
ORDER = {slot: place for place, slot in enumerate(SLOTS)}
PAIRS = [(slot, choice) for slot, choices in SLOTS.items() for choice in choices]
ASYNCHRONOUS = ("adpsgd", "push", "push_pull", "osgp", "swift")
FIXED = ("d2", "extra", "dlm", *COMPRESS)
JUDGING, AWAY, CLOCKS = ("reputation", "ubar", "dpfl"), ("markov", "table"), ("at once", "in contact")
TOGETHER = (  # what reads or holds the state of others, where most faults were: most draws have one of these, in turn
    {"problem": ("softmax", "skewed"), "algorithm": ("adpsgd", "push", "push_pull"), "aggregation": ("reputation",),
     "clock": CLOCKS, "attack": ("sign_flip", "scaled", "constant")},
    {"aggregation": JUDGING, "work": ("epochs", "equal epochs"), "leaves": ("shared",)},
    {"algorithm": ASYNCHRONOUS, "presence": (*AWAY, "poisson"), "clock": CLOCKS},
    {"aggregation": JUDGING, "presence": AWAY, "leaves": ("shared",)},
    {"start": ("kept",), "presence": AWAY, "newcomers": ("initial",)},
    {"privacy": ("noisy",), "presence": AWAY, "cost": ("counted",)},
)  # fmt: skip
REFUSED = 300  # refused pairs that are tried beside a draw
ENOUGH = 20  # cases of a pair: runs of a drawn configuration
FEW = {"torus": (9, 12), "random_regular": (6, 12), "small_world": (6, 9, 12), "erdos_renyi": (6, 9)}


def completed(rng, choices):
    """Choices, with those that some of them cannot be without."""
    one = lambda slot, names=None: choices.setdefault(slot, rng.choice(list(names or SLOTS[slot])))  # noqa: E731
    if "newcomers" in choices or "absent" in choices:
        one("presence", [name for name in SLOTS["presence"] if name != "of the trace"])
    if "attackers" in choices:
        one("attack")
    if "compressor" in choices:
        one("algorithm", (*COMPRESS, *RELAYS))
    if choices.get("algorithm") in ASYNCHRONOUS:
        one("clock")  # without clocks all clients compute as long, as in rounds
    if choices.get("algorithm") in ALTERNATING:
        one("leaves", ("shared",))
    if choices.get("algorithm") in SERVER:
        one("server")
    elif choices.get("algorithm") in FIXED:
        one("world", ("ring", "complete", "random_regular", "graph file", "static"))
    if choices.get("attack") in ("label_flip", "label_flip_pair", "backdoor"):
        one("problem", ("softmax", "skewed"))
    if choices.get("presence") == "of the trace":
        one("world", ("trace with gaps",))
    return choices


def fitting(rng, choices, clients, refuses):
    """Choices with those that some cannot be without, and whether all of 24 ways to choose these are refused."""
    for _ in range(24):
        more = completed(rng, dict(choices))
        if not refuses(configured(more, clients, 4, 1)):
            return more, False
    return more, True


def configured(choices, clients, rounds, every):
    """The changes of the default configuration for choices by slot."""
    found = dict(BASE) | (grid("random_movement") if "world" not in choices else {})
    for slot in SLOTS:  # in the order of the table, so that later slots win
        if slot in choices:
            found |= SLOTS[slot][choices[slot]]
            found |= OWN.get(choices[slot], {}) if slot in ("algorithm", "aggregation") else {}
    if choices.get("samples") == "relays" and not found["network.graph"]:
        found["network.num_mobile"] = 2
    if choices.get("algorithm") in RELAYS:
        found |= INTERVALS
    if found["data.name"].startswith("synthetic"):
        found |= SYNTHETIC
    else:
        found["data.dir"] = str(folder())
        found.pop("data.shift")
    if "radio.rate" in found:
        found.pop("cost.bandwidth", None)
    if not found["network.graph"] and "network.grid_size" not in found:
        found.pop("motion.dt", None)  # in the plane a round of hours meets walls by the thousand
    slow = found.get("motion.dt", 1.0)
    for path, factor in (("cost.seconds_per_sample", slow), ("cost.bandwidth", 1 / slow), ("cost.latency", slow)):
        if path in found:
            found[path] *= factor
    for path in ("graph.file", "trace.file", "presence.file"):
        if path in found:
            found[path] = written(found[path], clients)
    if "model.pretrained" in found:
        layer = (("Dense_0/bias", (3,)), ("Dense_0/kernel", (9, 3)))
        if "adapters.rank" in found:
            layer = (("adapters/Dense_0/kernel/a", (9, 2)), ("adapters/Dense_0/kernel/b", (2, 3)))
        layer = tuple(one for one in layer if fnmatchcase(one[0], found.get("model.trainable", "*")))
        shapes = layer if found["data.name"] == "small" else (("w", (SYNTHETIC["data.dimension"],)),)
        found["model.pretrained"] = models_kept(clients, shapes)
        one = clients % 2 or choices.get("algorithm") in (*SERVER, "server_fedavg")  # a server has one model
        found["model.pretrained_clients"] = "mean" if one else "own"
    on_grid = "network.grid_size" in found
    for path in ("server.units", "energy.chargers"):
        if path in found:
            found[path] = "2,2;4,3" if on_grid else "120,120;300,250"
            found[{"server.units": "server.unit_range", "energy.chargers": "energy.charger_range"}[path]] = (
                1.2 if on_grid else 150.0
            )
    if "radio.shadowing" in found and not on_grid:
        found["radio.shadowing_distance"] = 200.0  # single precision knows phases of a thousand waves to 1e-4 only
    if not ("radio.name" in found and on_grid):
        found.pop("radio.reference_loss", None)
    return found | {"network.num_clients": clients, "rounds": rounds, "eval_every": every}


def fixed(case, clients=6, rounds=6):
    """The changes for a case that is not drawn: choices by slot, and by path what is set besides."""
    choices = {slot: choice for slot, choice in case.items() if slot in SLOTS}
    return configured(choices, clients, rounds, 1) | {path: value for path, value in case.items() if path not in SLOTS}


class Drawn(NamedTuple):
    """What is drawn: choices by slot, sizes, and other choices of some slots, which share the compiled program."""

    choices: dict
    clients: int
    rounds: int
    every: int
    others: dict
    seeds: int = 3

    def points(self):
        """The choices of each sweep point."""
        slots = list(self.others)
        for each in itertools.product(*self.others.values()):
            yield {**self.choices, **dict(zip(slots, each))}

    def changes(self):
        """The changes of the default configuration, with a sweep over the other choices."""
        found = configured(self.choices, self.clients, self.rounds, self.every)
        fields = {"attack": "attack.name", "world": "network.mobility"}
        found["seeds"] = self.seeds
        found["sweep"] = "; ".join(f"{fields[slot]}={','.join(names)}" for slot, names in self.others.items())
        return found


def of_refused(rng, pairs, refuses):
    """The smallest configurations of the pairs that the table says are refused."""
    for both in pairs:
        one = Drawn(completed(rng, dict(both)), 6, 4, 1, {})
        if refuses(configured(*one[:4])):
            yield one


def drawn(rng, wanted, seen, refuses, grows=False, together=None):
    """Draws choices, with those of ``wanted`` among them, and many others that few draws have seen beside them.

    Args:
      rng: random numbers.
      wanted: some (slot, choice).
      seen: how often pairs of these were judged.
      refuses: whether fields are refused. Choices that are refused with the others are not added; a few draws add any,
        since what is refused is judged too.
      grows: whether the matrix grows: then more seeds are drawn, and nothing but what it misses.
      together: choices by slot, one of which each comes first, then what is wanted, if it fits them, and few others,
        so that nothing else hides what these do.
    """
    clients, rounds = rng.choice((6, 9, 5, 12)), rng.randint(3, 6) + 2 * bool(together)  # works of clocks take some
    any_choice, size = rng.random() < 0.15 and not grows, rng.randint(8, 14)
    choices, _ = fitting(rng, dict(wanted), clients, refuses)
    slots = set(SLOTS if grows else rng.sample(list(SLOTS), 2 * len(SLOTS) // 3))
    if together:
        met = completed(rng, {slot: rng.choice(names) for slot, names in together.items()})
        more = completed(rng, dict(wanted) | met)
        choices = met if refuses(configured(more, clients, rounds, 1)) else more
        any_choice, size = False, len(choices) + rng.randint(0, 3)
    if rng.random() < 0.8:
        slots.add("algorithm")

    def missing(one):
        """How many cases are missing of the pairs that a choice makes with the others."""
        return sum(max(ENOUGH - seen.get(pair(one, had), 0), 0) for had in choices.items())

    if grows:
        rare = [both for both in itertools.combinations(PAIRS, 2) if both[0][0] != both[1][0] and seen[both] < ENOUGH]
        for both in sorted(rng.sample(rare, len(rare)), key=seen.__getitem__):
            more = completed(rng, choices | dict(both))
            fits = all(more[slot] == name for slot, name in choices.items()) and len(more) <= size
            if fits and not refuses(configured(more, clients, rounds, 1)):
                choices = more
    left = [] if grows else [one for one in rng.sample(PAIRS, len(PAIRS)) if one[0] in slots]
    while len(choices) < size and (left := [(slot, name) for slot, name in left if slot not in choices]):
        left.sort(key=missing)
        slot, name = left.pop()
        more = completed(rng, choices | {slot: name})
        if any_choice or not refuses(configured(more, clients, rounds, 1)):
            choices = more
    clients = clients if clients in FEW.get(choices.get("world"), (clients,)) else FEW[choices["world"]][0]
    # Where clients move, the slow simulator must see them after every round.
    every = rng.choice([1, 2]) if choices.get("world") in GRAPHS else 1
    others = {}
    for slot, alike in (("attack", ATTACKS), ("world", GRID), ("world", PLANE)):
        if choices.get(slot) in alike and choices.get("algorithm") not in FIXED:
            more = [
                name
                for name in rng.sample(alike, len(alike) if grows else 4)
                if any_choice or not refuses(configured(choices | {slot: name}, clients, every * rounds, every))
                if not grows or missing((slot, name))
            ]
            others[slot] = list(dict.fromkeys([choices[slot], *more]))[:3]
    return Drawn(choices, clients, every * rounds, every, others, 20 if grows else 3)


def pair(a, b):
    """Two (slot, choice) in the order of the slots."""
    return (a, b) if ORDER[a[0]] <= ORDER[b[0]] else (b, a)


def is_refused(one, other, refuses):
    """Whether a pair is refused by itself, with whatever its two choices cannot be without."""
    rng = random.Random(0)
    return all(fitting(rng, dict([one, other]), clients, refuses)[1] for clients in (6, 9, 12))


def smaller(one):
    """What is drawn without its other choices, or without one choice."""
    for slot in one.others:
        for choice in one.others[slot]:
            yield one._replace(
                choices=one.choices | {slot: choice}, others={k: v for k, v in one.others.items() if k != slot}
            )
    for slot in one.choices:
        if slot not in one.others:
            every = 1 if slot == "world" else one.every  # without a graph clients move
            choices = {other: choice for other, choice in one.choices.items() if other != slot}
            yield one._replace(choices=choices, every=every)


def capabilities(choices):
    """The names of what a configuration has, for the matrix: choices of their slots, and the algorithm."""
    return sorted({f"{slot}: {choice}" for slot, choice in {"algorithm": "dpsgd", **choices}.items()})
