"""The sections of a configuration: every field that is not a member's number, with its default, bounds and meaning.

The members (mobility rules, algorithms, ...) declare their own numbers, which are fields of the same sections; the
complete configuration is `mdfl_jax.experiments.config.families.schema`. Sweep points may differ in a field that is
marked ``traced`` without compiling again. The checks are in `mdfl_jax.experiments.config.resolve`.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.batch_statistics import KEPT
from mdfl_jax.data.partition import PARTITIONS
from mdfl_jax.exchange.compressors import COMPRESSORS
from mdfl_jax.gradients import MAPPINGS
from mdfl_jax.mobility import BOUNDARIES, MOBILITIES
from mdfl_jax.mobility.trace import AT_END
from mdfl_jax.models import MODELS
from mdfl_jax.models.conv import FORMS
from mdfl_jax.networks.contact import CONTACTS
from mdfl_jax.networks.graphs import GRAPHS
from mdfl_jax.networks.meetings import PATTERNS
from mdfl_jax.networks.mixing import MIXINGS
from mdfl_jax.tasks import PRECISIONS
from mdfl_jax.traces import FORMATS, GAPS, VEHICLES

X_AXES = ("bits", "messages", "rounds")
LR_SCHEDULES = ("constant", "cosine", "exponential")
OPTIMIZERS = ("adam", "sgd")


def _field(default: Any, doc: str, **rules: Any) -> Any:
    """Declares a field with its rules: at_least, above, at_most, below, odd, finite, traced, and names (the allowed
    names, or a function that returns them)."""
    return dataclasses.field(default=default, metadata={"doc": doc, **rules})


@dataclass(frozen=True)
class DataConfig:
    """The samples that are used, and how they are divided among the clients."""

    name: str = _field(
        "digits", "digits, the name of an .npz in dir, tfds:<name>, or a task that draws its data, as synthetic:linear"
    )
    dir: str = _field("", "data directory; empty: that of the environment variable MDFL_DATA_DIR")
    limit_train: int = _field(0, "number of training samples to use; 0: all", at_least=0)
    limit_test: int = _field(0, "number of test samples to use; 0: all", at_least=0)
    partition: str = _field("dirichlet", "how samples are divided among the clients", names=PARTITIONS)
    validation: int = _field(0, "number of training samples held out, to choose step sizes by", at_least=0)
    crop: int = _field(0, "largest random shift of training images, in pixels", at_least=0, at_most=64)
    flip: bool = _field(False, "training images are mirrored with probability one half")


@dataclass(frozen=True)
class ModelConfig:
    """The model that every client trains."""

    name: str = _field("cnn", "name of the model", names=MODELS)
    pretrained: str = _field("", "weights file of a ResNet-18 or -50 (.safetensors, .npz, .pth); empty: random weights")


@dataclass(frozen=True)
class NetworkConfig:
    """Where clients are, how they move and whom they hear. With a graph, places and movement have no effect."""

    num_clients: int = _field(20, "number of clients N", at_least=1, at_most=1_000_000)
    graph: str = _field(
        "",
        "name of the graph that says who hears whom, or 'file'; empty: clients in space, which move by mobility",
        names=lambda: ("", *GRAPHS, "file"),
    )
    num_mobile: int = _field(5, "number of mobile clients M; with trace all N move", at_least=0, traced=True)
    grid_size: int = _field(18, "side G of the G x G grid, in grid points", at_least=1, at_most=46_340)
    radius: float = _field(
        3.0, "communication radius Rc, in grid units or metres; inf: all hear each other", at_least=0, traced=True
    )
    radius_spread: float = _field(
        0.0, "radii are drawn in [1 - spread, 1 + spread] times the radius", at_least=0, at_most=1, traced=True
    )
    max_step: float = _field(5.0, "largest distance moved in a round, Rm; inf: no limit", at_least=0, traced=True)
    mobility: str = _field(
        "random_movement", "rule by which the mobile clients move; no effect with a graph", names=MOBILITIES
    )
    contact: str = _field(
        "disc", "clients in range at the round's beginning (disc), or during the last movement (swept)", names=CONTACTS
    )
    link_failure: float = _field(
        0.0, "probability that a link fails, for each round and direction", at_least=0, at_most=1, traced=True
    )
    link_fading: float = _field(
        0.0, "probability of failure that is added at the edge of the radius", at_least=0, at_most=1, traced=True
    )
    mixing: str = _field("metropolis_hastings", "rule that makes the mixing matrix", names=MIXINGS)


def _metres(default: float, doc: str, **rules: Any) -> Any:
    return _field(default, doc, finite=True, traced=True, **rules)


@dataclass(frozen=True)
class MotionConfig:
    """The plane [0, width] x [0, height], in metres and seconds, and the numbers of the mobility rules."""

    width: float = _metres(500.0, "width of the plane, in metres", above=0)
    height: float = _metres(500.0, "height of the plane, in metres", above=0)
    dt: float = _metres(1.0, "duration of a round, in seconds", above=0)
    boundary: str = _field("reflect", "what happens to a leg that meets a wall", names=BOUNDARIES, traced=True)
    warm_up: int = _field(0, "rounds of movement before the first round", at_least=0, traced=True)


@dataclass(frozen=True)
class TraceConfig:
    """A trace file, and how the mobility rules trace, static_trace and contacts use it."""

    file: str = _field("", "file of a trace of places or of a contact list; plain or .gz", traced=True)
    format: str = _field("auto", "file format; auto: by file ending or content", names=("auto", *FORMATS), traced=True)
    start: float = _field(
        0.0,
        "seconds of the trace to skip at its beginning (rounds to skip, for a list round,i,j)",
        at_least=0,
        finite=True,
        traced=True,
    )
    at_end: str = _field("refuse", "what follows a trace that is too short", names=("refuse", *AT_END), traced=True)
    gaps: str = _field("hold", "a vehicle that is not seen stands still (hold) or is absent", names=GAPS, traced=True)
    max_gap: float = _field(
        0.0, "longest time between samples that is no gap, seconds; 0: three times the median", at_least=0, traced=True
    )
    vehicles: str = _field(
        "longest", "those present longest, first in the file, or one after another", names=VEHICLES, traced=True
    )
    substeps: int = _field(1, "number of straight pieces of a client's path in a round", at_least=1, at_most=1000)
    directed: bool = _field(False, "in a contact list, i,j says only that i hears j", traced=True)


@dataclass(frozen=True)
class GraphConfig:
    """The graph that network.graph names. Its mixing matrix is made by network.mixing."""

    file: str = _field("", "edge list i,j or matrix (.npy, .npz, text); [T, N, N] holds one per round, repeated")
    directed: bool = _field(False, "in a file, i,j says only that i hears j")
    allow_disconnected: bool = _field(False, "random graphs and files need not be connected", traced=True)


@dataclass(frozen=True)
class ServerConfig:
    """A server that clients meet now and then, for the algorithms that use one. A slot is a round.

    With the pattern roadside, the fields of network, including its radius, say who can talk. With the other patterns
    clients meet in random pairs, and the places, contact and mixing of network have no effect.
    """

    pattern: str = _field("", "when clients meet the server; empty: none", names=lambda: ("", *PATTERNS, "roadside"))
    file: str = _field("", "pattern table: file of lines client,slot")
    pairs: float = _field(
        0.5, "share of clients paired in a slot, rho; no effect with roadside", at_least=0, at_most=1, traced=True
    )
    known_next: bool = _field(True, "clients know their next meeting; else they expect it a mean gap after the last")
    units: str = _field("", "roadside: places of the units 'x,y; x,y; ...' in the world's unit")
    unit_range: float = _field(100.0, "roadside: distance within which clients meet a unit", at_least=0, traced=True)
    one_at_a_time: bool = _field(True, "roadside: a client talks to one other in a slot; else to all in range")


@dataclass(frozen=True)
class AlgorithmConfig:
    """The algorithm, its optimiser and its local steps in a round."""

    name: str = _field("dpsgd", "name of the algorithm", names=ALGORITHMS)
    optimizer: str = _field("sgd", "local optimiser", names=OPTIMIZERS)
    lr_schedule: str = _field("constant", "how the learning rate changes over the local steps", names=LR_SCHEDULES)
    lr_final: float = _field(0.0, "last factor of the cosine, or lower limit of the exponential", at_least=0, at_most=1)
    lr_decay: float = _field(0.99, "factor of the exponential for each step", above=0, below=1)
    batch_size: int = _field(0, "samples in a minibatch; 0: full batch", at_least=0)
    local_steps: int = _field(1, "number of optimiser steps between exchanges, E", at_least=1)
    statistics: str = _field("mixed", "batch statistics: exchanged like the parameters, or kept local", names=KEPT)
    compressor: str = _field("", "message compressor; empty: the algorithm's own", names=lambda: ("", *COMPRESSORS))


@dataclass(frozen=True)
class EngineConfig:
    """Speed and memory. Results differ by rounding only, except that batch normalisation takes a block as its batch."""

    runs_per_batch: int = _field(
        0, "runs (point x seed) that are on the devices together; 0: the seeds of a point, at least 8", at_least=0
    )
    runs_at_once: int = _field(
        0, "runs of a device mapped together; 0: one on CPU or if one run fills an accelerator, else all", at_least=0
    )
    block_size: int = _field(
        0, "samples in a block of full-batch rounds; 0: by the clients' mean sample count", at_least=0, at_most=65_536
    )
    tile: int = _field(0, "samples computed at once; 0: by the cache (CPU) or the memory", at_least=0, at_most=2**24)
    mapping: str = _field("chunk", "blocks computed together: all (vmap), a tile (chunk) or one (scan)", names=MAPPINGS)
    precision: str = _field(
        "float32",
        "precision of the models' arithmetic; float64, which some tasks have, is also the precision of the weights",
        names=(*PRECISIONS, "float64"),
    )
    convolution: str = _field("auto", "form of the convolutions", names=("auto", *FORMS))
    remat: bool = _field(False, "compute stages again for the gradient instead of storing them")
    mixing_bound: int = _field(0, "senders in a neighbour list; 0: by N; denser rounds use the product", at_least=0)
    client_devices: int = _field(
        0, "devices that share a run, a divisor of their number; 0: one, or all if runs are fewer", at_least=0
    )
    memory_mib: int = _field(0, "memory limit of a device in MiB; 0: by the memory that it has", at_least=0)
    checkpoint_minutes: float = _field(5.0, "minutes between checkpoints", above=0)
    record_positions: bool = _field(True, "record the clients' places in every round, for maps")


@dataclass(frozen=True)
class Experiment:
    """A study: what is run, for how many rounds, and over which sweep points and seeds."""

    name: str = _field("study", "name of the study and of its default workdir")
    title: str = _field("", "headline of the report")
    use: str = _field("", "Python files that register members of your own, separated by commas; imported first")
    sweep: str = _field("", "axes of the sweep: 'network.mobility=static,dcm; data.alpha=0.05,0.1'")
    baseline: str = _field("", "setting of the point that others are compared with: 'network.mobility=random_movement'")
    seeds: int = _field(6, "number of seeds", at_least=1, at_most=1_000_000)
    first_seed: int = _field(0, "seeds are first_seed, first_seed + 1, ...", at_least=0)
    rounds: int = _field(400, "number of rounds R", at_least=1)
    eval_every: int = _field(20, "rounds between evaluations", at_least=1)
    target: float = _field(0.8, "accuracy whose first round is reported", above=0, below=1)
    judged: str = _field(
        "clients",
        "whose accuracy is measured: the clients' models, or only the global one (the server's, else their mean)",
        names=("clients", "global"),
    )
    metrics: str = _field("", "metrics to measure on request, separated by commas: 'personal_accuracy'")
    stop_std: float = _field(
        0.0,
        "for tasks with an objective: a run ends when its deviation over three rounds is below this; 0: never",
        at_least=0,
        finite=True,
    )
    select: str = _field("", "axis whose best value by the validation loss is reported: 'algorithm.lr'")
    x_axis: str = _field("rounds", "x axis of the curves in the figures", names=X_AXES)
    data: DataConfig = dataclasses.field(default_factory=DataConfig)
    model: ModelConfig = dataclasses.field(default_factory=ModelConfig)
    network: NetworkConfig = dataclasses.field(default_factory=NetworkConfig)
    motion: MotionConfig = dataclasses.field(default_factory=MotionConfig)
    graph: GraphConfig = dataclasses.field(default_factory=GraphConfig)
    trace: TraceConfig = dataclasses.field(default_factory=TraceConfig)
    server: ServerConfig = dataclasses.field(default_factory=ServerConfig)
    algorithm: AlgorithmConfig = dataclasses.field(default_factory=AlgorithmConfig)
    engine: EngineConfig = dataclasses.field(default_factory=EngineConfig)
