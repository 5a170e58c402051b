"""The pairs of capabilities that mdfl_jax refuses, each with its reason: no other pair may be refused, and all of these are.

A row says of a configuration (values by path; what is missing has its default) whether the pair is in it.
"""

from collections.abc import Callable
from typing import NamedTuple

from tests.reference.aggregation import JUDGES
from tests.reference.configurations import ALTERNATING, COMPRESS, FIXED, PERSONAL, RELAYS, SERVER, WHOLE

SYMMETRIC = (*FIXED, "nids", "gradient_tracking", "kgt", "dmgt_svrg", "swift", "aug_dgm", "led", "proxskip", "dinno",
             "gt_sarah")  # fmt: skip
RECURSIONS = ("nids", "d2", "extra", "gradient_tracking", "kgt", "dmgt_svrg", "aug_dgm", "led", "proxskip", "dlm",
              "dinno", "gt_sarah")  # fmt: skip
ONE_STEP = ("nids", "d2", "extra", "gradient_tracking", "dmgt_svrg", "aug_dgm", "proxskip", "dlm", "gt_sarah", "choco",
            "beer", "dcd_psgd", "anq_nids", "qg_dsgdm", "qg_dsgdm_n", "pame")  # fmt: skip
KEEPS_SUMS = (*RECURSIONS, "beer", "anq_nids", "sgp", "osgp")
LEAST = {"trimmed_mean": 4, "trimmed_mean_of_all": 3, "krum": 5, "multi_krum": 5, "nnm_median": 3, "nnm_trimmed_mean": 4,
         "nnm_geometric_median": 3, "nnm_krum": 5, "clipped_gossip_adaptive": 3, "self_centred_clipping": 3}  # fmt: skip
MOST_HEARD = {"ring": 2, "torus": 4, "one_peer_exponential": 1}


class Refusal(NamedTuple):
    """A refused pair: the names of its two sides, whether a configuration has it, and why it is refused."""

    one: str
    other: str
    holds: Callable
    why: str


def value(c, path, default=""):
    return c.get(path, default)


def algorithm(c):
    return value(c, "algorithm.name", "dpsgd")


def server(c):
    return value(c, "server.pattern")


def drawn_pairs(c):
    return server(c) not in ("", "roadside")


def graph(c):
    return value(c, "network.graph")


def listed(c):
    return not graph(c) and value(c, "network.mobility") == "contacts"


def attack(c):
    return value(c, "attack.name")


