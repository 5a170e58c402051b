"""Every field of a configuration: the sections with their own fields, and the hyperparameters of the entries.

A section declares its fields with default, bounds and meaning. The entries of a registry (mobility rules, algorithms
and so on) declare their hyperparameters, which become fields of a section; `schema` is the complete configuration.
Sweep points may differ in a field that is marked ``traced`` without compiling again. The checks are in
`mdfl_jax.config.resolve` (one field) and `mdfl_jax.config.checks` (several). A section that puts a wrapper around the
network lies with all that is its own in the wrapper's file (`mdfl_jax.core.section`).
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import Settings
from mdfl_jax.algorithms.registry import aggregation_in_use, compressor_in_use, ignored_by, resolved
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbers import Numbers, Setting, fields_of, from_values, kinds_of
from mdfl_jax.core.outcomes import SELECT_BY, VALIDATION_LOSS
from mdfl_jax.core.registry import Registry
from mdfl_jax.core.section import SECTIONS, Family, field, sections, switch
from mdfl_jax.core.stopping import NORM
from mdfl_jax.core.trees import KEPT
from mdfl_jax.core.types import FIXED, SYMMETRIC
from mdfl_jax.data.dataset import LAYOUTS, MODES
from mdfl_jax.data.partition import PARTITIONS
from mdfl_jax.exchange.aggregation import AGGREGATIONS
from mdfl_jax.exchange.compressors import COMPRESSORS
from mdfl_jax.mobility import BOUNDARIES, KNOWLEDGE, MOBILITIES, WORLDS, Movement
from mdfl_jax.mobility.registry import OWN_WORLD, movement_of, world_in
from mdfl_jax.mobility.rule import ORACLE
from mdfl_jax.mobility.trace import AT_END
from mdfl_jax.models import MODELS
from mdfl_jax.models.conv import FORMS, TOGETHER
from mdfl_jax.networks.contact import CONTACTS
from mdfl_jax.networks.costs import COUNTED_AXES
from mdfl_jax.networks.graphs import GRAPHS
from mdfl_jax.networks.meetings import PATTERNS
from mdfl_jax.networks.mixing import MIXINGS
from mdfl_jax.networks.spatial import ORDERS
from mdfl_jax.networks.worlds import MOVERS, RELAY_PLACES
from mdfl_jax.networks.wrappers.participation import PICK_DIRECTIONS
from mdfl_jax.networks.wrappers.roadside import ServerConfig
from mdfl_jax.tasks import GRADIENTS, PRECISIONS, TASKS, TaskKind, task_named
from mdfl_jax.tasks.gradients import MAPPINGS
from mdfl_jax.tasks.losses import LOSSES
from mdfl_jax.traces import GAPS, TRACE_FORMATS, VEHICLES

_of_samples, _of_places, _of_links, _of_trace = (
    partial(field, part=part) for part in ("samples", "places", "links", "trace")
)


def flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the values of nested dictionaries by dotted path.

    >>> flat({"rounds": 4, "network": {"radius": 3.0}})
    {'rounds': 4, 'network.radius': 3.0}
    """
    found: dict[str, Any] = {}
    for name, value in tree.items():
        found |= flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return found


