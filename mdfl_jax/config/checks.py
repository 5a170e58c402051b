"""Checks of fields that depend on each other, where no single member of a family can check them.

The costs come first: with the defaults of the section `cost` everything is free and not counted.
"""

import dataclasses
import math
import re
from pathlib import Path

import numpy as np

from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import Settings
from mdfl_jax.algorithms.registry import ignored_by
from mdfl_jax.config.families import check_members, links_fail, movement_of, numbers_in, task_numbers, task_of, world_in
from mdfl_jax.config.sections import COUNTED_AXES, CostConfig, Experiment, NetworkConfig, switch
from mdfl_jax.config.texts import check_vary, parse_loggers, parse_save
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.geometry import points_of
from mdfl_jax.core.numbers import from_values, single
from mdfl_jax.mobility import MOBILITIES
from mdfl_jax.mobility.rule import FILES
from mdfl_jax.models import MODELS
from mdfl_jax.models.pretrained import READERS, TWINS
from mdfl_jax.networks.costs.filters import IGNORE
from mdfl_jax.networks.graphs import GRAPHS
from mdfl_jax.storage.model_files import is_saved
from mdfl_jax.storage.study_files import MODELS as FOLDER
from mdfl_jax.tasks import TASKS


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
    """Whether a link filter (`mdfl_jax.networks.costs.filters`) removes links."""
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


def check_cost(experiment: Experiment) -> None:
    """Check that the costs fit each other, the network and the x axis.

    Raises:
      UserError: If they do not. The message names the fields and their values.
    """
    cost, network, pattern = experiment.cost, experiment.network, experiment.server.pattern
    if experiment.x_axis in COUNTED_AXES and not is_counted(experiment):
        raise UserError(f"x_axis is {experiment.x_axis}, which needs a field of cost that is set, and none is")
    if cost.short_contact != IGNORE:
        where = f"network.graph {network.graph}" if network.graph else ""
        where = f"server.pattern {pattern}" if pattern else where
        if not where and world_in(experiment) == "contacts":
            where = f"network.mobility {network.mobility}"
        if where:
            raise UserError(
                f"cost.short_contact is {cost.short_contact}; with {where} it must be {IGNORE}: the durations of "
                "contacts are not known"
            )
    if pattern and has_deadline(experiment):
        raise UserError(f"cost.deadline is {cost.deadline:g}; with server.pattern {pattern} it must be inf")
    if pattern and cost.joules_per_bit_received > 0:
        raise UserError(
            f"cost.joules_per_bit_received is {cost.joules_per_bit_received:g}; with server.pattern {pattern} it must "
            "be 0: bits are not counted by receiver"
        )
    if cost.speeds:
        if cost.speed_spread > 0:
            raise UserError(f"cost.speed_spread is {cost.speed_spread:g}; it must be 0 where cost.speeds names a file")
        read_speeds(cost.speeds, network.num_clients)


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


def check_relays(experiment: Experiment) -> None:
    """Check that relays have places of their own, that somebody has data, and that mixing heeds relays.

    Raises:
      UserError: If not. The message names the field and its value.
    """
    network, count = experiment.network, experiment.network.relays
    if not count:
        return
    needs: dict[str, bool] = {
        f"at most {network.num_clients - 1}: network.num_clients is {network.num_clients}": count < network.num_clients,
        f"0 with network.graph {network.graph}: its clients have no places": not network.graph,
        f"0 with network.mobility {network.mobility}: its clients all move or have places": bool(network.graph)
        or MOBILITIES.form(movement_of(experiment)).make().relays,
        f"0 with server.pattern {experiment.server.pattern}: pairs are drawn": experiment.server.pattern
        in ("", "roadside"),
        f"0 with data.name {experiment.data.name}: each seed draws every client's data": task_of(
            experiment
        ).of_datasets,
        "0 with network.mixing fedavg: it weighs clients by their samples, and relays have none": network.mixing
        != "fedavg",
    }
    for must, holds in needs.items():
        if not holds:
            raise UserError(f"network.relays is {count}; it must be {must}")
    if network.num_mobile > network.num_clients - count:
        raise UserError(
            f"network.num_mobile is {network.num_mobile}; it must be at most network.num_clients - network.relays, "
            f"which is {network.num_clients - count}"
        )


