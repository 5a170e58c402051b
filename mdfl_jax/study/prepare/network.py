"""Builds the network of a configuration, and its traced numbers.

Clients are in space or on a graph, and may meet a server. Costs of messages and of computing are counted around it.
Each trace file of a study is read once.
"""

import math
import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.algorithms.registry import aggregation_in_use
from mdfl_jax.config.checks import keys_of, needs_file
from mdfl_jax.config.sections import (
    Experiment,
    algorithm_numbers,
    is_partial,
    links_fail,
    movement_numbers,
    numbers_in,
    participation_of,
    traced_numbers,
)
from mdfl_jax.core import stages
from mdfl_jax.core.errors import UserError, errors_about
from mdfl_jax.core.numbering import FEW
from mdfl_jax.core.numbers import of_fixed_types
from mdfl_jax.core.rng import stream
from mdfl_jax.core.section import PICKED, sections_in
from mdfl_jax.core.types import Algorithm, Network, Task
from mdfl_jax.exchange.aggregation import AGGREGATIONS
from mdfl_jax.exchange.neighbourhood import BoundedNumbers
from mdfl_jax.mobility import BOUNDARIES, MOBILITIES, Form, Motion, Movement
from mdfl_jax.mobility.registry import movement_of, world_in
from mdfl_jax.mobility.rule import FILES, WorldKind
from mdfl_jax.mobility.trace import Tracks, no_tracks, of_one_form, tracks
from mdfl_jax.networks.contact import ContactList, contact_list
from mdfl_jax.networks.costs import IGNORE, CostConfig, CostParams, Work, work_of
from mdfl_jax.networks.fixed import fixed_graph, given, read_matrices
from mdfl_jax.networks.graphs import GRAPHS, Graph, GraphParams
from mdfl_jax.networks.link_filters import LinkFilter, chained
from mdfl_jax.networks.mixing import MIXINGS
from mdfl_jax.networks.spatial import ORDERS, SpatialParams, spatial
from mdfl_jax.networks.worlds import MOVERS, RELAY_PLACES
from mdfl_jax.networks.wrappers.attacked import AttackConfig
from mdfl_jax.networks.wrappers.clocks import ClockConfig
from mdfl_jax.networks.wrappers.participation import ParticipationParams
from mdfl_jax.networks.wrappers.roadside import ServerConfig
from mdfl_jax.traces import Contacts, Part, Trace, contact_table, load, part_of, resample
from mdfl_jax.traces.formats.sumo import street_pieces
from mdfl_jax.traces.plausible import heights_of, stay, trace_notes


class TraceFiles:
    """The trace files of a study. Each file is read once.

    Attributes:
      read: what has been read, by the fields that say what is read.
      notes: how each file was read, and what of it may be a mistake, in words.
      streets: those of the first point that names some.
    """

    def __init__(self) -> None:
        self.read: dict[tuple[str, str, str, Part, float], Trace | Contacts] = {}
        self.notes: dict[str, None] = {}
        self.streets: np.ndarray | None = None

    def params(self, experiment: Experiment, rules: list[Movement]) -> Tracks | ContactList | None:
        """Return the value of `SpatialParams.trace` for a point, or None if no file gives a world.

        Args:
          experiment: The configuration of the point.
          rules: The movements that the points of the program use.

        Raises:
          UserError: If the file cannot be used, or does not fit the point's other fields.
        """
        if experiment.network.graph or not any(MOBILITIES.form(rule).world in FILES for rule in rules):
            return None
        if not needs_file(experiment):
            return no_tracks(experiment.network.num_clients, experiment.trace.substeps, experiment.rounds)
        config = experiment.trace
        part = part_of(config.types, config.times, config.area)
        asked = config.file, config.format, config.columns, part, config.hold
        try:
            if (loaded := self.read.get(asked)) is None:
                with stages.stage(f"reading the trace {config.file}"):
                    loaded = self.read[asked] = load(*asked)
                self.notes |= dict.fromkeys(f"trace.file {config.file}: {line}" for line in trace_notes(loaded))
            if isinstance(loaded, Contacts):
                if said := _never_met(experiment, loaded):
                    self.notes[f"trace.file {config.file}: {said}"] = None
                return _of_contacts(experiment, loaded)
            table = self.with_heights(experiment, loaded, _of_places(experiment, loaded))
            if not loaded.stays:
                self.notes[f"trace.file {config.file}: {stay(loaded, config.gaps)}"] = None
        except UserError as error:
            makes = f"; {config.made_by} makes it" if config.made_by and not os.path.exists(config.file) else ""
            raise UserError(f"trace.file: {error}{makes}") from None
        if config.streets and self.streets is None:
            with errors_about("trace.streets"):
                self.streets = street_pieces(config.streets, loaded)
        return table

    def of_points(self, experiments: Sequence[Experiment], rules: list[Movement]) -> list[Any]:
        """Return `params` of the points of one program, in one form."""
        return of_one_form([self.params(experiment, rules) for experiment in experiments])

    def with_heights(self, experiment: Experiment, trace: Trace, found: Tracks) -> Tracks:
        """Keep the heights of a trace if a section reads them, and note what does not count then."""
        if found.height is None:
            return found
        file, own = experiment.trace.file, [each.replaced_by_heights() for each in sections_in(experiment)]
        readers = [replaced for replaced in own if replaced is not None]
        if not readers:
            self.notes[f"trace.file {file}: its heights are left out: nothing reads them"] = None
            return found._replace(height=None)
        self.notes[f"trace.file {file}: heights from the ground, {heights_of(trace)}, are read"] = None
        for path, value in {path: value for replaced in readers for path, value in replaced.items()}.items():
            self.notes[f"{path} is {value}; ignored: {file!r} has heights"] = None
        return found


