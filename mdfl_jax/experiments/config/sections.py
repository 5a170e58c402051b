"""The sections of a configuration: every field that is no member's number, with its default, bounds and meaning.

The numbers of the members (mobility rules, algorithms, ...) are fields of the same sections, and are declared by the
members: `schema` is the whole. A field marked ``traced`` is a number that sweep points may differ in without compiling
again. The checks are in `mdfl_jax.experiments.config.resolve`.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

from mdfl_jax.algorithms import ALGORITHMS
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
from mdfl_jax.statistics import KEPT
from mdfl_jax.tasks import PRECISIONS
from mdfl_jax.traces import FORMATS, GAPS, VEHICLES

X_AXES = ("bits", "messages", "rounds")
LR_SCHEDULES = ("constant", "cosine", "exponential")
OPTIMIZERS = ("adam", "sgd")


def _field(default: Any, doc: str, **rules: Any) -> Any:
    """A field with its rules: at_least, above, at_most, below, odd, finite, names (those known, or a function to them),
    traced."""
    return dataclasses.field(default=default, metadata={"doc": doc, **rules})


@dataclass(frozen=True)
class DataConfig:
    """Which samples, and who holds them."""

    name: str = _field(
        "digits", "digits, the name of an .npz in dir, tfds:<name>, or a task that draws its data, as synthetic:linear"
    )
    dir: str = _field("", "data directory; empty: the environment variable MDFL_DATA_DIR")
    limit_train: int = _field(0, "use so many training samples, 0: all", at_least=0)
    limit_test: int = _field(0, "use so many test samples, 0: all", at_least=0)
    partition: str = _field("dirichlet", "how samples are divided", names=PARTITIONS)
    validation: int = _field(0, "training samples held out, to choose step sizes by", at_least=0)
    crop: int = _field(0, "training images are moved at random by up to so many pixels", at_least=0, at_most=64)
    flip: bool = _field(False, "training images are mirrored with probability one half")


@dataclass(frozen=True)
class ModelConfig:
    """What every client learns."""

    name: str = _field("cnn", "model", names=MODELS)
    pretrained: str = _field("", "weights file of a ResNet-18 or -50 (.safetensors, .npz, .pth); empty: random")


@dataclass(frozen=True)
class NetworkConfig:
    """Where clients are, how they move, whom they hear; under a graph nobody moves and no place is looked at."""

    num_clients: int = _field(20, "N", at_least=1, at_most=1_000_000)
    graph: str = _field(
        "",
        "who hears whom: a graph, or 'file'; empty: clients in space, as mobility says",
        names=lambda: ("", *GRAPHS, "file"),
    )
    num_mobile: int = _field(5, "M of the N clients move; under trace all do", at_least=0, traced=True)
    grid_size: int = _field(18, "G of the G x G grid", at_least=1, at_most=46_340)
    radius: float = _field(
        3.0, "communication radius Rc, in grid units or metres; inf: everybody", at_least=0, traced=True
    )
    radius_spread: float = _field(
        0.0, "radii are drawn in [1 - spread, 1 + spread] times the radius", at_least=0, at_most=1, traced=True
    )
    max_step: float = _field(5.0, "largest distance moved in a round, Rm; inf: unconstrained", at_least=0, traced=True)
    mobility: str = _field(
        "random_movement", "how the mobile clients move; not looked at under a graph", names=MOBILITIES
    )
    contact: str = _field(
        "disc", "in range at the round's beginning (disc), or during the last movement (swept)", names=CONTACTS
    )
    link_failure: float = _field(
        0.0, "probability that a link fails, a round and a direction", at_least=0, at_most=1, traced=True
    )
    link_fading: float = _field(
        0.0, "probability added to it at the edge of the radius", at_least=0, at_most=1, traced=True
    )
    mixing: str = _field("metropolis_hastings", "weights of the averaging", names=MIXINGS)


def _metres(default: float, doc: str, **rules: Any) -> Any:
    return _field(default, doc, finite=True, traced=True, **rules)


@dataclass(frozen=True)
class MotionConfig:
    """The plane [0, width] x [0, height], in metres and seconds, and the numbers of the mobility rules."""

    width: float = _metres(500.0, "of the rectangle", above=0)
    height: float = _metres(500.0, "of the rectangle", above=0)
    dt: float = _metres(1.0, "seconds of a round", above=0)
    boundary: str = _field("reflect", "what a wall does to a leg", names=BOUNDARIES, traced=True)
    warm_up: int = _field(0, "rounds moved before the first one", at_least=0, traced=True)


@dataclass(frozen=True)
class TraceConfig:
    """A trace file, and what is made of it under the mobility rules trace, static_trace and contacts."""

    file: str = _field("", "trace of places, or contact list; plain or .gz", traced=True)
    format: str = _field("auto", "its format; auto: by its ending or content", names=("auto", *FORMATS), traced=True)
    start: float = _field(
        0.0,
        "seconds (rounds of a list round,i,j) after its first that are passed over",
        at_least=0,
        finite=True,
        traced=True,
    )
    at_end: str = _field("refuse", "where the trace is shorter than the study", names=("refuse", *AT_END), traced=True)
    gaps: str = _field("hold", "where a vehicle is not seen: it stands there, or is absent", names=GAPS, traced=True)
    max_gap: float = _field(
        0.0, "seconds between samples that are no gap yet, 0: three times the median", at_least=0, traced=True
    )
    vehicles: str = _field(
        "longest", "those longest there, the first of the file, or one after another", names=VEHICLES, traced=True
    )
    substeps: int = _field(1, "straight pieces of a round's way", at_least=1, at_most=1000)
    directed: bool = _field(False, "of a contact list: i,j says only that i hears j", traced=True)


@dataclass(frozen=True)
class GraphConfig:
    """The graph that network.graph names; its weights are those of network.mixing."""

    file: str = _field("", "edge list i,j or matrix (.npy, .npz, text); an array [T, N, N] is one a round, cycled")
    directed: bool = _field(False, "of a file: i,j says only that i hears j")
    allow_disconnected: bool = _field(False, "random graphs and files need not be connected", traced=True)


@dataclass(frozen=True)
class ServerConfig:
    """A server that clients meet now and then, for the algorithms with one; a slot is a round.

    Under roadside, who can talk is as network says, with its radius; under the other patterns clients meet in random
    pairs, and network's places, contact and mixing are not looked at.
    """

    pattern: str = _field("", "when clients meet it; empty: there is none", names=lambda: ("", *PATTERNS, "roadside"))
    file: str = _field("", "table: file of lines client,slot")
    pairs: float = _field(
        0.5,
        "share of the clients that are paired in a slot, rho; not under roadside",
        at_least=0,
        at_most=1,
        traced=True,
    )
    known_next: bool = _field(True, "clients know their next meeting, or expect it a mean gap after the last")
    units: str = _field("", "roadside: places of the units 'x,y; x,y; ...' in the world's unit")
    unit_range: float = _field(100.0, "roadside: distance within which clients meet a unit", at_least=0, traced=True)
    one_at_a_time: bool = _field(True, "roadside: a client talks to one other in a slot, or to all in range")


@dataclass(frozen=True)
class AlgorithmConfig:
    """What is done in a round."""

    name: str = _field("dpsgd", "algorithm", names=ALGORITHMS)
    optimizer: str = _field("sgd", "local optimiser", names=OPTIMIZERS)
    lr_schedule: str = _field("constant", "learning rate over the local steps", names=LR_SCHEDULES)
    lr_final: float = _field(0.0, "last factor of the cosine, floor of the exponential", at_least=0, at_most=1)
    lr_decay: float = _field(0.99, "factor a step of the exponential", above=0, below=1)
    batch_size: int = _field(0, "samples of a minibatch, 0: full batch", at_least=0)
    local_steps: int = _field(1, "E, optimiser steps between exchanges", at_least=1)
    statistics: str = _field("mixed", "batch statistics: exchanged with the parameters, or each client's", names=KEPT)
    compressor: str = _field("", "of the messages; empty: the algorithm's own", names=lambda: ("", *COMPRESSORS))


@dataclass(frozen=True)
class EngineConfig:
    """How it is run: speed and memory, results by rounding only (batch normalisation takes blocks for batches)."""

    runs_per_batch: int = _field(
        0, "runs (point x seed) on the devices together, 0: the seeds of a point, 8 at least", at_least=0
    )
    runs_at_once: int = _field(
        0, "runs of a device mapped together, 0: one on CPU or where one fills an accelerator, else all", at_least=0
    )
    block_size: int = _field(
        0, "samples of a block in full-batch rounds, 0: by the clients' mean share", at_least=0, at_most=65_536
    )
    tile: int = _field(0, "samples in flight at once, 0: by the cache (CPU) or the memory", at_least=0, at_most=2**24)
    mapping: str = _field("chunk", "blocks computed together: all, a tile's worth, or one", names=MAPPINGS)
    precision: str = _field(
        "float32",
        "of the models' arithmetic; float64, of the tasks that have it, is that of weights too",
        names=(*PRECISIONS, "float64"),
    )
    convolution: str = _field("auto", "form of the convolutions", names=("auto", *FORMS))
    remat: bool = _field(False, "compute stages again for the gradient instead of keeping them")
    mixing_bound: int = _field(0, "senders in a neighbour list, 0: by N; fuller rounds take the product", at_least=0)
    client_devices: int = _field(
        0, "devices that share a run, a divisor of all, 0: one, or all where runs are fewer", at_least=0
    )
    memory_mib: int = _field(0, "memory bound of a device in MiB, 0: what it has", at_least=0)
    checkpoint_minutes: float = _field(5.0, "minutes between checkpoints", above=0)
    record_positions: bool = _field(True, "keep every round's places, for maps")


@dataclass(frozen=True)
class Experiment:
    """A study: what is run, how long, over which points and seeds."""

    name: str = _field("study", "name of the study and of its default workdir")
    title: str = _field("", "headline of the report")
    sweep: str = _field("", "axes of the sweep: 'network.mobility=static,dcm; data.alpha=0.05,0.1'")
    baseline: str = _field("", "point that others are compared with: 'network.mobility=random_movement'")
    seeds: int = _field(6, "number of seeds", at_least=1, at_most=1_000_000)
    first_seed: int = _field(0, "seeds are first_seed, first_seed + 1, ...", at_least=0)
    rounds: int = _field(400, "R", at_least=1)
    eval_every: int = _field(20, "rounds between evaluations", at_least=1)
    target: float = _field(0.8, "accuracy whose first round is reported", above=0, below=1)
    judged: str = _field(
        "clients",
        "whose accuracy is measured: the clients' models, or only the global one (the server's, else their mean)",
        names=("clients", "global"),
    )
    stop_std: float = _field(
        0.0,
        "of tasks with an objective: a run ends where its deviation over three rounds is below this, 0: never",
        at_least=0,
        finite=True,
    )
    select: str = _field("", "axis of which the best value by the validation loss is reported: 'algorithm.lr'")
    x_axis: str = _field("rounds", "of the figures' curves", names=X_AXES)
    data: DataConfig = dataclasses.field(default_factory=DataConfig)
    model: ModelConfig = dataclasses.field(default_factory=ModelConfig)
    network: NetworkConfig = dataclasses.field(default_factory=NetworkConfig)
    motion: MotionConfig = dataclasses.field(default_factory=MotionConfig)
    graph: GraphConfig = dataclasses.field(default_factory=GraphConfig)
    trace: TraceConfig = dataclasses.field(default_factory=TraceConfig)
    server: ServerConfig = dataclasses.field(default_factory=ServerConfig)
    algorithm: AlgorithmConfig = dataclasses.field(default_factory=AlgorithmConfig)
    engine: EngineConfig = dataclasses.field(default_factory=EngineConfig)
