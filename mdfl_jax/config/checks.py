"""Rules for fields that depend on each other, and the fields whose text has a form of its own.

A rule names a field, says whether its value is refused, and says what it must be and why. `check_together` turns the
first rule that refuses a value into one line: "network.order is move_first; it must be mix_first: a graph knows no
places". Checking stops at the first violation. What a single entry of a registry can check, it checks itself.

The texts are `save` (checkpoints), `loggers`, `server.units`, and `vary` (random streams). By default a seed decides
all draws of a run. A study of where the variance over seeds comes from lets only some streams follow the seed (`vary`),
and all others draw as under one seed (`held_seed`). The key of such a run is an array with a key for each stream
(`mdfl_jax.core.rng`), so sweep points with different streams share one program.
"""

import dataclasses
import importlib.util
import math
import re
from collections.abc import Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import Settings
from mdfl_jax.algorithms.registry import aggregation_in_use, ignored_by
from mdfl_jax.config.sections import (
    Experiment,
    NetworkConfig,
    check_members,
    entries_in_use,
    is_partial,
    is_proximal,
    numbers_in,
    participation_of,
    task_numbers,
    task_of,
)
from mdfl_jax.core import rng
from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.core.numbers import fields_of, from_values
from mdfl_jax.core.outcomes import enumerated
from mdfl_jax.core.registry import Registry
from mdfl_jax.core.section import Rule, is_counted, sections, switch
from mdfl_jax.core.sweep_text import labels_of
from mdfl_jax.exchange.aggregation import AGGREGATIONS
from mdfl_jax.mobility import MOBILITIES
from mdfl_jax.mobility.registry import movement_of, world_in
from mdfl_jax.mobility.rule import FILES, WORLDS
from mdfl_jax.models import MODELS
from mdfl_jax.models.conv import FORMS
from mdfl_jax.models.weights import WEIGHTS
from mdfl_jax.networks.costs import remembers_all, sends_parts
from mdfl_jax.networks.graphs import GRAPHS
from mdfl_jax.networks.wrappers.attacked import AttackConfig
from mdfl_jax.networks.wrappers.clocks import ClockConfig
from mdfl_jax.networks.wrappers.roadside import ServerConfig
from mdfl_jax.storage.model_files import is_saved
from mdfl_jax.storage.study_files import MODEL_FOLDER
from mdfl_jax.tasks import TASKS

OWN, MEAN = "own", "mean"  # where each client starts: with its own checkpoint, or all with their mean
LISTS_ABOVE = 512  # clients; up to this number matrices are as fast, and lambda_2 and records need them anyway
MOST_EVALUATIONS = 1_000_000  # of a run


def check_together(experiment: Experiment) -> None:
    """Check a configuration as a whole: its fields against each other, and the hyperparameters of the entries in use.

    Raises:
      UserError: If the fields contradict each other. The message names the fields and their values.
    """
    own = [kind.of(experiment).rules for kind in sections()]
    for rules in (_network, _places, _relays, _task, _start, _algorithm, *own, _rounds):
        for path, is_refused, must in rules(experiment):
            if is_refused:
                raise UserError(f"{path} is {_shown(experiment, path)}; it must be {must}")
    check_members(experiment)
    check_vary(experiment)
    parse_save(experiment.save, experiment.rounds, experiment.eval_every)
    parse_loggers(experiment.loggers)
    labels_of(experiment.labels)


def _shown(experiment: Experiment, path: str) -> str:
    """Return the value of a field for an error line: names and numbers as they are, other texts in quotes."""
    section, _, name = path.rpartition(".")
    part, value = attrgetter(section)(experiment) if section else experiment, attrgetter(path)(experiment)
    is_name = value and "names" in type(part).__dataclass_fields__[name].metadata
    return repr(value) if isinstance(value, str) and not is_name else f"{value}"


