"""The families whose members have numbers of their own, and the configuration fields that these numbers make."""

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import Settings
from mdfl_jax.algorithms.registry import aggregation_in_use, compressor_in_use, resolved
from mdfl_jax.config.sections import Experiment, switch
from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.core.numbers import Numbers, Setting, check_bounds, fields_of, from_values, kinds_of
from mdfl_jax.core.registry import Registry
from mdfl_jax.data.partition import PARTITIONS
from mdfl_jax.exchange.aggregation import AGGREGATIONS
from mdfl_jax.exchange.compressors import COMPRESSORS
from mdfl_jax.mobility import MOBILITIES, Movement
from mdfl_jax.mobility.rule import WorldKind
from mdfl_jax.models import MODELS
from mdfl_jax.networks.graphs import GRAPHS
from mdfl_jax.networks.meetings import PATTERNS
from mdfl_jax.networks.mixing import MIXINGS
from mdfl_jax.tasks import TASKS, TaskKind, task_named
from mdfl_jax.tasks.losses import LOSSES


class Family(NamedTuple):
    """A registry of members, and its place in the configuration.

    Attributes:
      registry: The members.
      section: The section that holds the numbers of the members.
      field: The path of the field that names the member in use.
    """

    registry: Registry
    section: str
    field: str


FAMILIES = (
    Family(ALGORITHMS, "algorithm", "algorithm.name"),
    Family(COMPRESSORS, "algorithm", "algorithm.compressor"),
    Family(AGGREGATIONS, "algorithm", "algorithm.aggregation"),
    Family(MOBILITIES, "motion", "network.mobility"),
    Family(MIXINGS, "network", "network.mixing"),
    Family(GRAPHS, "graph", "network.graph"),
    Family(PATTERNS, "server", "server.pattern"),
    Family(MODELS, "model", "model.name"),
    Family(LOSSES, "model", "model.loss"),
    Family(PARTITIONS, "data", "data.partition"),
    Family(TASKS, "data", "data.name"),
)

_schemas: dict[Any, type[Experiment]] = {}


def schema() -> type[Experiment]:
    """Return the configuration as a dataclass, with a field for each number of the members registered so far.

    The default of these fields is None.

    Raises:
      UserError: If two members declare a number of the same name with different types, or one traced and one static.
    """
    state = tuple((name, family.registry.numbers(name)) for family in FAMILIES for name in family.registry)
    if state not in _schemas:
        own = _own_fields()
        kinds = {
            field.name: dataclasses.make_dataclass(
                field.type.__name__,  # type: ignore[union-attr]
                own.get(field.name, []),
                bases=(field.type,),  # type: ignore[arg-type]
                frozen=True,
                namespace={"__doc__": field.type.__doc__},
            )
            for field in dataclasses.fields(Experiment)
            if dataclasses.is_dataclass(field.type)
        }
        whole = [(name, kind, dataclasses.field(default_factory=kind)) for name, kind in kinds.items()]
        _schemas[state] = dataclasses.make_dataclass("Experiment", whole, bases=(Experiment,), frozen=True)
    return _schemas[state]


def _own_fields() -> dict[str, list[tuple[str, Any, Any]]]:
    """Return the numbers of the members by section, in the form that `dataclasses.make_dataclass` takes."""
    found: dict[str, dict[str, tuple[Any, dict[str, Any]]]] = {}
    for family, member, numbers in _members():
        kinds, section = kinds_of(numbers), found.setdefault(family.section, {})
        for name, field in fields_of(numbers).items():
            kind, rules = section.setdefault(name, (kinds[name], {**field.metadata, "own": [], "declared": []}))
            if kind != kinds[name] or rules["traced"] != field.metadata["traced"]:
                raise UserError(
                    f"{family.registry.kind} {member!r}: its number {name!r} has another type than that of "
                    f"{rules['own'][0]!r}; choose another name"
                )
            rules["own"].append(member)
            if field.metadata not in rules["declared"]:
                rules["declared"].append(field.metadata)
    return {
        section: [(name, kind, dataclasses.field(default=None, metadata=rules)) for name, (kind, rules) in own.items()]
        for section, own in found.items()
    }


def _members() -> Iterator[tuple[Family, str, type[Numbers]]]:
    for family in FAMILIES:
        for member in family.registry:
            yield family, member, family.registry.numbers(member)


def check_own(path: str, value: Any, rules: Any) -> None:
    """Check a value of a number that several members may declare. The bounds of at least one member must allow it.

    Args:
      path: The path of the field, for error messages.
      value: The value.
      rules: The metadata of the field, with the bounds of every member that declares the number.

    Raises:
      UserError: If no member allows the value. The message is that of the first member.
    """
    errors = []
    for declared in rules["declared"]:
        try:
            check_bounds(path, value, declared)
            if (known := declared.get("names")) and value not in known:
                raise UserError(f"{path}: {unknown_name(path.split('.')[-1], value, known)}")
            return
        except UserError as error:
            errors.append(error)
    raise errors[0]