@dataclass(frozen=True)
class NetworkConfig:
    """Where clients are, how they move and whom they hear. With a graph, places and movement have no effect."""

    num_clients: int = field(20, "number of clients N", at_least=1, at_most=1_000_000)
    graph: str = field(
        "",
        "name of the graph that says who hears whom, or 'file'; empty: clients in space, which move by mobility",
        names=lambda: ("", *GRAPHS, "file"),
    )
    num_mobile: int = field(5, "number of mobile clients M; with trace all N move", at_least=0, traced=True)
    movers: str = field(
        "first",
        "which M clients move: the first ones, or those with the most or least data, or in the middle or outside",
        names=MOVERS,
        traced=True,
    )
    relays: int = field(0, "number of relays K: the last clients hold no data and never move", at_least=0)
    relay_places: str = field(
        "random",
        "where relays stand: far from all (gaps), near many (hubs), or between groups out of range (bridges)",
        names=RELAY_PLACES,
        traced=True,
        part="relays",
    )
    grid_size: int = field(18, "side G of the G x G grid, in grid points", at_least=1, at_most=46_340, part="grid")
    radius: float = _of_places(
        3.0, "communication radius Rc, in grid units or metres; inf: all hear each other", at_least=0, traced=True
    )
    radius_spread: float = _of_places(
        0.0, "radii are drawn in [1 - spread, 1 + spread] times the radius", at_least=0, at_most=1, traced=True
    )
    max_step: float = field(
        5.0, "largest distance moved in a round, Rm; inf: no limit", at_least=0, traced=True, part="steps"
    )
    mobility: str = _of_places(
        "random_movement", "rule by which the mobile clients move; no effect with a graph", names=MOBILITIES
    )
    world: str = field(
        OWN_WORLD, "where clients move; auto: in the rule's own world", names=(OWN_WORLD, *WORLDS), part="world"
    )
    contact: str = _of_places(
        "disc", "clients in range at the round's beginning (disc), or during the last movement (swept)", names=CONTACTS
    )
    order: str = field(
        "mix_first", "order of a round: clients mix, then move (mix_first), or the reverse (move_first)", names=ORDERS
    )
    link_failure: float = _of_links(
        0.0, "probability that a link fails, for each round and direction", at_least=0, at_most=1, traced=True
    )
    link_fading: float = _of_links(
        0.0, "probability of failure that is added at the edge of the radius", at_least=0, at_most=1, traced=True
    )
    mixing: str = field("metropolis_hastings", "rule that makes the mixing matrix", names=MIXINGS, part="mixing")


def _metres(default: float, doc: str, **rules: Any) -> Any:
    return field(default, doc, finite=True, traced=True, **rules)


@dataclass(frozen=True)
class MotionConfig:
    """The plane [0, width] x [0, height], in metres and seconds, and the numbers of the mobility rules."""

    width: float = _metres(500.0, "width of the plane, in metres", above=0, part="plane")
    height: float = _metres(500.0, "height of the plane, in metres", above=0, part="plane")
    dt: float = _metres(1.0, "duration of a round, in seconds", above=0, part="seconds")
    boundary: str = field(
        "reflect", "what happens to a leg that meets a wall", names=BOUNDARIES, traced=True, part="plane"
    )
    warm_up: int = field(
        0, "rounds of movement in the plane before the first round", at_least=0, traced=True, part="plane"
    )
    knowledge: str = field(
        ORACLE,
        "static clients that a mobile one knows, if its rule uses them: all, those it has met, or it explores",
        names=KNOWLEDGE,
        traced=True,
        part="knowledge",
    )


@dataclass(frozen=True)
class TraceConfig:
    """A trace file, and how clients of the worlds trace and contacts use it."""

    file: str = field(
        "",
        "trace of places or contact list: a file, plain or .gz, or a folder of files",
        traced=True,
        file=True,
        folder=True,
        part="trace",
    )
    made_by: str = _of_trace(
        "", "command that makes the file, named if the file is not there", traced=True, in_runs=False
    )
    format: str = _of_trace(
        "auto", "file format; auto: by file ending or header", names=lambda: ("auto", *TRACE_FORMATS), traced=True
    )
    columns: str = _of_trace(
        "", "names of the columns of a table in their order, such as id,time,lon,lat; empty: as its header", traced=True
    )
    types: str = _of_trace("", "only nodes of these types, such as car,bus; empty: all", traced=True)
    times: str = _of_trace("", "only begin,end: seconds of the file, or dates with a time; empty: all", traced=True)
    area: str = _of_trace("", "only west,south,east,north in the unit of the file; empty: all", traced=True)
    streets: str = field(
        "",
        "SUMO network of the trace (.net.xml or .gz), whose streets the map shows",
        traced=True,
        file=True,
        part="streets",
    )
    start: float = _of_trace(
        0.0, "seconds to skip at its beginning (rounds, for a list round,i,j)", at_least=0, finite=True, traced=True
    )
    at_end: str = _of_trace("refuse", "what follows a trace that is too short", names=("refuse", *AT_END), traced=True)
    gaps: str = _of_trace(
        "auto",
        "a vehicle that is not seen stands still (hold) or is absent; auto: absent, but at waypoints it stands",
        names=GAPS,
        traced=True,
    )
    hold: float = _of_trace(
        0.0,
        "seconds that a contact of a list time,i,j holds; 0: the shortest step of its times",
        at_least=0,
        finite=True,
        traced=True,
    )
    max_gap: float = _of_trace(
        0.0, "longest time between samples that is no gap, seconds; 0: three times the median", at_least=0, traced=True
    )
    vehicles: str = _of_trace(
        "longest", "those present longest, first in the file, or one after another", names=VEHICLES, traced=True
    )
    substeps: int = _of_trace(1, "number of straight pieces of a client's path in a round", at_least=1, at_most=1000)
    directed: bool = _of_trace(False, "in a contact list, i,j says only that i hears j", traced=True)