def most_heard(c):
    """The neighbours that a client of a graph can have; in a barbell, one of the larger half hears the other half too."""
    if graph(c) == "barbell":
        return -(-c["network.num_clients"] // 2)
    if graph(c) == "exponential":  # at the distances of the powers of two
        return (c["network.num_clients"] - 1).bit_length()
    return 2 if value(c, "graph.directed", False) else MOST_HEARD.get(graph(c), 99)


def rule(c):
    return value(c, "algorithm.aggregation", "mean")


def private(c):
    return "privacy.clip" in c


def partial(c):
    """Whether neighbours are picked, or rounds left out, for the algorithm."""
    period = (value(c, "algorithm.period_min", 1) + value(c, "algorithm.period_max", 1)) // 2
    return algorithm(c) != "pame" and (value(c, "algorithm.participation", 1) < 1 or period > 1)


def fails(c):
    return value(c, "network.link_failure", 0) > 0 or value(c, "network.link_fading", 0) > 0


def is_asynchronous(c):
    return algorithm(c) in ("adpsgd", "push", "push_pull", "osgp", "swift")


def gives_symmetric(c):
    """Whether the mixing matrix is symmetric and doubly stochastic in every round."""
    if drawn_pairs(c) or (server(c) == "roadside" and value(c, "server.one_at_a_time", True)):
        return True
    directed = graph(c) in ("exponential", "one_peer_exponential") or value(c, "graph.directed", False) or listed(c)
    regular = graph(c) in ("ring", "torus", "complete", "random_regular")
    filtered = "cost.deadline" in c or "radio.burst" in c or "radio.sharing" in c
    mixing = value(c, "network.mixing", "metropolis_hastings")
    symmetric = mixing in ("metropolis_hastings", "lazy", "max_degree") or (
        mixing == "uniform" and regular and not filtered
    )
    one_way = partial(c) and value(c, "algorithm.picks") == "one_way"
    return symmetric and not directed and not fails(c) and not one_way


def gives_fixed(c):
    """Whether the links are the same in every round in which there are any."""
    if (
        (server(c) and value(c, "server.one_at_a_time", True))
        or fails(c)
        or value(c, "presence.name")
        or "energy.capacity" in c
    ):
        return False
    if value(c, "clock.joins") and not is_asynchronous(c):
        return False
    if "radio.burst" in c or value(c, "radio.fading") or value(c, "cost.short_contact"):
        return False
    if graph(c):
        return graph(c) != "one_peer_exponential"
    still = value(c, "network.mobility") == "static"
    return (
        still
        and value(c, "network.contact") != "swept"
        and not (partial(c) and value(c, "algorithm.picks") == "one_way")
    )


def lacks_places(c):
    return bool(graph(c)) or drawn_pairs(c)


TABLE = [
    Refusal("a compressor", "algorithms that compress nothing",
            lambda c: (value(c, "algorithm.compressor") and algorithm(c) not in (*COMPRESS, *RELAYS, "fedmobile_auto"))
            or (value(c, "algorithm.compressor") and algorithm(c) == "fedmobile_d"), "nothing would be compressed"),
    Refusal("a rule of aggregation", "algorithms that mix no whole models",
            lambda c: rule(c) != "mean" and algorithm(c) not in WHOLE, "nothing would be combined by it"),
    Refusal("rules that do not keep the mean", "algorithms whose sums must be kept",
            lambda c: rule(c) not in ("mean", "clipped_gossip") and algorithm(c) in RECURSIONS,
            "the recursions lose their sums"),
    Refusal("newcomers that begin anew", "algorithms whose sums must be kept",
            lambda c: value(c, "presence.name") and value(c, "presence.newcomers", "kept") != "kept"
            and algorithm(c) in KEEPS_SUMS, "what a client forgets, the others have added"),
    Refusal("periods", "clocks", lambda c: value(c, "clock.joins") and value(c, "algorithm.period_max", 1) > 1
            and algorithm(c) != "pame", "turns of slots need not coincide with works, which PaME counts"),
    Refusal("local steps or epochs", "recursions of one step a round",
            lambda c: (value(c, "algorithm.local_steps", 1) > 1 or value(c, "algorithm.local_epochs", 0))
            and algorithm(c) in ONE_STEP, "the step is in the recursion"),
    Refusal("local steps", "epochs", lambda c: value(c, "algorithm.local_epochs", 0) and
            value(c, "algorithm.local_steps", 1) > 1, "epochs say how many steps there are"),
    Refusal("a proximal term", "recursions of one step a round",
            lambda c: value(c, "algorithm.proximal", 0) and algorithm(c) in ONE_STEP, "there is one step"),
    Refusal("a cosine schedule", "epochs", lambda c: value(c, "algorithm.local_epochs", 0) and
            value(c, "algorithm.lr_schedule") == "cosine", "the number of steps is not known"),
    Refusal("an optimiser", "recursions with a step of their own",
            lambda c: value(c, "algorithm.optimizer", "sgd") != "sgd" and algorithm(c) in
            {*ONE_STEP, "dfedavgm", "kgt", "led", "squarm_sgd", "dsgdm_n"} - {"pame"}, "the step is in the recursion"),
    Refusal("momentum", "recursions with a step of their own", lambda c: value(c, "algorithm.momentum", 0) and algorithm(c)
            in {*ONE_STEP, "kgt", "led"} - {"pame", "qg_dsgdm", "qg_dsgdm_n"}, "the step is in the recursion"),
    Refusal("personal leaves", "algorithms that exchange whole models",
            lambda c: value(c, "model.shared") and algorithm(c) in
            {*ONE_STEP, "kgt", "led", "dinno", "dfedavgm", "squarm_sgd", "server_fedavg", *SERVER} - {"pame"},
            "they know no parts"),
    Refusal("parts of models", "regressions that draw their data",
            lambda c: (value(c, "model.shared") or value(c, "model.trainable")) and c["data.name"] != "small", "one leaf"),
    Refusal("steps on personal leaves", "models that are shared whole", lambda c: algorithm(c) in ALTERNATING and not
            value(c, "model.shared"), "no leaf is personal"),
    Refusal("steps on personal leaves", "a cosine schedule of other steps", lambda c: algorithm(c) in ALTERNATING and
            value(c, "algorithm.lr_schedule") == "cosine" and not value(c, "algorithm.local_epochs", 0) and
            value(c, "algorithm.personal_steps", 1) != value(c, "algorithm.local_steps", 1), "one of them ends early"),
    Refusal("private gradients", "steps before an evaluation", lambda c: private(c) and
            value(c, "personal.evaluate_after", 0), "the account knows only those of rounds"),
    Refusal("private gradients", "algorithms whose releases are not counted", lambda c: private(c) and algorithm(c) not in
            ("dpsgd", "pame", "local_only", "allreduce", "sgp", "dfedavgm", "gradient_tracking", "choco", "beer", "dsgdm_n",
             "qg_dsgdm", "qg_dsgdm_n", "epidemic", "nids", "d2", "extra", "kgt", "dcd_psgd", "anq_nids", "aug_dgm", "led",
             "proxskip", "dlm", "dinno"), "they tell more"),
    Refusal("private gradients", "epochs", lambda c: private(c) and value(c, "algorithm.local_epochs", 0),
            "minibatches are drawn by chance"),
    Refusal("private gradients", "rules that judge by losses", lambda c: private(c) and rule(c) in JUDGES,
            "losses have no noise"),
    Refusal("private gradients", "regressions that draw their data", lambda c: private(c) and c["data.name"] != "small",
            "the seed draws the samples"),
    Refusal("private gradients", "collecting", lambda c: private(c) and value(c, "data.collect", 0), "samples are shared"),
    Refusal("private gradients", "models of an earlier study", lambda c: private(c) and value(c, "model.pretrained"),
            "they tell of samples"),
    Refusal("private gradients", "contacts that end within messages", lambda c: private(c) and
            value(c, "cost.short_contact", "ignore") not in ("ignore", "largest"), "nobody knows what has arrived"),
    Refusal("private gradients", "attackers that pass on what is not sent", lambda c: private(c) and attack(c) in
            ("mimic", "replay", "backdoor"), "the account does not know of it"),
    Refusal("relays", "clients without places", lambda c: value(c, "network.relays", 0) and
            (lacks_places(c) or value(c, "network.mobility") in ("contacts", "trace", "random_walk")), "they stand somewhere"),
    Refusal("relays", "regressions that draw their data",
            lambda c: value(c, "network.relays", 0) and c["data.name"] != "small", "each client draws samples"),
    Refusal("relays", "FedAvg's weights", lambda c: value(c, "network.relays", 0) and
            value(c, "network.mixing") == "fedavg", "they hold no samples"),
    Refusal("collecting", "clients without places in a known area", lambda c: value(c, "data.collect", 0) and
            c["data.name"] == "small" and (lacks_places(c) or value(c, "network.mobility") in ("contacts", "trace")), "regions"),
    Refusal("collecting", "movement before the first round", lambda c: value(c, "data.collect", 0) and
            c["data.name"] == "small" and value(c, "network.order") == "move_first", "clients collect before they move"),
    Refusal("collecting", "costs of full batches or epochs", lambda c: value(c, "data.collect", 0) and
            c["data.name"] == "small" and counts(c) and
            (not value(c, "algorithm.batch_size", 0) or value(c, "algorithm.local_epochs", 0)), "the work would change"),
    Refusal("fixed links", "a network that changes",
            lambda c: algorithm(c) in FIXED and not gives_fixed(c), "receivers remember what was sent"),
    Refusal("symmetric weights", "weights that are not",
            lambda c: algorithm(c) in SYMMETRIC and not gives_symmetric(c), "the paper assumes them"),
    Refusal("meetings with a server", "a network without a server",
            lambda c: algorithm(c) in SERVER and not server(c), "nobody meets a server"),
    Refusal("a server", "a graph or a contact list", lambda c: server(c) and
            (graph(c) or (server(c) == "roadside" and listed(c))), "its clients are at no places"),
    Refusal("a trace or a contact list", "drawn pairs", lambda c: drawn_pairs(c) and "trace.file" in c, "nothing reads it"),
    Refusal("failing links", "drawn pairs", lambda c: drawn_pairs(c) and fails(c), "pairs are drawn"),
    Refusal("links that fade with the distance", "no distances", lambda c: value(c, "network.link_fading", 0) > 0 and
            (graph(c) or listed(c)), "distances are not known"),
    Refusal("speed-aware weights", "no speeds", lambda c: value(c, "network.mixing").startswith("speed_aware") and
            (graph(c) or listed(c)), "speeds are not known"),
    Refusal("movement before the first round", "clients without places", lambda c: value(c, "network.order") == "move_first"
            and (lacks_places(c) or listed(c)), "nobody moves"),
    Refusal("radios", "no distances", lambda c: value(c, "radio.name", "disc") != "disc" and (graph(c) or listed(c) or server(c)),
            "distances are not known, or a server is met"),
    Refusal("a shared channel or bursts", "a server", lambda c: server(c) and ("radio.sharing" in c or "radio.burst" in c),
            "meetings are not by radio"),
    Refusal("fading or rates", "the plain disc", lambda c: value(c, "radio.name", "disc") == "disc" and
            ("radio.fading" in c or "radio.rate" in c), "a disc knows no signal"),
    Refusal("presence", "a server", lambda c: value(c, "presence.name") and server(c), "who is away misses meetings"),
    Refusal("presence of a trace", "a network that follows none", lambda c: value(c, "presence.name") == "trace" and
            (graph(c) or value(c, "network.mobility") != "trace"), "nobody is ever away"),
    Refusal("batteries", "a server", lambda c: "energy.capacity" in c and server(c), "who is empty misses meetings"),
    Refusal("chargers", "clients without places", lambda c: "energy.chargers" in c and (graph(c) or listed(c)), "no places"),
    Refusal("batteries", "joules of a movement by a trace", lambda c: "energy.capacity" in c and
            value(c, "network.mobility") == "trace" and value(c, "cost.joules_per_metre", 0) > 0, "it moves empty clients"),
    Refusal("clocks", "a server", lambda c: value(c, "clock.joins") and server(c), "who computes misses meetings"),
    Refusal("clocks", "a deadline", lambda c: value(c, "clock.joins") and "cost.deadline" in c, "nobody waits"),
    Refusal("clocks", "work that takes no time", lambda c: value(c, "clock.joins") and
            not value(c, "cost.seconds_per_sample", 0), "nobody computes"),
    Refusal("a deadline", "a server", lambda c: "cost.deadline" in c and server(c), "meetings have no deadline"),
    Refusal("contacts that are too short", "durations that nobody knows", lambda c: value(c, "cost.short_contact") and
            (graph(c) or listed(c) or server(c)), "durations are not known"),
    Refusal("messages that wait for the next contact", "neighbour lists", lambda c: value(c, "engine.links") == "lists" and
            value(c, "cost.short_contact") == "next_contact", "all pairs are remembered"),
    Refusal("messages in parts", "what needs whole models", lambda c: value(c, "cost.short_contact") == "largest" and
            (algorithm(c) not in ("dpsgd", "dsgdm_n", "dfedavgm", "dfedsam", "epidemic", "epidemic_oracle", *PERSONAL)
             or rule(c) != "mean" or attack(c) or (value(c, "presence.name") and
                                                   value(c, "presence.newcomers") == "neighbour")), "whole models"),
    Refusal("received bits", "a server", lambda c: value(c, "cost.joules_per_bit_received", 0) > 0 and
            (server(c) or algorithm(c) == "server_fedavg"), "bits are not counted by receiver"),
    Refusal("picked neighbours", "a server", lambda c: server(c) and partial(c), "clients talk in pairs"),
    Refusal("picked neighbours", "weights of other rules", lambda c: partial(c) and
            value(c, "algorithm.participation", 1) < 1 and
            value(c, "network.mixing", "metropolis_hastings") != "metropolis_hastings", "picked links have their own"),
    Refusal("attacks", "algorithms that send nothing", lambda c: attack(c) and algorithm(c) == "local_only", "no messages"),
    Refusal("lies to each client", "algorithms that mix no whole models", lambda c: attack(c) in
            ("a_little_is_enough", "inner_product", "dissensus") and algorithm(c) not in WHOLE, "nothing is combined"),
    Refusal("changed labels", "samples without labels", lambda c: attack(c) in ("label_flip", "label_flip_pair", "backdoor")
            and c["data.name"] != "small", "there are none"),
    Refusal("mobile attackers", "nobody moves", lambda c: attack(c) and value(c, "attack.who") == "mobile" and
            (lacks_places(c) or value(c, "network.mobility") == "static"), "nobody moves"),
    Refusal("attackers by place", "clients without places", lambda c: attack(c) and value(c, "attack.who") == "outermost"
            and (lacks_places(c) or value(c, "network.mobility") == "contacts"), "no places"),
    Refusal("rules for so many attackers", "graphs on which nobody hears enough", lambda c: algorithm(c) in WHOLE and
            LEAST.get(rule(c), 0) > 1 + most_heard(c), "it would always fall back"),
    Refusal("devices that share a run", "clients that they do not divide", lambda c: c["network.num_clients"]
            % value(c, "engine.client_devices", 1), "each has as many clients"),
    Refusal("neighbour lists", "graphs that are matrices", lambda c: value(c, "engine.links") == "lists" and graph(c) in
            ("star", "complete", "barbell", "erdos_renyi", "random_regular", "small_world"), "no lists of them"),
]  # fmt: skip


def counts(c):
    """Whether seconds and joules are counted."""
    return any(path.startswith("cost.") for path in c) or "energy.capacity" in c or "radio.rate" in c


def reasons(c):
    """The rows of the table that a configuration is in."""
    return [row for row in TABLE if row.holds(c)]