def _network(experiment: Experiment) -> Iterator[Rule]:
    network, num_clients = experiment.network, experiment.network.num_clients
    if network.graph:
        sees_nothing = "a graph"
        yield "graph.file", network.graph == "file" and not experiment.graph.file, "a file: network.graph is file"
    else:
        movement, needs = movement_of(experiment), needs_file(experiment)
        at_most = f"at most network.num_clients, which is {num_clients}"
        yield "network.num_mobile", network.num_mobile > num_clients and not needs, at_most  # in a file all N move
        MOBILITIES.form(movement)  # refuses a world or a knowledge that the rule lacks
        sees_nothing = "a contact list" if world_in(experiment) == "contacts" else ""
        yield "trace.file", needs and not experiment.trace.file, f"a file: network.mobility {movement} follows it"
    if sees_nothing:
        yield "network.link_fading", network.link_fading > 0, f"0: {sees_nothing} knows no distances"
        by_speed = network.mixing.startswith("speed_aware")
        yield "network.mixing", by_speed, f"a rule without speeds: {sees_nothing} knows none"
    if network.graph in GRAPHS:
        GRAPHS[network.graph].check_size(num_clients)
    engine = experiment.engine
    yield "engine.max_neighbours", engine.max_neighbours and engine.links == "dense", "0 with engine.links=dense"


def _places(experiment: Experiment) -> Iterator[Rule]:
    """Yield the rules for clients that move before they mix.

    They need places that they can leave. The places before the first round are then those after a movement, which may
    depend on the data, so no data can be divided by them.
    """
    network, pattern, usual = experiment.network, ServerConfig.of(experiment).pattern, NetworkConfig().order
    if network.order == usual:
        return
    where = f"{usual}: a graph (network.graph is {network.graph}) knows no places"
    yield "network.order", network.graph, where
    nowhere = world_in(experiment) == "contacts"
    yield "network.order", nowhere, f"{usual}: network.mobility {network.mobility} knows no places"
    drawn = pattern not in ("", "roadside")
    yield "network.order", drawn, f"{usual}: under server.pattern {pattern} pairs are drawn"
    by_place = getattr(task_numbers(experiment), "needs_places", False)
    partition = experiment.data.partition
    yield "network.order", by_place, f"{usual}: data.partition {partition} reads the places before any movement"


def _relays(experiment: Experiment) -> Iterator[Rule]:
    """Yield the rules for relays: they have places of their own, somebody has data, and mixing heeds relays."""
    network, pattern, path = experiment.network, ServerConfig.of(experiment).pattern, "network.relays"
    if not network.relays:
        return
    clients = network.num_clients - network.relays
    yield path, clients < 1, f"at most {network.num_clients - 1}: network.num_clients is {network.num_clients}"
    yield path, network.graph, f"0 with network.graph {network.graph}: its clients have no places"
    takes = MOBILITIES.form(movement_of(experiment)).make().relays
    yield path, not takes, f"0 with network.mobility {network.mobility}: its clients all move or have places"
    yield path, pattern not in ("", "roadside"), f"0 with server.pattern {pattern}: pairs are drawn"
    data = experiment.data.name
    yield path, not task_of(experiment).of_datasets, f"0 with data.name {data}: each seed draws every client's data"
    weighs = "0 with network.mixing fedavg: it weighs clients by their samples, and relays have none"
    yield path, network.mixing == "fedavg", weighs
    at_most = f"at most network.num_clients - network.relays, which is {clients}"
    yield "network.num_mobile", network.num_mobile > clients, at_most


def _task(experiment: Experiment) -> Iterator[Rule]:
    name, task, model = experiment.data.name, task_of(experiment), experiment.model
    have = ", ".join(known for known in TASKS if TASKS[known].has_objective)
    yield "stop_std", experiment.stop_std and not task.has_objective, f"0 unless data.name is one of {have}"
    allowed = f"{enumerated(task.precisions, 'or')} with data.name {name}"
    engine = experiment.engine
    yield "engine.precision", engine.precision not in task.precisions, allowed
    halves = engine.convolution in FORMS and FORMS[engine.convolution].of_float32 and engine.precision == "bfloat16"
    yield "engine.convolution", halves, "another form with engine.precision bfloat16: this one is in float32"
    for field in ("loss", "trainable"):
        yield f"model.{field}", getattr(model, field) and not task.of_datasets, f"empty with data.name {name}"
    yield "data.name", not name, "digits, the name of an .npz in data.dir, or tfds:<name>"