@dataclass(frozen=True)
class GraphConfig:
    """The graph that network.graph names. Its mixing matrix is made by network.mixing."""

    file: str = field(
        "",
        "edge list i,j or matrix (.npy, .npz, text); [T, N, N] holds one per round, repeated",
        file=True,
        part="network.graph=file",
    )
    directed: bool = field(False, "in a file, i,j says only that i hears j", part="network.graph=file")
    allow_disconnected: bool = field(False, "random graphs and files need not be connected", traced=True, part="graph")


X_AXES = ("bits", "messages", "rounds", *COUNTED_AXES)
LR_SCHEDULES = ("constant", "cosine", "exponential")
OPTIMIZERS = ("adam", "sgd")
EPOCH_STEPS = ("own", "equal")
FORMS_OF_LINKS = ("auto", "dense", "lists")
_JUDGED = ("clients", "global")
_EXPONENTIAL, _FALLING = "algorithm.lr_schedule=exponential", "algorithm.lr_schedule=cosine,exponential"


@dataclass(frozen=True)
class DataConfig:
    """The samples that are used, and how they are divided among the clients."""

    name: str = field(
        "digits",
        "digits, python_topics, the name of an .npz, .csv or folder of IDX or LEAF files in dir, tfds:<name>, "
        "hf:<folder>, or a task that draws its data, as synthetic:linear",
    )
    dir: str = _of_samples("", "data directory; empty: that of the environment variable MDFL_DATA_DIR", in_runs=False)
    target: str = _of_samples("", "column of a table that is the target; empty: label or target, or else the last one")
    owner: str = _of_samples("", "column of a table that has the natural owners; empty: client, if there is one")
    drop: str = _of_samples("", "columns of a table that are left out, with commas between")
    categories: str = _of_samples(
        "",
        "columns of a table whose values are names, whatever they look like, with commas between",
        in_runs=False,  # runs know the data by its content
    )
    layout: str = _of_samples(
        "auto", "axes of images; auto: channels last, and what looks like channels first is refused", names=LAYOUTS
    )
    limit_train: int = _of_samples(0, "number of training samples to use; 0: all", at_least=0)
    limit_test: int = _of_samples(0, "number of test samples to use; 0: all", at_least=0)
    partition: str = _of_samples("dirichlet", "how samples are divided among the clients", names=PARTITIONS)
    validation: int = _of_samples(0, "number of training samples held out, to choose step sizes by", at_least=0)
    crop: int = _of_samples(0, "largest random shift of training images, in pixels", at_least=0, at_most=64)
    flip: bool = _of_samples(False, "training images are mirrored with probability one half")
    normalize: str = _of_samples(
        "auto", "auto: channels, float features and targets by training mean and deviation; none: nothing", names=MODES
    )


@dataclass(frozen=True)
class ModelConfig:
    """The model that every client trains, and the loss that it minimises."""

    name: str = field("cnn", "name of the model", names=MODELS, part="models")
    loss: str = field("", "loss on a data set; empty: the natural one of its targets", names=lambda: ("", *LOSSES))
    pretrained: str = field(
        "",
        "weights file of a ResNet-18 or -50 (.safetensors, .npz, .pth), or the workdir, a folder or a file of models "
        "that a study has kept (save); empty: random weights",
        file=True,
    )
    pretrained_clients: str = field(
        "own",
        "with checkpoints: each client starts from its own, or all from the mean (or global) one",
        names=("own", "mean"),
    )
    trainable: str = field(
        "",
        "leaves that are trained, by patterns of their paths, separated by commas: 'Dense_1/*'; empty: all. The others "
        "are frozen: alike for all clients, stored once and never sent",
    )
    shared: str = field(
        "",
        "trained leaves that are exchanged, by patterns of their paths; empty: all. The others are personal",
    )


