"""The configuration of a study: typed, with bounds, every default in one place.

A config file (``configs/*.py``) takes `default_config`, changes what it needs and returns it; `resolve` turns the
ml_collections tree into frozen dataclasses and names the field, its value and what is allowed where something is off.
A field marked ``traced`` is a number that sweep points may differ in without compiling again.
"""

import contextlib
import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from ml_collections import ConfigDict

from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.data.partition import PARTITIONS
from mdfl_jax.errors import UserError, unknown_name
from mdfl_jax.experiments.world_checks import check_world
from mdfl_jax.gradients import MAPPINGS
from mdfl_jax.mobility import BOUNDARIES, MOBILITIES
from mdfl_jax.models import MODELS
from mdfl_jax.models.conv import FORMS
from mdfl_jax.networks.contact import CONTACTS
from mdfl_jax.networks.mixing import MIXINGS
from mdfl_jax.tasks import PRECISIONS

LR_SCHEDULES = ("constant", "cosine", "exponential")
OPTIMIZERS = ("adam", "sgd")
LARGEST = 2**31 - 1  # the programs count in 32 bits


def _field(default: Any, doc: str, **rules: Any) -> Any:
    """A field with its rules: at_least, above, at_most, below, odd, finite, names (those known), traced."""
    return dataclasses.field(default=default, metadata={"doc": doc, **rules})


@dataclass(frozen=True)
class DataConfig:
    """Which samples, and who holds them."""

    name: str = _field("digits", "digits, the name of an .npz in dir, or tfds:<name>")
    dir: str = _field("", "data directory; empty: the environment variable MDFL_DATA_DIR")
    limit_train: int = _field(0, "use so many training samples, 0: all", at_least=0)
    limit_test: int = _field(0, "use so many test samples, 0: all", at_least=0)
    partition: str = _field("dirichlet", "how samples are divided", names=PARTITIONS)
    alpha: float = _field(0.05, "concentration of the Dirichlet partition", above=0, finite=True, traced=True)
    classes_per_client: int = _field(2, "of the partition of that name", at_least=1)
    shards_per_client: int = _field(2, "of the partition 'shards'", at_least=1)


@dataclass(frozen=True)
class ModelConfig:
    """What every client learns."""

    name: str = _field("cnn", "model", names=MODELS)
    widths: tuple[int, ...] = _field((16, 32), "channels of the convolutions (cnn) or hidden widths (mlp)", at_least=1)
    kernel: int = _field(3, "size of the convolutions' kernels", at_least=1, odd=True)
    hidden: int = _field(64, "width of the dense layer behind the convolutions", at_least=1)


@dataclass(frozen=True)
class NetworkConfig:
    """Where clients are, how they move, whom they hear."""

    num_clients: int = _field(20, "N", at_least=1, at_most=1_000_000)
    num_mobile: int = _field(5, "M of the N clients move", at_least=0, traced=True)
    grid_size: int = _field(18, "G of the G x G grid", at_least=1, at_most=46_340)
    radius: float = _field(
        3.0, "communication radius Rc, in grid units or metres; inf: everybody", at_least=0, traced=True
    )
    radius_spread: float = _field(
        0.0, "radii are drawn in [1 - spread, 1 + spread] times the radius", at_least=0, at_most=1, traced=True
    )
    max_step: float = _field(5.0, "largest distance moved in a round, Rm; inf: unconstrained", at_least=0, traced=True)
    mobility: str = _field("random_movement", "how the mobile clients move", names=MOBILITIES)
    warm_up_met: float = _field(
        0.5, "dam_met, dcm_met: share of the static clients met at random first", at_least=0, at_most=1, traced=True
    )
    tell_met: bool = _field(False, "dam_met, dcm_met: mobile clients in range tell whom they met", traced=True)
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
    ratio: float = _field(0.5, "weight of the speeds in the mixing speed_aware", at_least=0, at_most=1, traced=True)


def _metres(default: float, doc: str, **rules: Any) -> Any:
    return _field(default, doc, finite=True, traced=True, **rules)