OWN, MEAN = "own", "mean"  # where each client starts: with its own kept model, or all with their mean
UNSET = {
    "aggregation": "mean",
    "compressor": "",
    "local_steps": 1,
    "momentum": 0.0,
    "optimizer": "sgd",
    "statistics": "mixed",
}
MOST_EVALUATIONS = 1_000_000  # of a run
WHY = {
    "aggregation": "mixes no whole models by the network's weights; it must be mean",
    "compressor": "sends nothing compressed; it must be empty",
    "local_steps": "takes one gradient step a round; it must be 1",
    "momentum": "has its step in its recursion, which knows no momentum; it must be 0",
    "optimizer": "has its step in its recursion; it must be sgd",
    "statistics": "exchanges whole models; it must be mixed",
}


def check_algorithm(experiment: Experiment) -> None:
    """Check that no field is set that the algorithm does not use.

    Raises:
      UserError: If such a field is set. The message names the field, its value and the value that it must have.
    """
    config = experiment.algorithm
    for field in sorted(ignored_by(config.name)):
        value = getattr(config, field)
        if value is not None and value != UNSET[field]:
            shown = repr(value) if isinstance(value, str) else value
            raise UserError(f"algorithm.{field} is {shown}; {config.name} {WHY[field]}")


def check_leaves(experiment: Experiment) -> None:
    """Check that the task has leaves to freeze and the algorithm can keep leaves local, if the model names some.

    Raises:
      UserError: If not. The message names the field, its value and the value that it must have.
    """
    model, name = experiment.model, experiment.algorithm.name
    if model.trainable and not task_of(experiment).of_datasets:
        raise UserError(
            f"model.trainable is {model.trainable!r}; it must be empty with data.name {experiment.data.name}"
        )
    if model.shared and "statistics" in ignored_by(name):
        raise UserError(f"model.shared is {model.shared!r}; {name} exchanges whole models; it must be empty")


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


def check_graph(experiment: Experiment) -> None:
    """Check the fields of a graph, without reading its file.

    Raises:
      UserError: If a field does not fit a graph. The message names the fields and their values.
    """
    network, config = experiment.network, experiment.graph
    if network.link_fading > 0:
        raise UserError(f"network.link_fading is {network.link_fading}; a graph knows no distances")
    if network.mixing.startswith("speed_aware"):
        raise UserError(f"network.mixing is {network.mixing}; a graph knows no speeds")
    if network.graph == "file":
        if not config.file:
            raise UserError("graph.file is ''; network.graph file needs one")
        return
    GRAPHS[network.graph].check_size(network.num_clients)


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
    world = world_in(experiment)
    if world == "contacts":
        raise UserError(f"server.pattern is roadside; network.mobility {experiment.network.mobility} knows no places")
    units = parse_units(experiment.server.units)
    if world == "trace":  # the configuration does not say the area of a trace
        return
    motion, size = experiment.motion, experiment.network.grid_size
    first, width, height = (1.0, size, size) if world == "grid" else (0.0, motion.width, motion.height)
    for x, y in units:
        if not (first <= x <= width and first <= y <= height):
            area = f"{first:g}..{width:g} x {first:g}..{height:g}"
            raise UserError(f"server.units: the unit {x:g},{y:g} is outside of the area {area}")


def check_order(experiment: Experiment) -> None:
    """Check that clients have places that they can leave before they mix, if they are to move first.

    The places before the first round are then those after a movement, which may depend on the data. So no data can be
    divided by them.

    Raises:
      UserError: If they have none. The message names the fields and their values.
    """
    network, pattern = experiment.network, experiment.server.pattern
    if network.order == NetworkConfig().order:
        return
    why = ""
    if network.graph:
        why = f"a graph (network.graph is {network.graph}) knows no places"
    elif world_in(experiment) == "contacts":
        why = f"network.mobility {network.mobility} knows no places"
    elif pattern and pattern != "roadside":
        why = f"under server.pattern {pattern} pairs are drawn"
    elif getattr(task_numbers(experiment), "needs_places", False):
        why = f"data.partition {experiment.data.partition} reads the places before any movement"
    if why:
        raise UserError(f"network.order is {network.order}; it must be {NetworkConfig().order}: {why}")