@dataclass(frozen=True)
class AlgorithmConfig:
    """The algorithm, its optimiser and its local steps in a round."""

    name: str = field("dpsgd", "name of the algorithm", names=ALGORITHMS)
    optimizer: str = field("sgd", "local optimiser", names=OPTIMIZERS)
    lr_schedule: str = field("constant", "how the learning rate changes over the local steps", names=LR_SCHEDULES)
    lr_final: float = field(
        0.0, "last factor of the cosine, or lower limit of the exponential", at_least=0, at_most=1, part=_FALLING
    )
    lr_decay: float = field(0.99, "factor of the exponential for each step", above=0, below=1, part=_EXPONENTIAL)
    batch_size: int = field(
        0, "samples in a minibatch, drawn with replacement unless local work is epochs; 0: full batch", at_least=0
    )
    gradient: str = field("mean", "a client's gradient: mean or sum over the samples of its batch", names=GRADIENTS)
    local_steps: int = field(1, "number of optimiser steps between exchanges, E", at_least=1)
    local_epochs: int = field(
        0, "epochs between exchanges, E, each with all samples of a client once; 0: algorithm.local_steps", at_least=0
    )
    epoch_steps: str = field(
        "own",
        "in an epoch, clients take batches of batch_size (own), so those with more data take more steps; or as many "
        "steps as the one with the most (equal), with smaller batches",
        names=EPOCH_STEPS,
        part="epochs",
    )
    picks: str = field(
        "both_ways",
        "how clients exchange with the neighbours that they pick, if the participation is below 1: both send "
        "(both_ways), or only the picked one (one_way), as in pame",
        names=PICK_DIRECTIONS,
        part="picks",
    )
    statistics: str = field("mixed", "batch statistics: exchanged like the parameters, or kept local", names=KEPT)
    aggregation: str = field("mean", "how a client combines the models that it hears with its own", names=AGGREGATIONS)
    compressor: str = field("", "message compressor; empty: the algorithm's own", names=lambda: ("", *COMPRESSORS))


@dataclass(frozen=True)
class EngineConfig:
    """Speed and memory. Results differ by rounding only; batch normalisation and dropout treat a block as a batch."""

    runs_per_batch: int = field(
        0, "runs on the devices together; 0: the seeds of a point, at least 8", at_least=0, in_runs=False
    )
    runs_at_once: int = field(
        0, "runs of a device mapped together; 0: one on CPU or if one run fills an accelerator, else all", at_least=0
    )
    block_size: int = field(
        0, "samples in a block of full-batch rounds; 0: by the clients' mean sample count", at_least=0, at_most=65_536
    )
    tile: int = field(0, "samples computed at once; 0: by the cache (CPU) or the memory", at_least=0, at_most=2**24)
    mapping: str = field("chunk", "blocks computed together: all (vmap), a tile (chunk) or one (scan)", names=MAPPINGS)
    precision: str = field(
        "float32",
        "precision of the models' arithmetic; float64, which some tasks have, is also the precision of the weights",
        names=(*PRECISIONS, "float64"),
    )
    convolution: str = field(
        "auto", "form of the convolutions", names=lambda: ("auto", *FORMS.as_registered(), *TOGETHER.as_registered())
    )
    remat: bool = field(False, "compute stages again for the gradient instead of storing them")
    links: str = field(
        "auto",
        "form: dense (N x N) or neighbour lists; auto: lists for more than 512 clients, if short",
        names=FORMS_OF_LINKS,
    )
    max_neighbours: int = field(
        0, "neighbours that a list can hold; 0: as many as the movement of all runs needs", at_least=0
    )
    mixing_bound: int = field(0, "senders in a neighbour list; 0: by N; denser rounds use the product", at_least=0)
    client_devices: int = field(
        0, "devices that share a run, a divisor of their number and of N; 0: one, or more if runs are few", at_least=0
    )
    memory_mib: int = field(
        0, "memory limit of a device in MiB; 0: by the memory that it has", at_least=0, in_runs=False
    )
    checkpoint_minutes: float = field(5.0, "minutes between checkpoints", above=0, in_runs=False)
    states_mib: int = field(
        256,
        "MiB that the last states of all runs may take in the workdir, so that rounds can be added; if they would "
        "take more, none is kept; 0: none",
        at_least=0,
        in_runs=False,
    )
    record_positions: bool = field(True, "record the clients' places in every round, for maps")
    record_mib: float = field(
        8.0,
        "most MiB of a run for links, meetings and so on of every round, for maps; 0: places only",
        at_least=0,
        finite=True,
    )