def numbers_in(experiment: Experiment, registry: Registry, member: str) -> Any:
    """Return the numbers of a member: the values that the configuration sets, else the member's own defaults."""
    family = next(family for family in FAMILIES if family.registry is registry)
    values = vars(getattr(experiment, family.section))
    if registry is ALGORITHMS:
        return resolved(member, experiment.algorithm.compressor, values, experiment.algorithm.aggregation)
    if registry is MOBILITIES:
        return movement_numbers(experiment, movement_of(experiment)._replace(rule=member))
    return from_values(registry.numbers(member), values)


def movement_of(experiment: Experiment) -> Movement:
    """Return how clients move: the rule, what they know, and where."""
    network = experiment.network
    return Movement(network.mobility, experiment.motion.knowledge, network.world)


def movement_numbers(experiment: Experiment, movement: Movement) -> Any:
    """Return the numbers of a movement: the values that the configuration sets, else its own defaults.

    Raises:
      UserError: If its rule lacks the world or the knowledge.
    """
    return from_values(MOBILITIES.form(movement).numbers, vars(experiment.motion))


def world_in(experiment: Experiment) -> WorldKind:
    """Return the world in which clients move, if no graph ties them."""
    return MOBILITIES.form(movement_of(experiment)).world


def traced_numbers(experiment: Experiment, registry: Registry, member: str) -> Any:
    """Return the numbers of a member as NumPy scalars of fixed type, or None if the registry has no such member."""
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


def in_use(experiment: Experiment) -> Iterator[tuple[Family, str, Numbers]]:
    """Yield each member that a configuration uses, with its family and its numbers."""
    network, server = experiment.network, experiment.server
    names: dict[int, str] = {
        id(ALGORITHMS): experiment.algorithm.name,
        id(COMPRESSORS): compressor_in_use(experiment.algorithm.name, experiment.algorithm.compressor),
        id(AGGREGATIONS): aggregation_in_use(experiment.algorithm.name, experiment.algorithm.aggregation),
        id(MOBILITIES): "" if network.graph else network.mobility,
        id(MIXINGS): network.mixing,
        id(GRAPHS): network.graph,
        id(PATTERNS): server.pattern,
        id(MODELS): experiment.model.name if task_of(experiment).of_datasets else "",
        id(LOSSES): experiment.model.loss if task_of(experiment).of_datasets else "",
        id(PARTITIONS): experiment.data.partition if task_of(experiment).of_datasets else "",
        id(TASKS): task_named(experiment.data.name),
    }
    for family in FAMILIES:
        name = names[id(family.registry)]
        if name in family.registry:
            yield family, name, numbers_in(experiment, family.registry, name)


def effective(experiment: Experiment) -> dict[str, Any]:
    """Return the numbers of the members in use by path, {'algorithm.lr': 0.1, ...}, including their defaults.

    `network.world` is among them, as the world in which clients move, unless a graph ties them.
    """
    found = {
        f"{family.section}.{name}": getattr(numbers, name)
        for family, _, numbers in in_use(experiment)
        for name in fields_of(type(numbers))
    }
    return found if experiment.network.graph else {"network.world": world_in(experiment), **found}


def setting_of(experiment: Experiment, member: str = "") -> Setting:
    """Return the values of the configuration that the checks of a member may read."""
    network, motion, pattern = experiment.network, experiment.motion, experiment.server.pattern
    law = getattr(numbers_in(experiment, PATTERNS, pattern), "gap_law", None) if pattern in PATTERNS else None
    return Setting(
        member=member,
        num_clients=network.num_clients,
        num_mobile=network.num_mobile,
        width=motion.width,
        height=motion.height,
        dt=motion.dt,
        allow_disconnected=experiment.graph.allow_disconnected,
        largest_gap=len(law()) - 1 if law else None,
    )


def check_members(experiment: Experiment) -> None:
    """Check the numbers of the members in use, first each one alone and then all of a member together.

    Raises:
      UserError: If a number is not allowed. The message names the numbers and their values.
    """
    for family, name, numbers in in_use(experiment):
        numbers.validate(f"{family.section}.")
        numbers.check(setting_of(experiment, name))


def notes(experiment: Experiment) -> list[str]:
    """Return the warnings of the members in use about settings that are probably not intended, one line for each."""
    return [note for _, name, numbers in in_use(experiment) for note in numbers.notes(setting_of(experiment, name))]


@switch
def links_fail(experiment: Experiment) -> bool:
    """Whether links fail, so that the failures of a round must be drawn."""
    return experiment.network.link_failure > 0 or experiment.network.link_fading > 0


@switch
def is_partial(experiment: Experiment) -> bool:
    """Whether the network must be thinned: participation is partial, and the algorithm does not apply it itself."""
    participation, period = participation_of(experiment)
    return (participation < 1 or period > 1) and not ALGORITHMS[experiment.algorithm.name](Settings()).participates


def participation_of(experiment: Experiment) -> tuple[float, int]:
    """Return the share of the neighbours that are picked, and the period: the mean of its bounds, in whole rounds."""
    numbers = algorithm_numbers(experiment)
    return numbers.participation, (numbers.period_min + numbers.period_max) // 2
