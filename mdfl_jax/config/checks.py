"""Rules for fields that depend on each other, where no single member of a family can check them.

A rule names a field, says whether its value is refused, and says what it must be and why. `check_together` turns the
first rule that refuses a value into one line: "network.order is move_first; it must be mix_first: a graph knows no
places". The conditions of a rule are computed only if the rules before it refuse nothing.
"""

import dataclasses
import math
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import Settings
from mdfl_jax.algorithms.registry import ignored_by
from mdfl_jax.config.families import check_members, movement_of, numbers_in, task_numbers, task_of, world_in
from mdfl_jax.config.sections import COUNTED_AXES, CostConfig, Experiment, NetworkConfig, switch
from mdfl_jax.config.texts import check_vary, parse_loggers, parse_save
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.geometry import points_of
from mdfl_jax.core.numbers import from_values, single
from mdfl_jax.core.outcomes import enumerated
from mdfl_jax.mobility import MOBILITIES
from mdfl_jax.mobility.rule import FILES
from mdfl_jax.models import MODELS
from mdfl_jax.models.pretrained import READERS, TWINS
from mdfl_jax.networks.costs import IGNORE
from mdfl_jax.networks.graphs import GRAPHS
from mdfl_jax.storage.model_files import is_saved
from mdfl_jax.storage.study_files import MODELS as FOLDER
from mdfl_jax.tasks import TASKS

OWN, MEAN = "own", "mean"  # where each client starts: with its own kept model, or all with their mean
LISTS_ABOVE = 512  # clients; up to this number matrices are as fast, and lambda_2 and records need them anyway
MOST_EVALUATIONS = 1_000_000  # of a run

Rule = tuple[str, object, str]
"""A field, whether its value is refused, and what the value must be, with the reason after a colon."""


def check_together(experiment: Experiment) -> None:
    """Check a configuration as a whole: its fields against each other, and the numbers of the members in use.

    Raises:
      UserError: If the fields contradict each other. The message names the fields and their values.
    """
    for rules in (_network, _places, _relays, _task, _start, _algorithm, _server, _cost, _rounds):
        for path, is_refused, must in rules(experiment):
            if is_refused:
                raise UserError(f"{path} is {_shown(experiment, path)}; it must be {must}")
    check_members(experiment)
    check_vary(experiment)
    parse_save(experiment.save, experiment.rounds, experiment.eval_every)
    parse_loggers(experiment.loggers)


def _shown(experiment: Experiment, path: str) -> str:
    """Return the value of a field for an error line: names and numbers as they are, other texts in quotes."""
    section, _, name = path.rpartition(".")
    part = getattr(experiment, section) if section else experiment
    value = getattr(part, name)
    is_name = value and "names" in type(part).__dataclass_fields__[name].metadata
    return repr(value) if isinstance(value, str) and not is_name else f"{value}"


def _network(experiment: Experiment) -> Iterator[Rule]:
    network, num_clients = experiment.network, experiment.network.num_clients
    if network.graph:
        sees_nothing = "a graph"
        yield "graph.file", network.graph == "file" and not experiment.graph.file, "a file: network.graph is file"
    else:
        at_most = f"at most network.num_clients, which is {num_clients}"
        yield "network.num_mobile", network.num_mobile > num_clients, at_most
        movement = movement_of(experiment)
        MOBILITIES.form(movement)  # refuses a world or a knowledge that the rule lacks
        sees_nothing = "a contact list" if world_in(experiment) == "contacts" else ""
        needs = needs_file(experiment)
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
    network, pattern, usual = experiment.network, experiment.server.pattern, NetworkConfig().order
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
    network, pattern, path = experiment.network, experiment.server.pattern, "network.relays"
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
    yield "engine.precision", experiment.engine.precision not in task.precisions, allowed
    for field in ("loss", "trainable"):
        yield f"model.{field}", getattr(model, field) and not task.of_datasets, f"empty with data.name {name}"
    yield "data.name", not name, "digits, the name of an .npz in data.dir, or tfds:<name>"