@dataclass(frozen=True)
class Experiment:
    """A study: what is run, for how many rounds, and over which sweep points and seeds."""

    name: str = field("study", "name of the study and of its default workdir", in_runs=False)
    title: str = field("", "headline of the report", in_runs=False)
    labels: str = field(
        "",
        "names for tables and figures: 'dpsgd=D-PSGD; dcm=DCM: distribution-aware cluster-centre movement'; "
        "what follows ': ' is told once; 'network.radius=radio range; network.radius=3=near'",
        in_runs=False,
    )
    use: str = field("", "Python files that register entries of your own, separated by commas; imported first")
    sweep: str = field("", "axes of the sweep: 'network.mobility=static,dcm; data.alpha=0.05,0.1'")
    baseline: str = field(
        "", "setting of the point that others are compared with: 'network.mobility=random_movement'", in_runs=False
    )
    seeds: int = field(6, "number of seeds", at_least=1, at_most=1_000_000)
    first_seed: int = field(0, "seeds are first_seed, first_seed + 1, ...", at_least=0)
    vary: str = field(
        "all",
        "random streams that follow the seed, separated by spaces: 'placement mobility', or 'all but init'; the others "
        "draw as under held_seed",
        traced=True,
    )
    held_seed: int = field(0, "seed of the streams that vary does not name", at_least=0, at_most=2**32 - 1, traced=True)
    rounds: int = field(400, "number of rounds R", at_least=1, at_most=100_000_000)
    eval_every: int = field(20, "rounds between evaluations", at_least=1)
    eval_clients: int = field(
        0, "clients that are evaluated between the first and the last evaluation, a sample; 0: all", at_least=0
    )
    eval_samples: int = field(0, "test samples on which they are evaluated there, a sample; 0: all", at_least=0)
    target: float = field(0.8, "accuracy whose first round is reported", above=0, below=1, in_runs=False)
    judged: str = field(
        "clients", "whose accuracy is measured: the clients' models, or only the global (else mean) one", names=_JUDGED
    )
    save: str = field("", "models to keep in files: final or every:K rounds; empty: none")
    metrics: str = field("", "metrics to measure on request, separated by commas: 'personal_accuracy'")
    loggers: str = field("", "tools that draw the study while it runs: 'tensorboard,wandb'; empty: none", in_runs=False)
    stop_std: float = field(
        0.0,
        "for tasks with an objective: a run ends when its deviation over three rounds is below this; 0: never",
        at_least=0,
        finite=True,
    )
    diverged_norm: float = field(
        NORM, "a run ends, diverged, once the norm of a client's parameters is above this; inf: not finite", above=0
    )
    select: str = field(
        "", "swept fields, separated by commas, whose best values are reported: 'algorithm.lr'", in_runs=False
    )
    select_by: str = field(
        VALIDATION_LOSS, "what the best values of select have the least of", names=tuple(SELECT_BY), in_runs=False
    )
    x_axis: str = field("rounds", "x axis of the curves in the figures", names=X_AXES, in_runs=False)
    data: DataConfig = dataclasses.field(default_factory=DataConfig)
    model: ModelConfig = dataclasses.field(default_factory=ModelConfig)
    network: NetworkConfig = dataclasses.field(default_factory=NetworkConfig)
    motion: MotionConfig = dataclasses.field(default_factory=MotionConfig)
    graph: GraphConfig = dataclasses.field(default_factory=GraphConfig)
    trace: TraceConfig = dataclasses.field(default_factory=TraceConfig)
    algorithm: AlgorithmConfig = dataclasses.field(default_factory=AlgorithmConfig)
    engine: EngineConfig = dataclasses.field(default_factory=EngineConfig)

    @property
    def ignored(self) -> frozenset[str]:
        """The settings that the algorithm ignores."""
        return ignored_by(self.algorithm.name)

    @property
    def serves_all(self) -> bool:
        """Whether the algorithm has a server that all clients reach in every round."""
        return ALGORITHMS[self.algorithm.name](Settings()).own_server


def _with_samples(experiment: Experiment, name: str) -> str:
    """Return the name of an entry that only tasks with a data set use."""
    return name if task_of(experiment).of_datasets else ""