@dataclass(frozen=True)
class MotionConfig:
    """The plane [0, width] x [0, height] and how clients move in it: metres, seconds, metres a second."""

    width: float = _metres(500.0, "of the rectangle", above=0)
    height: float = _metres(500.0, "of the rectangle", above=0)
    dt: float = _metres(1.0, "seconds of a round", above=0)
    boundary: str = _field("reflect", "what a wall does to a leg", names=BOUNDARIES, traced=True)
    warm_up: int = _field(0, "rounds moved before the first one", at_least=0, traced=True)
    speed_min: float = _metres(1.0, "smallest speed drawn", at_least=0)
    speed_max: float = _metres(50.0, "largest speed drawn; of the slow clients under random_walk", at_least=0)
    beta: float = _metres(1.75, "random_walk: fast clients have beta to 2 beta times speed_max", at_least=0)
    up: float = _field(0.25, "random_walk: probability of this direction", at_least=0, at_most=1, traced=True)
    down: float = _field(0.25, "random_walk: probability of this direction", at_least=0, at_most=1, traced=True)
    left: float = _field(0.25, "random_walk: probability of this direction", at_least=0, at_most=1, traced=True)
    right: float = _field(0.25, "random_walk: probability of this direction", at_least=0, at_most=1, traced=True)
    pause_min: float = _metres(0.0, "shortest pause between legs", at_least=0)
    pause_max: float = _metres(0.0, "longest pause between legs, 0: none", at_least=0)
    steady_start: bool = _field(True, "random_waypoint, group: start in the stationary law", traced=True)
    leg_time: float = _metres(10.0, "random_direction: mean seconds of a leg", above=0)
    alpha: float = _field(
        0.75, "gauss_markov: memory of the velocity from round to round", at_least=0, at_most=1, traced=True
    )
    mean_speed: float = _metres(0.0, "gauss_markov: speed of the mean velocity", at_least=0)
    mean_direction: float = _metres(
        0.0, "gauss_markov: its direction, degrees counterclockwise from east", at_least=-360, at_most=360
    )
    speed_std: float = _metres(10.0, "gauss_markov: deviation of each component of the velocity", at_least=0)
    block: float = _metres(100.0, "manhattan: metres between two streets", above=0)
    turn: float = _field(0.5, "manhattan: probability of turning off at a crossing", at_least=0, at_most=1, traced=True)
    flight_exponent: float = _metres(1.0, "levy_walk: density of flight lengths is l^-(1 + exponent)", above=0)
    flight_min: float = _metres(10.0, "levy_walk: shortest flight", above=0)
    flight_max: float = _metres(500.0, "levy_walk: longest flight", above=0)
    pause_exponent: float = _metres(1.0, "levy_walk: density of pauses is t^-(1 + exponent)", above=0)
    groups: int = _field(4, "group: how many groups", at_least=1, traced=True)
    group_radius: float = _metres(50.0, "group: farthest of a member from its reference point", at_least=0)
    loop: str = _field("50,50; 450,50; 450,450; 50,450", "patrol: waypoints 'x,y; x,y; ...' in metres")


@dataclass(frozen=True)
class AlgorithmConfig:
    """What is done in a round."""

    name: str = _field("dpsgd", "algorithm", names=ALGORITHMS)
    optimizer: str = _field("sgd", "local optimiser", names=OPTIMIZERS)
    lr: float = _field(0.1, "learning rate", above=0, finite=True, traced=True)
    momentum: float = _field(0.0, "of SGD", at_least=0, below=1, traced=True)
    weight_decay: float = _field(0.0, "weight decay", at_least=0, finite=True, traced=True)
    lr_schedule: str = _field("constant", "learning rate over the local steps", names=LR_SCHEDULES)
    lr_final: float = _field(0.0, "last factor of the cosine, floor of the exponential", at_least=0, at_most=1)
    lr_decay: float = _field(0.99, "factor a step of the exponential", above=0, at_most=1)
    batch_size: int = _field(0, "samples of a minibatch, 0: full batch", at_least=0)
    local_steps: int = _field(1, "E, optimiser steps between exchanges", at_least=1)