def _start(experiment: Experiment) -> Iterator[Rule]:
    """Yield the rules for weights that are not drawn: pretrained ones, or checkpoints. No file is read."""
    model, name = experiment.model, experiment.algorithm.name
    if names_saved(model.pretrained):
        is_server = ALGORITHMS[name](Settings()).global_model
        why = f"{MEAN}: with algorithm.name {name} all clients start from the global model"
        yield "model.pretrained_clients", model.pretrained_clients == OWN and is_server, why
        return
    unless = f"{OWN} unless model.pretrained names checkpoints of a study, and it is {model.pretrained!r}"
    yield "model.pretrained_clients", model.pretrained_clients != OWN, unless
    if model.pretrained:
        drawn = not task_of(experiment).of_datasets
        yield "model.pretrained", drawn, f"empty with data.name {experiment.data.name}"
        models = WEIGHTS[Path(model.pretrained).suffix].models
        weights = f"{enumerated(list(models), 'or')}: {model.pretrained!r} holds weights of such a model"
        yield "model.name", model.name not in models, weights
        norm = from_values(MODELS.numbers(model.name), vars(model)).norm
        yield "model.pretrained", norm != "batch", f"empty with model.norm {norm}: weights are of networks with batch"


_ONE_STEP, _RECURSION = "takes one gradient step a round", "has its step in its recursion"
UNUSED = {
    "aggregation": "mixes no whole models by the network's weights",
    "compressor": "sends nothing compressed",
    "local_epochs": _ONE_STEP,
    "local_steps": _ONE_STEP,
    "momentum": f"{_RECURSION}, which knows no momentum",
    "optimizer": _RECURSION,
    "proximal": _ONE_STEP,
    "statistics": "exchanges whole models",
}
"""Why an algorithm ignores a setting."""


_PICKED = "metropolis_hastings"  # the rule that weighs the links which are picked


def _algorithm(experiment: Experiment) -> Iterator[Rule]:
    config, ignored = experiment.algorithm, ignored_by(experiment.algorithm.name)
    ignored |= {"local_epochs", "proximal"} if "local_steps" in ignored else set()
    for setting in sorted(ignored.intersection(UNUSED)):
        default = type(config).__dataclass_fields__[setting].default
        unset, value = 0.0 if default is None else default, getattr(config, setting)
        must = f"{unset!r}: {config.name} {UNUSED[setting]}"
        yield f"algorithm.{setting}", value not in (None, unset), must
    yield from _local_work(experiment)
    yield from _parts(experiment)
    rule = aggregation_in_use(config.name, config.aggregation)
    loses = rule and ALGORITHMS.traits(config.name).keeps_sum and not AGGREGATIONS.traits(rule).keeps_mean
    keep = enumerated([name for name in AGGREGATIONS if AGGREGATIONS.traits(name).keeps_mean], "or")
    yield (
        "algorithm.aggregation",
        loses,
        f"{keep}: {rule} moves the mean of what {config.name} mixes, whose sum must stay",
    )
    shared = experiment.model.shared and "statistics" in ignored
    yield "model.shared", shared, f"empty: {config.name} exchanges whole models"
    share, period = participation_of(experiment)
    weighed = is_partial(experiment) and share < 1 and experiment.network.mixing != _PICKED
    yield "network.mixing", weighed, f"{_PICKED}, the weights of the links that algorithm.participation {share:g} picks"
    pattern = ServerConfig.of(experiment).pattern
    once, thinned = f"1 with server.pattern {pattern}: clients talk in pairs", pattern and is_partial(experiment)
    yield "algorithm.participation", thinned and share < 1, once
    yield "algorithm.period_max", thinned and period > 1, once
    joins = ClockConfig.of(experiment).joins
    slots = f"1 with clock.joins {joins}: a period counts slots, and works may never end in those that it divides"
    yield "algorithm.period_max", joins and is_partial(experiment) and period > 1, slots