def _network_for(algorithm: str) -> str:
    """Say what an algorithm needs from the network, and whether it mixes by `algorithm.aggregation`."""
    needs = ALGORITHMS[algorithm](Settings()).needs
    weights = "symmetric mixing weights" if SYMMETRIC in needs else "mixing weights" if "mix" in needs else ""
    links = weights or ("links" if "adjacency" in needs else "")
    server = "a server that clients meet" if "server" in needs else ""
    said = ", ".join(filter(None, (server, links, "links that stay the same" if FIXED in needs else "")))
    mixes = " It mixes by `algorithm.aggregation`." if aggregation_in_use(algorithm, "mean") else ""
    return f"Needs {said or 'no links'}.{mixes}"


def _where_it_moves(rule: str) -> str:
    """Say in which worlds and with which knowledge a mobility rule moves clients."""
    forms = MOBILITIES.forms(rule)
    worlds, known = dict.fromkeys(form.world for form in forms), dict.fromkeys(form.knowledge for form in forms)
    knowledge = f" `motion.knowledge`: {', '.join(known)}." if any(known) else ""
    return f"`network.world`: {', '.join(worlds)}.{knowledge}"


_FAMILIES = (
    Family(
        ALGORITHMS,
        "Algorithms, one by one",
        "algorithm",
        "algorithm.name",
        about="What clients compute and send in a round. x is a client's model and x+ that of the next round; g = grad "
        "f(x) is its gradient; eta is the learning rate, `algorithm.lr`; E is `algorithm.local_steps`, or the steps of "
        "`algorithm.local_epochs`: with more than one, the step - eta g stands for that many, and with mu "
        "(`algorithm.proximal`) each has mu (y - x) in its gradient at y; W is the mixing matrix (`network.mixing`), "
        "and W x the sum over j of W_ij x_j; C is the compressor (`algorithm.compressor`); gamma is "
        "`algorithm.consensus_lr`; beta and theta are `algorithm.momentum`; N is the number of clients.",
        needs=_network_for,
    ),
    Family(
        COMPRESSORS,
        "Compressors",
        "algorithm",
        "algorithm.compressor",
        lambda of, own: compressor_in_use(of.algorithm.name, own),
        about="How messages are shortened before they are sent. An empty name is the algorithm's own. x is a message "
        "of n coordinates x_l. C is a contraction with delta if E||C(x) - x||^2 <= (1 - delta) ||x||^2, and "
        "unbiased if E C(x) = x.",
    ),
    Family(
        AGGREGATIONS,
        "Aggregation rules",
        "algorithm",
        "algorithm.aggregation",
        lambda of, own: aggregation_in_use(of.algorithm.name, own),
        about="How a client combines the models that it hears with its own. x_i is its own model, y_j what client j "
        "sends, W the mixing matrix (`network.mixing`).",
    ),
    Family(
        MOBILITIES,
        "Mobility rules and policies",
        "motion",
        "network.mobility",
        lambda of, name: "" if of.network.graph else name,
        about="How the mobile clients move. p(L) is the probability, and score(L) the score, of a place L to be the "
        "destination, the highest one wins; d(L) is the distance of the label histogram there from that at the "
        "client's place, t(L) the fewest rounds to go there, S(L) the static clients in range of L; a_j are the rounds "
        "since the client was last in range of client j, b_j those since any mobile client was; n_j are samples; Rm is "
        "`network.max_step`; U is the uniform distribution.",
        needs=_where_it_moves,
    ),
    Family(
        MIXINGS,
        "Mixing weights",
        "network",
        "network.mixing",
        about="The mixing weights: W_ij is the weight that client i gives to the model of client j, and the rows of W "
        "sum to one. d_i is the number of neighbours of i, M_i the set of i and its neighbours, n_j the samples of j, "
        "s_j its speed, R the radius. If a link fails in one direction, the symmetric rules add the weight of the "
        "model that does not arrive to the receiver's own.",
    ),
    Family(
        GRAPHS,
        "Graphs, one by one",
        "graph",
        "network.graph",
        about="Who hears whom, where links do not depend on places. Clients are numbered 0 .. N - 1.",
    ),
    Family(
        MODELS,
        "Models",
        "model",
        "model.name",
        _with_samples,
        about="The model that every client trains. A and b are weights and offsets of their own in each place; conv is "
        "a convolution with an offset, norm the normalisation `model.norm`, pool a maximum of 2 x 2.",
    ),
    Family(
        LOSSES,
        "Losses",
        "model",
        "model.loss",
        _with_samples,
        about="The loss of a sample. An empty name is the natural loss of the targets. o are the outputs of the model, "
        "y the targets.",
    ),
    Family(
        PARTITIONS,
        "Partitions of the data",
        "data",
        "data.partition",
        _with_samples,
        about="How samples are divided among the clients: n samples, N clients, C classes; n_i are those of client i.",
    ),
    Family(
        TASKS,
        "Tasks",
        "data",
        "data.name",
        lambda of, name: task_named(name),
        about="What is learnt. f_i is the objective of client i, x its parameters, (a, b) a sample and its target.",
    ),
)