@dataclass(frozen=True)
class EngineConfig:
    """How it is run: speed and memory, never results beyond rounding."""

    runs_per_batch: int = _field(
        0, "runs (point x seed) on the devices together, 0: the seeds of a point, 8 at least", at_least=0
    )
    runs_at_once: int = _field(0, "runs of a device mapped together, 0: one on CPU, all on accelerators", at_least=0)
    block_size: int = _field(
        0, "samples of a block in full-batch rounds, 0: by the clients' mean share", at_least=0, at_most=65_536
    )
    tile: int = _field(0, "samples in flight at once, 0: by the cache (CPU) or 16384", at_least=0, at_most=2**24)
    mapping: str = _field("chunk", "blocks computed together: all, a tile's worth, or one", names=MAPPINGS)
    precision: str = _field("float32", "of the models' arithmetic; weights are float32 always", names=PRECISIONS)
    convolution: str = _field("auto", "form of the convolutions", names=("auto", *FORMS))
    remat: bool = _field(False, "compute stages again for the gradient instead of keeping them")
    mixing_bound: int = _field(0, "senders in a neighbour list, 0: by N; fuller rounds take the product", at_least=0)
    client_devices: int = _field(0, "devices that share a run, 0: all where runs are fewer than devices", at_least=0)
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
    data: DataConfig = dataclasses.field(default_factory=DataConfig)
    model: ModelConfig = dataclasses.field(default_factory=ModelConfig)
    network: NetworkConfig = dataclasses.field(default_factory=NetworkConfig)
    motion: MotionConfig = dataclasses.field(default_factory=MotionConfig)
    algorithm: AlgorithmConfig = dataclasses.field(default_factory=AlgorithmConfig)
    engine: EngineConfig = dataclasses.field(default_factory=EngineConfig)


def default_config() -> ConfigDict:
    """Every field with its default, to be changed by a config file; unknown fields cannot be added."""
    return ConfigDict(dataclasses.asdict(Experiment())).lock()


def all_fields(kind: type = Experiment, prefix: str = "") -> dict[str, dataclasses.Field]:
    """The fields of a config by path: {'network.radius': field, ...}."""
    found: dict[str, dataclasses.Field] = {}
    for field in dataclasses.fields(kind):
        if dataclasses.is_dataclass(field.type):
            found |= all_fields(field.type, f"{prefix}{field.name}.")  # type: ignore[arg-type]
        else:
            found[prefix + field.name] = field
    return found


def check_key(path: str) -> dataclasses.Field:
    """The field at a path.

    Raises:
      UserError: where there is none; the nearest is suggested.
    """
    fields = all_fields()
    if path not in fields:
        raise UserError(unknown_name("config key", path, fields))
    return fields[path]


def check_value(path: str, value: Any) -> Any:
    """The value of a field in its type, within its bounds.

    Raises:
      UserError: naming the field, its value and what is allowed.
    """
    field = check_key(path)
    rules = field.metadata
    value = _typed(path, field.type, value)
    for item in value if isinstance(value, tuple) else (value,):
        _check_bounds(path, item, rules)
    if "names" in rules and value not in rules["names"]:
        raise UserError(f"{path}: {unknown_name(path.split('.')[-1], value, rules['names'])}")
    return value


def in_words(kind: Any) -> str:
    """What a field of a type takes, for error lines."""
    words = {float: "a number", int: "a whole number", str: "a text", bool: "true or false"}
    return words.get(kind, "whole numbers, as in (16, 32)")