def _start(experiment: Experiment) -> Iterator[Rule]:
    """Yield the rules for weights that are not drawn: pretrained ones, or kept models. No file is read."""
    model, name = experiment.model, experiment.algorithm.name
    if names_saved(model.pretrained):
        is_server = ALGORITHMS[name](Settings()).global_model
        why = f"{MEAN}: with algorithm.name {name} all clients start from the global model"
        yield "model.pretrained_clients", model.pretrained_clients == OWN and is_server, why
        return
    unless = f"{OWN} unless model.pretrained names kept models of a study, and it is {model.pretrained!r}"
    yield "model.pretrained_clients", model.pretrained_clients != OWN, unless
    if model.pretrained:
        drawn = not task_of(experiment).of_datasets
        yield "model.pretrained", drawn, f"empty with data.name {experiment.data.name}"
        weights = f"{enumerated(list(TWINS), 'or')}: {model.pretrained!r} holds weights of such a model"
        yield "model.name", model.name not in TWINS, weights
        norm = from_values(MODELS.numbers(model.name), vars(model)).norm
        yield "model.pretrained", norm != "batch", f"empty with model.norm {norm}: weights are of networks with batch"


UNUSED = {
    "aggregation": ("mean", "mixes no whole models by the network's weights"),
    "compressor": ("", "sends nothing compressed"),
    "local_steps": (1, "takes one gradient step a round"),
    "momentum": (0.0, "has its step in its recursion, which knows no momentum"),
    "optimizer": ("sgd", "has its step in its recursion"),
    "statistics": ("mixed", "exchanges whole models"),
}
"""What each field must be for an algorithm that ignores it, and why the algorithm does."""


def _algorithm(experiment: Experiment) -> Iterator[Rule]:
    config, ignored = experiment.algorithm, ignored_by(experiment.algorithm.name)
    for field in sorted(ignored):
        value, (unused, why) = getattr(config, field), UNUSED[field]
        yield f"algorithm.{field}", value not in (None, unused), f"{unused!r}: {config.name} {why}"
    shared = experiment.model.shared and "statistics" in ignored
    yield "model.shared", shared, f"empty: {config.name} exchanges whole models"


def _server(experiment: Experiment) -> Iterator[Rule]:
    server, network, pattern = experiment.server, experiment.network, experiment.server.pattern
    yield "server.pattern", pattern and network.graph, f"empty with network.graph {network.graph}"
    roadside, table = pattern == "roadside", pattern == "table"
    yield "server.units", server.units and not roadside, "empty unless server.pattern is roadside"
    yield "server.file", server.file and not table, "empty unless server.pattern is table"
    yield "server.file", table and not server.file, "a file of lines client,slot: server.pattern is table"
    if roadside:
        nowhere = world_in(experiment) == "contacts"
        yield "server.pattern", nowhere, f"another one: network.mobility {network.mobility} knows no places"
        _check_units(experiment)
    for name in ("link_failure", "link_fading"):
        fails = pattern and not roadside and getattr(network, name) > 0
        yield f"network.{name}", fails, f"0 under server.pattern {pattern}: pairs are drawn"


def _cost(experiment: Experiment) -> Iterator[Rule]:
    cost, network, pattern = experiment.cost, experiment.network, experiment.server.pattern
    uncounted = experiment.x_axis in COUNTED_AXES and not is_counted(experiment)
    yield "x_axis", uncounted, "another one, or a field of cost must be set"
    where = f"server.pattern {pattern}" if pattern else f"network.graph {network.graph}" if network.graph else ""
    if not where and world_in(experiment) == "contacts":
        where = f"network.mobility {network.mobility}"
    unknown = f"{IGNORE} with {where}: the durations of contacts are not known"
    yield "cost.short_contact", where and cost.short_contact != IGNORE, unknown
    if pattern:
        yield "cost.deadline", has_deadline(experiment), f"inf with server.pattern {pattern}"
        by_receiver = f"0 with server.pattern {pattern}: bits are not counted by receiver"
        yield "cost.joules_per_bit_received", cost.joules_per_bit_received > 0, by_receiver
    yield "cost.speed_spread", cost.speeds and cost.speed_spread > 0, "0 where cost.speeds names a file"
    if cost.speeds:
        read_speeds(cost.speeds, network.num_clients)