def _local_work(experiment: Experiment) -> Iterator[Rule]:
    config, epochs = experiment.algorithm, experiment.algorithm.local_epochs
    within = f"1 or more: algorithm.local_epochs is {epochs}, and a full batch has no epochs"
    yield "algorithm.batch_size", epochs and not config.batch_size, within
    counted = f"1: algorithm.local_epochs is {epochs}, which says how many steps there are"
    yield "algorithm.local_steps", epochs and config.local_steps > 1, counted
    known = f"constant or exponential: with algorithm.local_epochs {epochs} the data decides how many steps there are"
    yield "algorithm.lr_schedule", epochs and config.lr_schedule == "cosine", known
    drawn = f"0 with data.name {experiment.data.name}, which has no minibatches of epochs"
    yield "algorithm.local_epochs", epochs and not task_of(experiment).has_epochs, drawn
    one = not epochs and config.local_steps == 1
    near = "0: algorithm.local_steps is 1, and a first step begins at the model that it is held near"
    yield "algorithm.proximal", one and is_proximal(experiment), near


def _parts(experiment: Experiment) -> Iterator[Rule]:
    """Yield the rules for messages that carry a part of a model."""
    config, rule = experiment.algorithm, aggregation_in_use(experiment.algorithm.name, experiment.algorithm.aggregation)
    if not sends_parts(experiment):
        return
    mixes = bool(rule) and not ALGORITHMS.traits(config.name).keeps_sum
    mixes &= (
        "local_steps" not in ignored_by(config.name) and not ALGORITHMS[config.name](Settings()).traits.asynchronous
    )
    whole = "another one: {} needs whole models".format
    yield "cost.short_contact", not mixes, whole(f"algorithm.name {config.name}")
    yield "cost.short_contact", rule != "mean", whole(f"algorithm.aggregation {rule}")
    attack = AttackConfig.of(experiment)
    yield "cost.short_contact", attack.in_use(experiment), whole(f"attack.name {attack.name}")


def _rounds(experiment: Experiment) -> Iterator[Rule]:
    rounds, eval_every, name = experiment.rounds, experiment.eval_every, experiment.name
    yield "rounds", rounds % eval_every, f"a multiple of eval_every, which is {eval_every}"
    most = f"at most {MOST_EVALUATIONS * eval_every}: a run has at most {MOST_EVALUATIONS:,} evaluations"
    yield "rounds", rounds // eval_every > MOST_EVALUATIONS, most
    is_file = name not in ("", ".", "..") and not any(c in "/\\\0" or "\ud800" <= c <= "\udfff" for c in name)
    yield "name", not is_file or len(name.encode()) > 200, "a file name of at most 200 bytes in UTF-8"


def needs_file(experiment: Experiment) -> bool:
    """Tell whether a file gives the world in which the point's clients move."""
    return not experiment.network.graph and world_in(experiment) in FILES


def check_used(experiments: Sequence[Experiment]) -> None:
    """Check that some sweep point uses each file that is named.

    Raises:
      UserError: If no sweep point uses one of them.
    """
    first = experiments[0]
    given = [path for path, each, value in _fields(first) if each.metadata.get("file") and value != each.default]
    why = idle_in_all(experiments) if given else {}
    for path in given:
        if path in why:
            raise UserError(f"{path} is {_shown(first, path)}; nothing reads it: {why[path]}")


def wants_lists(experiment: Experiment) -> bool:
    """Tell whether the links of a point are neighbour lists, unless they turn out to be too long."""
    engine, network = experiment.engine, experiment.network
    if engine.links != "auto":
        return engine.links == "lists"
    if remembers_all(experiment):
        return False
    if network.graph and (network.graph == "file" or GRAPHS[network.graph].heard is None):
        return False
    return network.num_clients > LISTS_ABOVE and math.isfinite(network.radius)


def names_saved(text: str) -> bool:
    """Tell whether a value of `model.pretrained` names checkpoints of a study, in place of a file of weights."""
    path = Path(text)
    return bool(text) and (path.is_dir() or path.suffix not in WEIGHTS or _is_saved(path))