def check_server(experiment: Experiment) -> None:
    """Check that the fields of the server fit each other and the network.

    Raises:
      UserError: If they do not. The message names the fields and their values.
    """
    server = experiment.server
    if server.pattern and experiment.network.graph:
        raise UserError(
            f"server.pattern is {server.pattern}; network.graph is {experiment.network.graph!r}, and it must be empty"
        )
    if server.units and server.pattern != "roadside":
        raise UserError(f"server.units is {server.units!r}; server.pattern must be roadside, not {server.pattern!r}")
    if server.file and server.pattern != "table":
        raise UserError(f"server.file is {server.file!r}; server.pattern is {server.pattern!r}, and it must be 'table'")
    if server.pattern == "table" and not server.file:
        raise UserError("server.file is ''; server.pattern table needs a file of lines client,slot")
    if server.pattern == "roadside":
        _check_units(experiment)
    elif server.pattern and links_fail(experiment):
        raise UserError(
            f"network.link_failure and link_fading must be 0 under server.pattern {server.pattern}: pairs are drawn"
        )


def check_task(experiment: Experiment) -> None:
    """Check that the task has an objective if the stop rule is used, and that it supports the precision and the loss.

    Raises:
      UserError: If it does not. The message names the field and its value.
    """
    name, task, precision = experiment.data.name, task_of(experiment), experiment.engine.precision
    if experiment.stop_std and not task.has_objective:
        have = ", ".join(known for known in TASKS if TASKS[known].has_objective)
        raise UserError(f"stop_std is {experiment.stop_std}; it must be 0 unless data.name is one of {have}")
    if precision not in task.precisions:
        allowed = f"{', '.join(task.precisions[:-1])} or {task.precisions[-1]}".removeprefix(" or ")
        raise UserError(f"engine.precision is {precision}; with data.name {name} it is {allowed}")
    if experiment.model.loss and not task.of_datasets:
        raise UserError(f"model.loss is {experiment.model.loss}; it must be empty with data.name {name}")


def check_together(experiment: Experiment) -> None:
    """Check a configuration as a whole: its fields against each other, and the numbers of the members in use.

    Raises:
      UserError: If the fields contradict each other. The message names the fields and their values.
    """
    network, data = experiment.network, experiment.data
    if network.num_mobile > network.num_clients and not network.graph:
        raise UserError(
            f"network.num_mobile is {network.num_mobile}; it must be at most network.num_clients, "
            f"which is {network.num_clients}"
        )
    if network.graph:
        check_graph(experiment)
    else:
        MOBILITIES.form(movement_of(experiment))  # refuses a world or a knowledge that the rule lacks
        check_trace(experiment)
    check_order(experiment)
    check_relays(experiment)
    check_task(experiment)
    check_pretrained(experiment)
    check_algorithm(experiment)
    check_leaves(experiment)
    check_server(experiment)
    check_cost(experiment)
    check_links(experiment)
    check_members(experiment)
    if experiment.rounds % experiment.eval_every:
        raise UserError(
            f"rounds is {experiment.rounds}; it must be a multiple of eval_every, which is {experiment.eval_every}"
        )
    if experiment.rounds // experiment.eval_every > MOST_EVALUATIONS:
        raise UserError(
            f"rounds is {experiment.rounds} and eval_every is {experiment.eval_every}, which makes "
            f"{experiment.rounds // experiment.eval_every:,} evaluations; at most {MOST_EVALUATIONS:,} are allowed"
        )
    check_vary(experiment)
    parse_save(experiment.save, experiment.rounds, experiment.eval_every)
    parse_loggers(experiment.loggers)
    name = experiment.name
    if name in ("", ".", "..") or any(c in name for c in "/\\\0") or len(name.encode()) > 200:
        raise UserError(f"name is {name!r}; it must be a file name of at most 200 bytes")
    if not data.name:
        raise UserError("data.name is ''; it must be digits, the name of an .npz in data.dir, or tfds:<name>")