def _rounds(experiment: Experiment, seconds: float, unit: str) -> int:
    """Return the number of rounds that a trace of some length covers, at most those of the study.

    Raises:
      UserError: If it covers no round, or fewer than the study has while trace.at_end is "refuse".
    """
    config, dt = experiment.trace, experiment.motion.dt
    left = seconds - config.start
    fit = math.floor(left / dt + 1e-6)
    if fit >= experiment.rounds:
        return experiment.rounds
    span = f"{config.file!r} lasts {seconds:g} {unit}"
    span += f", {max(left, 0):g} from trace.start {config.start:g} on" if config.start else ""
    if fit < 1:
        raise UserError(f"{span}: that is no round of motion.dt {dt:g}")
    if config.at_end == "refuse":
        raise UserError(
            f"{span}: {fit} rounds of motion.dt {dt:g}, and rounds is {experiment.rounds}; trace.at_end=hold or "
            "trace.at_end=repeat goes on after its end"
        )
    return fit


def _of_places(experiment: Experiment, trace: Trace) -> Tracks:
    config, network = experiment.trace, experiment.network
    if world_in(experiment) != "trace":
        _refuse(experiment, "trace")
    if network.num_clients > len(trace.ids):
        raise UserError(
            f"network.num_clients is {network.num_clients}; {config.file!r} has {len(trace.ids)} vehicles, which is "
            "the most"
        )
    first, last = float(trace.times[0]), float(trace.times[-1])
    rounds = _rounds(experiment, last - first, "s")
    table = resample(
        trace,
        experiment.motion.dt / config.substeps,
        rounds * config.substeps,
        network.num_clients,
        start=first + config.start,
        gaps=config.gaps,
        max_gap=config.max_gap or None,
        vehicles=config.vehicles,
    )
    at_end = "repeat" if config.at_end == "repeat" else "hold"
    return tracks(table, at_end, config.substeps, experiment.rounds)


def _of_contacts(experiment: Experiment, contacts: Contacts) -> ContactList:
    config = experiment.trace
    if world_in(experiment) != "contacts":
        _refuse(experiment, "contacts")
    first, last = 0.0 if contacts.in_rounds else float(contacts.start.min()), float(contacts.end.max())
    short, unit = CostConfig.of(experiment).short_contact, "rounds" if contacts.in_rounds else "s"
    if short != IGNORE and contacts.in_rounds:
        raise UserError(
            f"cost.short_contact is {short}; it must be {IGNORE} with {config.file!r}: a list of rounds does not say "
            "how long contacts last"
        )
    rounds = _rounds(experiment, last - first, unit)
    table = contact_table(
        contacts,
        experiment.network.num_clients,
        rounds,
        experiment.motion.dt,
        start=first + config.start,
        directed=config.directed,
        durations=short != IGNORE,
    )
    return contact_list(table, "repeat" if config.at_end == "repeat" else "hold")