def _is_saved(path: Path) -> bool:
    """Tell whether a file holds checkpoints. A file of this package's layout that cannot be read is one, too."""
    return is_saved(path) or (path.suffix == ".safetensors" and path.parent.name == MODEL_FOLDER)


def config_notes(experiment: Experiment, num_samples: int) -> Iterator[str]:
    """Yield a line for each field whose value is allowed, and probably not what is meant (`Section.notes`)."""
    for kind in sections():
        for path, is_noted, why in kind.of(experiment).notes(experiment, num_samples):
            if is_noted:
                yield f"{path} is {_shown(experiment, path)}; {why}"


def idle(experiment: Experiment) -> Iterator[tuple[str, str]]:
    """Yield the fields that are set and have no effect, with the reasons, as the entries in use declare it.

    A field says what it is about by ``part`` (`mdfl_jax.core.section.field`), and a section which parts or fields are
    ignored (`mdfl_jax.core.section.Section.ignored`). A hyperparameter is ignored where no entry in use declares it.
    What an algorithm ignores (`mdfl_jax.algorithms.registry.register`) is refused before.
    """
    off = dict[str, str]()
    for part, is_ignored, why in _ignored(experiment):
        if is_ignored:
            off.setdefault(part, why)
    used = {
        f"{of.section}.{n}": each
        for of, _, own in entries_in_use(experiment)
        for n, each in fields_of(type(own)).items()
    }
    for path, each, value in _fields(experiment):
        declared = used.get(path, each)
        part = declared.metadata.get("part", "")
        other, _, values = part.partition("=")
        if value in (None, each.default, declared.default):
            continue
        if why := off.get(path, off.get(part, "")):
            yield path, why
        elif values and str(attrgetter(other)(experiment)) not in values.split(","):
            yield path, f"{other} is {_shown(experiment, other)}"
        elif declared is each and (own := each.metadata.get("own")):
            yield path, f"only {enumerated(own, 'and')} {'use' if len(own) > 1 else 'uses'} it"


def idle_in_all(experiments: Sequence[Experiment]) -> dict[str, str]:
    """Return the fields that are set and have no effect in any sweep point, with the reasons, by their paths."""
    of_points = [dict(idle(experiment)) for experiment in experiments]
    return {path: why for path, why in of_points[0].items() if all(path in of_point for of_point in of_points)}


def told_idle(experiments: Sequence[Experiment]) -> dict[str, str]:
    """Return a line for each field of `idle_in_all`, by its path."""
    first, found = experiments[0], idle_in_all(experiments)
    return {path: f"{path} is {_shown(first, path)}; ignored: {why}" for path, why in found.items()}


def _fields(experiment: Experiment) -> Iterator[tuple[str, dataclasses.Field, Any]]:
    """Yield the fields of the sections: path, declaration and value."""
    for section in dataclasses.fields(experiment):
        part = getattr(experiment, section.name)
        for each in dataclasses.fields(part) if dataclasses.is_dataclass(part) else ():
            yield f"{section.name}.{each.name}", each, getattr(part, each.name)