def _typed(path: str, kind: Any, value: Any) -> Any:
    """The value as the field's type: whole numbers pass as floats, sequences of whole numbers as tuples."""
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        with contextlib.suppress(OverflowError):
            return float(value)
    if kind in (int, str, bool) and type(value) is kind:
        return value
    if kind == tuple[int, ...] and isinstance(value, Iterable) and not isinstance(value, str):
        items = tuple(value)
        if all(type(item) is int for item in items):
            return items
    shown = " ".join(repr(value).split())  # a ConfigDict takes several lines
    raise UserError(f"{path} is {shown}; it must be {in_words(kind)}")


def _single(value: float) -> float:
    """A number as the programs see it, in single precision: what is too small is 0, what is too large infinite."""
    with np.errstate(over="ignore"):
        single = np.float32(value)
    return 0.0 if abs(single) < np.finfo(np.float32).tiny else float(single)


def _check_bounds(path: str, value: Any, rules: Any) -> None:
    tests = {
        "at_least": (lambda v, b: v >= b, "at least"),
        "above": (lambda v, b: v > b, "greater than"),
        "at_most": (lambda v, b: v <= b, "at most"),
        "below": (lambda v, b: v < b, "less than"),
    }
    seen = _single(value) if isinstance(value, float) and rules.get("traced") else value
    present = [name for name in tests if name in rules]
    broken = any(not tests[name][0](seen, rules[name]) for name in present)  # NaN breaks every bound
    if broken or (rules.get("finite") and not math.isfinite(seen)):
        allowed = " and ".join(f"{tests[name][1]} {rules[name]}" for name in present)
        rounded = f", {seen} in single precision" if seen in (0.0, math.inf) and seen != value else ""
        finite = " and finite" if rules.get("finite") else ""
        raise UserError(f"{path} is {value}{rounded}; it must be {allowed}{finite}")
    if isinstance(value, int) and value > LARGEST:
        raise UserError(f"{path} is {value}; it must be at most {LARGEST}")
    if rules.get("odd") and value % 2 == 0:
        raise UserError(f"{path} is {value}; it must be odd")


def resolve(config: ConfigDict) -> Experiment:
    """The frozen, checked configuration.

    Raises:
      UserError: for an unknown field, a wrong type, a value out of bounds or fields that contradict each other.
    """

    def section(kind: type, tree: Any, prefix: str) -> Any:
        if not isinstance(tree, ConfigDict | Mapping):
            raise UserError(f"{prefix[:-1] or 'the config'} is {tree!r}; it must be a section with fields of its own")
        known = {field.name: field for field in dataclasses.fields(kind)}
        for name in tree:
            if name not in known:
                raise UserError(unknown_name("config key", prefix + name, all_fields()))
        values = {}
        for name, field in known.items():
            if name not in tree:
                continue
            if dataclasses.is_dataclass(field.type):
                values[name] = section(field.type, tree[name], f"{prefix}{name}.")  # type: ignore[arg-type]
            else:
                values[name] = check_value(prefix + name, tree[name])
        return kind(**values)

    experiment: Experiment = section(Experiment, config, "")
    check_together(experiment)
    return experiment


def check_together(experiment: Experiment) -> None:
    """Checks what one field alone cannot tell.

    Raises:
      UserError: naming the fields and their values.
    """
    network, data = experiment.network, experiment.data
    if network.num_mobile > network.num_clients:
        raise UserError(
            f"network.num_mobile is {network.num_mobile}; it must be at most network.num_clients, "
            f"which is {network.num_clients}"
        )
    check_world(network, experiment.motion)
    if experiment.rounds % experiment.eval_every:
        raise UserError(
            f"rounds is {experiment.rounds}; it must be a multiple of eval_every, which is {experiment.eval_every}"
        )
    if experiment.model.name in ("cnn", "gn_lenet") and not experiment.model.widths:
        raise UserError(f"model.widths is (); model.name {experiment.model.name} needs one width or more")
    name = experiment.name
    if name in ("", ".", "..") or any(c in name for c in "/\\\0") or len(name.encode()) > 200:
        raise UserError(f"name is {name!r}; it must be a file name of at most 200 bytes")
    if not data.name:
        raise UserError("data.name is ''; it must be digits, the name of an .npz in data.dir, or tfds:<name>")