def entry_registries() -> tuple[Family, ...]:
    """Return the registries of entries: of the whole configuration, and of sections that lie in one file."""
    return (*_FAMILIES, *(family for kind in sections() for family in kind.FAMILIES))


_schemas: dict[Any, type[Experiment]] = {}


def schema() -> type[Experiment]:
    """Return the configuration as a dataclass, with a field for each number of the entries registered so far.

    The default of these fields is None.

    Raises:
      UserError: If two entries declare a number of the same name with different types, or one traced and one static.
    """
    members = tuple(
        (family, name, family.registry.numbers(name)) for family in entry_registries() for name in family.registry
    )
    key = (*members, *sections())
    if key not in _schemas:
        own = _own_fields(members)
        kinds: dict[str, list[Any]] = {
            each.name: [each.type] for each in dataclasses.fields(Experiment) if dataclasses.is_dataclass(each.type)
        }
        for kind in sections():
            kinds.setdefault(kind.SECTION, []).append(kind)
        whole = []
        for name, bases in kinds.items():
            text = {"__doc__": bases[0].__doc__}
            made = dataclasses.make_dataclass(
                bases[0].__name__, own.get(name, []), bases=(*reversed(bases),), frozen=True, namespace=text
            )
            whole.append((name, made, dataclasses.field(default_factory=made)))
        _schemas[key] = dataclasses.make_dataclass("Experiment", whole, bases=(Experiment,), frozen=True)
    return _schemas[key]


def _own_fields(members: Iterable[tuple[Family, str, type[Numbers]]]) -> dict[str, list[tuple[str, Any, Any]]]:
    """Return the hyperparameters of the entries by section, in the form that `dataclasses.make_dataclass` takes."""
    found: dict[str, dict[str, tuple[Any, dict[str, Any]]]] = {}
    for family, member, numbers in members:
        kinds, section = kinds_of(numbers), found.setdefault(family.section, {})
        for name, each in fields_of(numbers).items():
            kind, rules = section.setdefault(name, (kinds[name], {**each.metadata, "own": [], "declared": []}))
            if kind != kinds[name] or rules["traced"] != each.metadata["traced"]:
                raise UserError(
                    f"{family.registry.kind} {member!r}: its number {name!r} has another type than that of "
                    f"{rules['own'][0]!r}; choose another name"
                )
            if family.section in SECTIONS and hasattr(SECTIONS[family.section], name):
                line = f"its number {name!r} has a name that sections use; choose another name"
                raise UserError(f"{family.registry.kind} {member!r}: {line}")
            rules["own"].append(member)
            if each.metadata not in rules["declared"]:
                rules["declared"].append(each.metadata)
    return {
        section: [(name, kind, dataclasses.field(default=None, metadata=rules)) for name, (kind, rules) in own.items()]
        for section, own in found.items()
    }


def numbers_in(experiment: Experiment, registry: Registry, member: str) -> Any:
    """Return the numbers of an entry: the values that the configuration sets, else the entry's own defaults."""
    family = next(family for family in entry_registries() if family.registry is registry)
    values = vars(getattr(experiment, family.section))
    if registry is ALGORITHMS:
        return resolved(member, experiment.algorithm.compressor, values, experiment.algorithm.aggregation)
    if registry is MOBILITIES:
        return movement_numbers(experiment, movement_of(experiment)._replace(rule=member))
    return from_values(registry.numbers(member), values)


def movement_numbers(experiment: Experiment, movement: Movement) -> Any:
    """Return the numbers of a movement: the values that the configuration sets, else its own defaults.

    Raises:
      UserError: If its rule lacks the world or the knowledge.
    """
    return from_values(MOBILITIES.form(movement).numbers, vars(experiment.motion))