def _rounds(experiment: Experiment) -> Iterator[Rule]:
    rounds, eval_every, name = experiment.rounds, experiment.eval_every, experiment.name
    yield "rounds", rounds % eval_every, f"a multiple of eval_every, which is {eval_every}"
    most = f"at most {MOST_EVALUATIONS * eval_every}: a run has at most {MOST_EVALUATIONS:,} evaluations"
    yield "rounds", rounds // eval_every > MOST_EVALUATIONS, most
    is_file = name not in ("", ".", "..") and not any(c in name for c in "/\\\0") and len(name.encode()) <= 200
    yield "name", not is_file, "a file name of at most 200 bytes"


@switch
def is_counted(experiment: Experiment) -> bool:
    """Whether a study counts seconds and joules: a field of `cost` is set, or the sweep varies one."""
    fields = dataclasses.fields(CostConfig)
    return _varies(experiment) or any(getattr(experiment.cost, each.name) != each.default for each in fields)


def _varies(experiment: Experiment) -> bool:
    return re.search(r"(^|[;+\s])cost\.", experiment.sweep) is not None


@switch
def has_deadline(experiment: Experiment) -> bool:
    """Whether slow clients are left out of the rounds."""
    return math.isfinite(experiment.cost.deadline)


def is_filtered(experiment: Experiment) -> bool:
    """Whether a link filter (`mdfl_jax.networks.costs`) removes links."""
    return has_deadline(experiment) or experiment.cost.short_contact != IGNORE


@switch
def has_speeds(experiment: Experiment) -> bool:
    """Whether the speeds of the clients are given, and not drawn."""
    return bool(experiment.cost.speeds)


def read_speeds(file: str, num_clients: int) -> np.ndarray:
    """Read the relative speeds of the clients from a text file of N numbers.

    Returns:
      [N] float32 speeds.

    Raises:
      UserError: If the file cannot be read, or does not hold N finite numbers above 0.
    """
    given = f"cost.speeds {file!r}"
    try:
        words = Path(file).read_text().replace(",", " ").split()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{given} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    speeds = []
    for word in words:
        try:
            speeds.append(float(word))
        except ValueError:
            raise UserError(f"{given}: {word!r} is not a number") from None
        if not 0 < single(speeds[-1]) < math.inf:
            raise UserError(f"{given}: {word} is no speed; it must be greater than 0 and finite")
    if len(speeds) != num_clients:
        raise UserError(f"{given} holds {len(speeds)} numbers; network.num_clients is {num_clients}")
    return np.array(speeds, np.float32)


def parse_units(text: str) -> list[tuple[float, float]]:
    """Parse the places of the road-side units from a text 'x,y; x,y; ...'.

    Raises:
      UserError: If the text is not of that form, names no unit, or holds a coordinate that is not finite.

    >>> parse_units("0,0; 10,2.5")
    [(0.0, 0.0), (10.0, 2.5)]
    """
    units = points_of("server.units", text)
    for x, y in units:
        if not (math.isfinite(x) and math.isfinite(y)):
            raise UserError(f"server.units: '{x:g},{y:g}' is not a place")
    if not units:
        raise UserError(f"server.units is {text!r}; server.pattern roadside needs a unit or more, 'x,y; x,y; ...'")
    return units


def _check_units(experiment: Experiment) -> None:
    world, units = world_in(experiment), parse_units(experiment.server.units)
    if world == "trace":  # the configuration does not say the area of a trace
        return
    motion, size = experiment.motion, experiment.network.grid_size
    first, width, height = (1.0, size, size) if world == "grid" else (0.0, motion.width, motion.height)
    for x, y in units:
        if not (first <= x <= width and first <= y <= height):
            area = f"{first:g}..{width:g} x {first:g}..{height:g}"
            raise UserError(f"server.units: the unit {x:g},{y:g} is outside of the area {area}")


def needs_file(experiment: Experiment) -> bool:
    """Tell whether a file gives the world in which the point's clients move."""
    return not experiment.network.graph and world_in(experiment) in FILES