def _never_met(experiment: Experiment, contacts: Contacts) -> str:
    """Say which clients are in no contact of the whole file; "" if all are in one."""
    count = experiment.network.num_clients
    alone = np.flatnonzero(np.bincount(contacts.pair.ravel(), minlength=count)[:count] == 0).tolist()
    if not alone:
        return ""
    shown = ", ".join(map(str, alone[:FEW])) + ", ..." * (len(alone) > FEW)
    return f"{len(alone):,} of {experiment.network.num_clients:,} clients meet nobody in all of it: {shown}"


def _refuse(experiment: Experiment, world: WorldKind) -> NoReturn:
    """Refuse a file that holds the data of another world than that in which clients move."""
    held = f"{experiment.trace.file!r} holds {FILES[world]}"
    raise UserError(f"{held}; network.mobility is {movement_of(experiment)}, and network.world must be {world}")


def described(experiment: Experiment, rules: Sequence[Movement | Form]) -> str:
    """Describe the network of a group of points, for error messages."""
    network = experiment.network
    if network.graph:
        where = f"network.graph={network.graph}"
        where += f" with graph.file={experiment.graph.file}" if network.graph == "file" else ""
    else:
        where = f"network.mobility={', '.join(map(str, rules))} with network.contact={network.contact}"
    if pattern := ServerConfig.of(experiment).pattern:
        where = f"server.pattern={pattern}{f' over {where}' if pattern == 'roadside' else ''}"
    where += " and failing links" if links_fail(experiment) else ""
    settings = (each.describe(experiment) for each in sections_in(experiment))
    return f"{' and '.join(filter(None, (where, *settings)))}, network.mixing={network.mixing},"


def filter_of(experiment: Experiment, work: Work) -> LinkFilter | None:
    """Return the rule that removes links of a configuration, such as those of its radio and of its costs."""
    found = [each.link_filter(experiment, work) for each in sections_in(experiment)]
    return chained([each for each in found if each])


def filter_params(experiment: Experiment, cost: CostParams | None) -> Any:
    """Return the traced numbers of `filter_of`; ``cost`` are those of the costs."""
    used = (each for each in sections_in(experiment) if each.link_filter(experiment, Work()))
    found = [each.filter_params(experiment, cost) for each in used]
    return tuple(found) if len(found) > 1 else found[0] if found else None


def network_of(
    experiment: Experiment,
    rules: Sequence[Movement | Form],
    link_filter: LinkFilter | None = None,
    max_neighbours: int = 0,
) -> Network:
    """Return the network of a group of points, before it is thinned.

    Args:
      experiment: The configuration of any point of the group.
      rules: The movements of the points, or forms of rules. They have no effect with a graph.
      link_filter: A rule that removes links, from `filter_of`.
      max_neighbours: The neighbours that a neighbour list can hold; 0 if links are matrices.

    Raises:
      UserError: If a file cannot be used.
    """
    network = experiment.network
    if network.graph:
        return graph_network(experiment, link_filter, max_neighbours > 0)
    world = spatial(
        network.num_clients,
        network.grid_size,
        rules,
        mixing=network.mixing,
        contact=network.contact,
        links_fail=links_fail(experiment),
        link_filter=link_filter,
        max_neighbours=max_neighbours,
        num_relays=network.relays,
    )
    return ORDERS[network.order](world)


def network_params(
    experiment: Experiment,
    rules: list[Movement],
    trace: Tracks | ContactList | None = None,
    cost: CostParams | None = None,
) -> Any:
    """Return the traced numbers of `network_of`, or those of the thinned network if it must be thinned.

    Args:
      experiment: The configuration of the point.
      rules: The movements of the points of the program.
      trace: The trace from `mdfl_jax.study.prepare.network.TraceFiles`, if a rule needs one.
      cost: The numbers of the costs; None: nothing is counted.
    """
    network: Any = graph_params(experiment) if experiment.network.graph else _in_space(experiment, rules, trace)
    network = network._replace(link_filter=filter_params(experiment, cost))
    used = sections_in(experiment)
    for each in used:
        network = each.params(network, experiment, cost) if each.ORDER < PICKED else network
    if is_partial(experiment):
        participation, period = participation_of(experiment)
        network = ParticipationParams(network, np.float32(participation), np.int32(period))
    for each in used:
        network = each.params(network, experiment, cost) if each.ORDER >= PICKED else network
    return network