def traced_numbers(experiment: Experiment, registry: Registry, member: str) -> Any:
    """Return the numbers of an entry as NumPy scalars of fixed type, or None if the registry has no such member."""
    return numbers_in(experiment, registry, member).traced() if member in registry else None


def task_of(experiment: Experiment) -> TaskKind:
    """Return the task that a configuration names."""
    return TASKS[task_named(experiment.data.name)]


def task_numbers(experiment: Experiment) -> Any:
    """Return the numbers that divide the samples: those of the partition for a data set, else those of the task."""
    if task_of(experiment).of_datasets:
        return numbers_in(experiment, PARTITIONS, experiment.data.partition)
    return numbers_in(experiment, TASKS, experiment.data.name)


def algorithm_numbers(experiment: Experiment) -> Any:
    """Return the numbers of the algorithm in use, including those of its compressor."""
    return numbers_in(experiment, ALGORITHMS, experiment.algorithm.name)


@switch
def has_momentum(experiment: Experiment) -> bool:
    """Whether the algorithm keeps a momentum, in its optimiser or its recursion, and so needs memory for it."""
    return getattr(algorithm_numbers(experiment), "momentum", 0.0) > 0


@switch
def is_proximal(experiment: Experiment) -> bool:
    """Whether local steps are held near the model before the first one."""
    return algorithm_numbers(experiment).proximal > 0


def entries_in_use(experiment: Experiment) -> Iterator[tuple[Family, str, Numbers]]:
    """Yield each entry that a configuration uses, with its registry and its numbers."""
    for family in entry_registries():
        name = family.used(experiment, attrgetter(family.field)(experiment))
        if name in family.registry:
            yield family, name, numbers_in(experiment, family.registry, name)


def effective(experiment: Experiment) -> dict[str, Any]:
    """Return the hyperparameters of the entries in use by path, {'algorithm.lr': 0.1, ...}, including their defaults.

    `network.world` is among them, as the world in which clients move, unless a graph ties them.
    """
    found = {
        f"{family.section}.{name}": getattr(numbers, name)
        for family, _, numbers in entries_in_use(experiment)
        for name in fields_of(type(numbers))
    }
    return found if experiment.network.graph else {"network.world": world_in(experiment), **found}


def setting_of(experiment: Experiment, member: str = "") -> Setting:
    """Return the values of the configuration that the checks of an entry may read."""
    network, motion, pattern = experiment.network, experiment.motion, ServerConfig.of(experiment).pattern
    law = getattr(numbers_in(experiment, PATTERNS, pattern), "gap_law", None) if pattern in PATTERNS else None
    return Setting(
        member=member,
        num_clients=network.num_clients,
        num_mobile=network.num_mobile,
        width=motion.width,
        height=motion.height,
        dt=motion.dt,
        allow_disconnected=experiment.graph.allow_disconnected,
        local_steps=0 if experiment.algorithm.local_epochs else experiment.algorithm.local_steps,
        largest_gap=len(law()) - 1 if law else None,
    )


def check_members(experiment: Experiment) -> None:
    """Check the hyperparameters of the entries in use, first each one alone and then all of an entry together.

    Raises:
      UserError: If a number is not allowed. The message names the numbers and their values.
    """
    for family, name, numbers in entries_in_use(experiment):
        numbers.validate(f"{family.section}.")
        numbers.check(setting_of(experiment, name))


def member_notes(experiment: Experiment) -> list[str]:
    """Return the warnings of the entries in use about settings that are probably not intended, one line for each."""
    return [
        note for _, name, numbers in entries_in_use(experiment) for note in numbers.notes(setting_of(experiment, name))
    ]


@switch
def links_fail(experiment: Experiment) -> bool:
    """Whether links fail, so that the failures of a round must be drawn."""
    return experiment.network.link_failure > 0 or experiment.network.link_fading > 0


@switch
def is_partial(experiment: Experiment) -> bool:
    """Whether the network must be thinned: participation is partial, and the algorithm does not apply it itself."""
    participation, period = participation_of(experiment)
    return (participation < 1 or period > 1) and not ALGORITHMS[experiment.algorithm.name](
        Settings()
    ).traits.participates


def participation_of(experiment: Experiment) -> tuple[float, int]:
    """Return the share of the neighbours that are picked, and the period: the mean of its bounds, in whole rounds."""
    numbers = algorithm_numbers(experiment)
    return numbers.participation, (numbers.period_min + numbers.period_max) // 2