def _ignored(experiment: Experiment) -> Iterator[Rule]:
    """Yield the parts of a study, or fields, whether the entries in use ignore them, and why."""
    network, pattern, name = experiment.network, ServerConfig.of(experiment).pattern, experiment.algorithm.name
    needs, pairs = ALGORITHMS[name](Settings()).needs, pattern not in ("", "roadside")
    by_pairs = f"under server.pattern {pattern} pairs are drawn"
    picks = is_partial(experiment) and participation_of(experiment)[0] < 1
    for part in ("places", "world", "steps", "grid", "plane", "knowledge", "trace", "streets"):
        yield part, network.graph, f"the links are those of network.graph {network.graph}"
        yield part, pairs, by_pairs
    yield "graph", not network.graph, "network.graph is empty"
    yield "relays", not network.relays, "network.relays is 0"
    in_space = not network.graph and not pairs
    has_slots = is_counted(experiment) and (in_space or ClockConfig.of(experiment).in_use(experiment))
    in_metres = in_space and world_in(experiment) != "grid"
    lasts = has_slots or in_metres or any(kind.of(experiment).lasts(experiment) for kind in sections())
    yield "seconds", not lasts, "nothing takes place in seconds"
    if not network.graph and not pairs:
        movement, world = movement_of(experiment), world_in(experiment)
        homes_of = {"grid": ["grid"], "steps": ["grid"], "plane": ["plane"], "trace": FILES, "streets": ["trace"]}
        for part, homes in homes_of.items():
            yield part, world not in homes, f"with network.mobility {movement} clients move in the {WORLDS[world]}"
        knows_nothing = f"network.mobility {movement.rule} uses no such knowledge"
        yield "knowledge", not MOBILITIES.form(movement).knowledge, knows_nothing
    yield "mixing", pairs, by_pairs
    rule = aggregation_in_use(name, experiment.algorithm.aggregation)
    unweighed = rule and not AGGREGATIONS.traits(rule).weighs
    yield "mixing", unweighed, f"algorithm.aggregation {rule} does not use the network's weights"
    yield "mixing", "mix" not in needs, f"{name} does not use the network's weights"
    yield "links", not needs & {"adjacency", "server"}, f"{name} does not use the links of the network"
    yield "epochs", not experiment.algorithm.local_epochs, "algorithm.local_epochs is 0"
    yield "picks", not picks, "no neighbours are picked for the algorithm"
    drawn = not task_of(experiment).of_datasets
    yield "samples", drawn, "each seed draws its own data"
    yield "models", drawn, f"data.name {experiment.data.name} has its own model"
    if MODELS[experiment.model.name].__module__.startswith("mdfl_jax."):  # another one must be built to know
        norm = getattr(numbers_in(experiment, MODELS, experiment.model.name), "norm", "")
        yield "algorithm.statistics", norm != "batch", f"{experiment.model.name} has no batch statistics"
    lists, known = wants_lists(experiment), network.graph or pattern.removesuffix("roadside")
    of_few = f"engine.links=auto uses matrices for these {network.num_clients:,} clients"
    yield "engine.max_neighbours", not lists, of_few
    yield "engine.max_neighbours", known, f"the neighbours in {known} are known"
    for kind in sections():
        config, switch = kind.of(experiment), f"{kind.SECTION}.{kind.SWITCH}"
        yield from config.ignored(experiment)
        if kind.SWITCH and not config.in_use(experiment):
            value = getattr(config, kind.SWITCH)
            why = f"{switch} is {f'{value:g}' if isinstance(value, float) else value if value != '' else 'empty'}"
            yield from ((f"{kind.SECTION}.{x.name}", x.name != kind.SWITCH, why) for x in dataclasses.fields(kind))


class Save(NamedTuple):
    """Which models of each run are kept.

    Attributes:
      when: "" (no models), "final" (those after the last round) or "every" (those after every K-th round).
      every: K, the rounds between two checkpoints; 0 unless ``when`` is "every".
    """

    when: str = ""
    every: int = 0

    def is_due(self, at_round: int, rounds: int) -> bool:
        """Tell whether models are kept after a round, of so many rounds in all."""
        return at_round == rounds if self.when == "final" else bool(self.every) and at_round % self.every == 0

    def files_of_a_run(self, rounds: int) -> int:
        """Return the number of files that a run of this many rounds writes."""
        return rounds // self.every if self.every else int(bool(self.when))


def parse_save(text: str, rounds: int, eval_every: int) -> Save:
    """Parse the field `save`.

    Args:
      text: the field.
      rounds: the rounds of the study.
      eval_every: its rounds between evaluations. Models leave the devices at evaluations only.

    Raises:
      UserError: if the text is of no known form, or if K is no multiple of ``eval_every`` or larger than ``rounds``.

    >>> parse_save("every:20", rounds=40, eval_every=10)
    Save(when='every', every=20)
    """
    if text in ("", "final"):
        return Save(text)
    found = re.fullmatch(r"every:(\d{1,9})", text)
    if not found:
        raise UserError(f"save is {text!r}; it must be empty, final, or every:K with a whole number K of rounds")
    every = int(found[1])
    if not every or every % eval_every:
        raise UserError(f"save is {text!r}; K must be a multiple of eval_every, which is {eval_every}")
    if every > rounds:
        raise UserError(f"save is {text!r}; K must be at most rounds, which is {rounds}, or nothing would be saved")
    return Save("every", every)