def needs_file(experiment: Experiment) -> bool:
    """Tell whether a file gives the world in which the point's clients move."""
    return not experiment.network.graph and world_in(experiment) in FILES


def check_trace(experiment: Experiment) -> None:
    """Check the fields of the trace without reading its file.

    Raises:
      UserError: If the fields contradict each other. The message names the fields and their values.
    """
    network, config = experiment.network, experiment.trace
    if needs_file(experiment) and not config.file:
        raise UserError(f"trace.file is ''; network.mobility {movement_of(experiment)} needs a file")
    if world_in(experiment) == "contacts":
        if network.link_fading > 0:
            raise UserError(f"network.link_fading is {network.link_fading}; a contact list knows no distances")
        if network.mixing.startswith("speed_aware"):
            raise UserError(f"network.mixing is {network.mixing}; a contact list knows no speeds")


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


LISTS_ABOVE = 512  # clients; up to this number matrices are as fast, and lambda_2 and records need them anyway


def wants_lists(experiment: Experiment) -> bool:
    """Tell whether the links of a point are neighbour lists, unless they turn out to be too long."""
    engine, network = experiment.engine, experiment.network
    if engine.links != "auto":
        return engine.links == "lists"
    if network.graph and (network.graph == "file" or GRAPHS[network.graph].heard is None):
        return False
    return network.num_clients > LISTS_ABOVE and math.isfinite(network.radius)


def check_links(experiment: Experiment) -> None:
    """Check that no length of neighbour lists is given where links are matrices.

    Raises:
      UserError: If it is.
    """
    engine = experiment.engine
    if engine.max_neighbours and engine.links == "dense":
        raise UserError(f"engine.max_neighbours is {engine.max_neighbours}; it must be 0 with engine.links=dense")


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


def check_pretrained(experiment: Experiment) -> None:
    """Check that the task and the model can use pretrained weights if there are some, without reading them.

    Raises:
      UserError: If they cannot. The message names the fields and their values.
    """
    model = experiment.model
    if names_saved(model.pretrained):
        check_start(experiment)
        return
    if model.pretrained_clients != OWN:
        raise UserError(
            f"model.pretrained_clients is {model.pretrained_clients}; it must be {OWN} unless model.pretrained names "
            f"kept models of a study, and it is {model.pretrained!r}"
        )
    if not model.pretrained:
        return
    given = f"model.pretrained is {model.pretrained!r}"
    if not task_of(experiment).of_datasets:
        raise UserError(f"{given}; it must be empty with data.name {experiment.data.name}")
    if model.name not in TWINS:
        raise UserError(f"{given}; model.name is {model.name}, and there are weights of {', '.join(TWINS)}")
    norm = from_values(MODELS.numbers(model.name), vars(model)).norm
    if norm != "batch":
        raise UserError(f"{given}; model.norm is {norm}, and the weights are of networks with batch")


def names_saved(text: str) -> bool:
    """Tell whether a value of `model.pretrained` names kept models of a study, in place of a file of weights."""
    path = Path(text)
    return bool(text) and (path.is_dir() or path.suffix not in READERS or _is_saved(path))


def _is_saved(path: Path) -> bool:
    """Tell whether a file holds kept models. A file of this package's layout that cannot be read is one, too."""
    return is_saved(path) or (path.suffix == ".safetensors" and path.parent.name == FOLDER)


def check_start(experiment: Experiment) -> None:
    """Check that the clients of a sweep point can start from kept models, without reading them.

    Raises:
      UserError: If they cannot. The message names the fields and their values.
    """
    model, name = experiment.model, experiment.algorithm.name
    if model.pretrained_clients == OWN and ALGORITHMS[name](Settings()).global_model:
        raise UserError(
            f"model.pretrained_clients is {OWN}; with algorithm.name {name} all clients start from the global model, "
            f"so it must be {MEAN}"
        )