def _in_space(experiment: Experiment, rules: list[Movement], trace: Tracks | ContactList | None) -> SpatialParams:
    network, motion = experiment.network, experiment.motion
    boundary = BOUNDARIES.index(motion.boundary)
    return of_fixed_types(
        SpatialParams(
            num_mobile=network.num_mobile,
            movers=MOVERS.index(network.movers),
            relay_places=RELAY_PLACES.index(network.relay_places),
            radius=network.radius,
            max_step=network.max_step,
            mobility=rules.index(movement_of(experiment)),
            radius_spread=network.radius_spread,
            link_failure=network.link_failure,
            link_fading=network.link_fading,
            mixing=traced_numbers(experiment, MIXINGS, network.mixing),
            motion=of_fixed_types(Motion(motion.width, motion.height, motion.dt, boundary, motion.warm_up)),
            rules=tuple(movement_numbers(experiment, rule).traced() for rule in rules),
            trace=trace,
        )
    )


@lru_cache(maxsize=8)
def _read(
    file: str, num_clients: int, directed: bool, allow_disconnected: bool, changed: float
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Read a file once for the network and for its numbers, and again if its time of change ``changed`` is another."""
    notes = list[str]()
    return read_matrices(file, num_clients, directed, allow_disconnected, notes), tuple(notes)


def graph_notes(experiment: Experiment) -> list[str]:
    """Return what a study says of the file of its graph, if it has one."""
    config = experiment.graph
    found = _of_file(experiment)[1] if experiment.network.graph == "file" else ()
    return [f"graph.file {config.file}: {line}" for line in found]


def _from_file(experiment: Experiment) -> np.ndarray:
    return _of_file(experiment)[0]


def _of_file(experiment: Experiment) -> tuple[np.ndarray, tuple[str, ...]]:
    config = experiment.graph
    changed = Path(config.file).stat().st_mtime if Path(config.file).is_file() else 0.0
    with errors_about("graph.file"):
        return _read(config.file, experiment.network.num_clients, config.directed, config.allow_disconnected, changed)


def graph_network(experiment: Experiment, link_filter: LinkFilter | None = None, lists: bool = False) -> Network:
    """Return the network of a point whose clients are connected by a graph.

    Raises a `UserError` if the file of the graph cannot be used, or if it holds weights and links are
    filtered or picked.
    """
    network = experiment.network
    fails = links_fail(experiment)
    if network.graph != "file":
        return fixed_graph(network.num_clients, network.graph, network.mixing, fails, link_filter, lists)
    matrices = _from_file(experiment)
    if matrices.dtype != bool and is_partial(experiment) and participation_of(experiment)[0] < 1:
        raise UserError(
            f"graph.file {experiment.graph.file!r} has weights; algorithm.participation must be 1 with them"
        )
    return given(matrices, network.mixing, fails, link_filter)


def graph_params(experiment: Experiment) -> GraphParams:
    """Return the traced numbers of `graph_network` as NumPy scalars of fixed type, with the matrices of a file."""
    matrices: Any = _from_file(experiment) if experiment.network.graph == "file" else None
    return of_fixed_types(
        GraphParams(
            numbers=traced_numbers(experiment, GRAPHS, experiment.network.graph),
            mixing=traced_numbers(experiment, MIXINGS, experiment.network.mixing),
            allow_disconnected=experiment.graph.allow_disconnected,
            link_failure=experiment.network.link_failure,
            matrices=matrices if matrices is None or matrices.dtype == bool else matrices.astype(np.float32),
        )
    )


def check_heard(experiment: Experiment) -> None:
    """Check that on a graph some client hears as many others as the rule of aggregation needs, in some round.

    Raises:
      UserError: If none does: the rule would fall back everywhere and always.
    """
    rule, numbers = rule_for_attackers(experiment)
    if numbers and experiment.network.graph:
        most, needed = 1 + heard_on_graph(experiment)[1], f"{rule} then needs {numbers.least()} models"
        if most < numbers.least():
            graph = f"with network.graph {experiment.network.graph} no client has more than {most}"
            raise UserError(f"algorithm.max_attackers is {numbers.max_attackers}; {needed}, and {graph}")


def few_heard(experiment: Experiment) -> str:
    """Return a line that says that some clients may hear too few for the rule of aggregation; "" if none can."""
    rule, numbers = rule_for_attackers(experiment)
    network, thinned = experiment.network, participation_of(experiment)[0] < 1
    silent = any(each.ORDER < PICKED for each in sections_in(experiment))  # sections that may remove links
    always = network.graph and not (network.link_failure or thinned or silent)
    if not numbers or (always and 1 + heard_on_graph(experiment)[0] >= numbers.least()):
        return ""
    return (
        f"algorithm.aggregation is {rule}; a client that has fewer than {numbers.least()} models in a round falls "
        "back; mdfl theory counts how often (too_few)"
    )


def outnumbered(experiment: Experiment) -> str:
    """Return a line that says that more clients attack than the rule of aggregation is made for; "" if it is not so."""
    attack, (rule, numbers) = AttackConfig.of(experiment), rule_for_attackers(experiment)
    if not numbers or not attack.in_use(experiment) or (count := attack.count(experiment)) <= numbers.max_attackers:
        return ""
    return (
        f"algorithm.max_attackers is {numbers.max_attackers}; {count} clients attack, so a client may hear more "
        f"attackers than {rule} bears"
    )


def rule_for_attackers(experiment: Experiment) -> tuple[str, BoundedNumbers | None]:
    """Return the rule of aggregation, with its numbers if it is made for a bounded number of attackers."""
    rule = aggregation_in_use(experiment.algorithm.name, experiment.algorithm.aggregation)
    numbers = numbers_in(experiment, AGGREGATIONS, rule) if rule else None
    return rule, numbers if isinstance(numbers, BoundedNumbers) else None


def heard_on_graph(experiment: Experiment) -> tuple[int, int]:
    """Return the fewest and the most others that a client of a graph hears in a round, under any seed of the study."""
    params, clients = graph_params(experiment), experiment.network.num_clients
    if params.matrices is not None:
        counts = ((np.asarray(params.matrices) != 0) & ~np.eye(clients, dtype=bool)).sum(-1)
        return int(counts.min()), int(counts.max())
    graph = GRAPHS[experiment.network.graph]
    if graph.heard:
        return (graph.heard(jnp.int32(0), clients).shape[1],) * 2
    return _heard_in_draws(graph, experiment)


@lru_cache(maxsize=64)  # they are asked for when a point is checked, and when it is described
def _heard_in_draws(graph: Graph, experiment: Experiment) -> tuple[int, int]:
    params, clients = graph_params(experiment), experiment.network.num_clients
    rounds = jnp.arange(1 if graph.fixed else min(experiment.rounds, clients))

    def under(key: jax.Array) -> jax.Array:
        drawn = graph.draw(params, stream(key, "placement"), clients)
        return jax.lax.map(lambda t: jnp.sum(graph.at(drawn, t, clients), axis=1), rounds)

    seeds = range(experiment.first_seed, experiment.first_seed + experiment.seeds)
    counts = jax.jit(lambda keys: jax.lax.map(under, keys))(keys_of(experiment, seeds))
    return int(counts.min()), int(counts.max())


def work_in(experiment: Experiment, task: Task, algorithm: Algorithm) -> Work:
    """Return what a client computes in a round, found out by tracing a round of the algorithm.

    The task of the group is needed for the shapes of a model alone.
    """
    model = jax.eval_shape(task.init, task.data, jax.random.key(0))
    config = experiment.algorithm
    work = work_of(algorithm, algorithm_numbers(experiment).traced(), model, config.batch_size, config.local_epochs)
    return work._replace(clocked=ClockConfig.of(experiment).in_use(experiment))