LOGGERS: Registry[Any] = Registry("logger", contrib="loggers")
"""Loggers: name -> a subclass of `mdfl_jax.contrib.loggers.line_logger.LineLogger`."""


def parse_loggers(text: str) -> list[str]:
    """Parse the field `loggers`, and check that the packages of these loggers are installed.

    Args:
      text: Names separated by commas; empty: none.

    Returns:
      The names, each once.

    Raises:
      UserError: If a name is unknown, or if the package of a logger is missing. The message says what pip must
        install.

    >>> parse_loggers("")
    []
    """
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        if name not in LOGGERS:
            raise UserError(f"loggers: {LOGGERS.unknown(name)}")
        package, install = LOGGERS[name].package, LOGGERS[name].install or LOGGERS[name].package
        if package and not importlib.util.find_spec(package):
            raise UserError(f"loggers is {text!r}; {name} needs the package {package}: pip install {install!r}")
    return names


@switch
def varies_all(experiment: Experiment) -> bool:
    """Tell whether a seed decides all draws of a run, so that a run has one key, and not one for each stream."""
    return experiment.vary.strip() == "all"


def varied(text: str) -> tuple[str, ...]:
    """Parse the field `vary`: 'all', streams separated by spaces or commas, or 'all but' and streams.

    Returns:
      The streams that follow the seed, in the order of `mdfl_jax.core.rng.SEED_STREAMS`.

    Raises:
      UserError: If a stream is unknown or given twice, or if none is named. The message has the known ones.

    >>> varied("placement mobility")
    ('placement', 'mobility')
    >>> varied("all but batch")
    ('partition', 'placement', 'init', 'mobility', 'link', 'cost', 'evaluation')
    """
    if text.strip() == "all":
        return rng.SEED_STREAMS
    words = text.replace(",", " ").split()
    but = words[:2] == ["all", "but"]
    names = words[2:] if but else words
    for name in names:
        if name not in rng.SEED_STREAMS:
            raise UserError(
                f"vary is {text!r}: {unknown_name('stream', name, rng.SEED_STREAMS)}; or all, or all but STREAM"
            )
    if not names or len(set(names)) < len(names):
        what = "names a stream twice" if names else "names no stream"
        raise UserError(f"vary is {text!r}, which {what}; known: all, all but STREAM, {', '.join(rng.SEED_STREAMS)}")
    return tuple(name for name in rng.SEED_STREAMS if (name in names) != but)


def check_vary(experiment: Experiment) -> None:
    """Check the fields `vary` and `held_seed`.

    Raises:
      UserError: If `vary` is of no known form, if it leaves no stream, or if `held_seed` is set although no stream is
        held.
    """
    if not varied(experiment.vary):
        raise UserError(f"vary is {experiment.vary!r}, which leaves no stream; all seeds would be the same run")
    if varies_all(experiment) and experiment.held_seed:
        raise UserError(f"held_seed is {experiment.held_seed}; it must be 0 where vary is all, since no stream is held")


def words_of(experiment: Experiment, seeds: Sequence[int]) -> np.ndarray:
    """Return the whole numbers from which the keys of runs of a sweep point are made.

    Args:
      experiment: The configuration of the point.
      seeds: The seeds of its runs.

    Returns:
      [S] uint32, the seeds, where a seed decides all draws; else [S, `len(mdfl_jax.core.rng.STREAMS)`] uint32, the
      seed of each stream.
    """
    of_runs = np.array(seeds, np.uint32)
    if varies_all(experiment):
        return of_runs
    names = varied(experiment.vary)
    follows = np.array([rng.source_of(stream) in names for stream in rng.STREAMS])
    return np.where(follows, of_runs[:, None], np.uint32(experiment.held_seed))


def keys_of(experiment: Experiment, seeds: Sequence[int]) -> jax.Array:
    """Return the typed keys of runs of a sweep point, of the shape of `words_of`."""
    return rng.keys(words_of(experiment, seeds))