def check_graph_used(experiments: list[Experiment]) -> None:
    """Check that a study that names a graph file has a sweep point that uses it.

    Raises:
      UserError: If no sweep point uses it.
    """
    named = next((experiment for experiment in experiments if experiment.graph.file), None)
    if named and all(experiment.network.graph != "file" for experiment in experiments):
        raise UserError(
            f"graph.file is {named.graph.file!r}; network.graph is {named.network.graph!r}, and it must be file"
        )


def check_used(experiments: list[Experiment]) -> None:
    """Check that a study that names a trace file has a sweep point that uses it.

    Raises:
      UserError: If no sweep point uses it.
    """
    given = next((experiment for experiment in experiments if experiment.trace.file), None)
    if given and not any(map(needs_file, experiments)):
        raise UserError(
            f"trace.file is {given.trace.file!r}; network.mobility {movement_of(given)} follows no trace; "
            f"network.world must be {' or '.join(FILES)}"
        )
    shown = next((experiment for experiment in experiments if experiment.trace.streets), None)
    if shown and not any(needs_file(one) and world_in(one) == "trace" for one in experiments):
        raise UserError(
            f"trace.streets is {shown.trace.streets!r}; network.mobility {movement_of(shown)} follows no trace of "
            "places; network.world must be trace"
        )


def wants_lists(experiment: Experiment) -> bool:
    """Tell whether the links of a point are neighbour lists, unless they turn out to be too long."""
    engine, network = experiment.engine, experiment.network
    if engine.links != "auto":
        return engine.links == "lists"
    if network.graph and (network.graph == "file" or GRAPHS[network.graph].heard is None):
        return False
    return network.num_clients > LISTS_ABOVE and math.isfinite(network.radius)


def names_saved(text: str) -> bool:
    """Tell whether a value of `model.pretrained` names kept models of a study, in place of a file of weights."""
    path = Path(text)
    return bool(text) and (path.is_dir() or path.suffix not in READERS or _is_saved(path))


def _is_saved(path: Path) -> bool:
    """Tell whether a file holds kept models. A file of this package's layout that cannot be read is one, too."""
    return is_saved(path) or (path.suffix == ".safetensors" and path.parent.name == FOLDER)


def notes(experiment: Experiment) -> list[str]:
    """Return warnings about settings that are allowed but probably not intended, one line for each."""
    model, found = experiment.model, cost_notes(experiment)
    if (
        experiment.algorithm.statistics == "local"
        and MODELS[model.name].__module__.startswith("mdfl_jax.")  # a user's model must be built to know this
        and getattr(numbers_in(experiment, MODELS, model.name), "norm", "") != "batch"
    ):
        found.append(f"algorithm.statistics is local; {model.name} has no batch statistics")
    return found + links_note(experiment)


def cost_notes(experiment: Experiment) -> list[str]:
    """Return warnings about costs that are allowed but have no effect, one line for each.

    There are none where the sweep varies costs, since one of its points may well be free.
    """
    cost, found = experiment.cost, []
    if _varies(experiment):
        return []
    if not cost.seconds_per_sample:
        for name, is_set in (
            ("deadline", has_deadline(experiment)),
            ("speed_spread", cost.speed_spread > 0),
            ("speeds", bool(cost.speeds)),
        ):
            if is_set:
                found.append(f"cost.{name} is {getattr(cost, name)}; it has no effect: cost.seconds_per_sample is 0")
    if cost.short_contact != IGNORE and math.isinf(cost.bandwidth) and not cost.latency:
        found.append(f"cost.short_contact is {cost.short_contact}; it has no effect: messages take no time")
    return found


def links_note(experiment: Experiment) -> list[str]:
    """Return a line if the length of neighbour lists is given to a point that does not use it."""
    given, network = experiment.engine.max_neighbours, experiment.network
    if not given:
        return []
    if not wants_lists(experiment):
        why = f"engine.links=auto uses matrices for these {network.num_clients:,} clients"
    elif network.graph or experiment.server.pattern not in ("", "roadside"):
        why = f"the neighbours in {network.graph or experiment.server.pattern} are known"
    else:
        return []
    return [f"engine.max_neighbours is {given} and has no effect: {why}"]
