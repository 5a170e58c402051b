"""Prepares a study: its points, their groups, their simulations and data. Errors of the user are found before any run.

The simulation of a group is built from its task, network and algorithm (`mdfl_jax.study.prepare`), and the form of its
links is chosen here: matrices or neighbour lists, and the length of the lists.

If a study uses members of the user's own, its programs are traced too, so that mistakes in these members are found at
once. Tracing takes about a second. The tests trace the package's own members.
"""

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import optax
from jax.sharding import Mesh
from ml_collections import ConfigDict

from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import LearningRateSchedule, OptimizerFactory, Settings, adam, sgd
from mdfl_jax.algorithms.registry import aggregation_in_use
from mdfl_jax.config.checks import check_used, keys_of, wants_lists
from mdfl_jax.config.points import (
    Point,
    baseline_of,
    check_labels,
    check_select,
    group_points,
    points,
    static_settings,
)
from mdfl_jax.config.resolve import resolve
from mdfl_jax.config.sections import (
    DataConfig,
    Experiment,
    algorithm_numbers,
    has_momentum,
    is_partial,
    is_proximal,
    numbers_in,
    task_of,
)
from mdfl_jax.core import devices, hosts, own_files, rng, stages
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.outcomes import enumerated
from mdfl_jax.core.own_files import error_words, place, shown
from mdfl_jax.core.section import PICKED, Built, is_counted, sections_in
from mdfl_jax.core.sharding import SEED, client_mesh
from mdfl_jax.core.trees import chosen_leaves, trained
from mdfl_jax.core.types import FIXED, SYMMETRIC, Hparams, Schedule, Task
from mdfl_jax.data.dataset import Dataset
from mdfl_jax.engine.programs import in_turns
from mdfl_jax.engine.simulation import Carry, Simulation, check_needs
from mdfl_jax.exchange.largest import in_parts
from mdfl_jax.exchange.neighbourhood import with_rule
from mdfl_jax.metrics import asked_for
from mdfl_jax.mobility import Form, Movement
from mdfl_jax.mobility.registry import movement_of, world_in
from mdfl_jax.mobility.trace import Tracks
from mdfl_jax.models import MODELS
from mdfl_jax.networks.contact import ContactList
from mdfl_jax.networks.costs import IGNORE, CostConfig, LinkLoad, Work, sends_parts
from mdfl_jax.networks.wrappers.participation import partial_participation
from mdfl_jax.storage.study_files import run_name
from mdfl_jax.study.identity import input_digests, name_run, of_dataset, own_digests, own_origins, switches
from mdfl_jax.study.prepare.network import (
    TraceFiles,
    check_heard,
    described,
    filter_of,
    network_of,
    network_params,
    work_in,
)
from mdfl_jax.study.prepare.task import (
    Pretrained,
    PretrainedFiles,
    Start,
    build_task,
    check_owners,
    load_dataset,
    start_of,
    task_params,
)
from mdfl_jax.tasks import spec_of

ONE = 1  # neighbours that a list holds where neighbours are only counted


def rounded(neighbours: int) -> int:
    """Round a number of neighbours up, with their client, to 2^k or 3 * 2^(k - 1) places, at least 8.

    Few programs then serve many seeds, and a study to which seeds are added mostly keeps its program.

    >>> [rounded(n) + 1 for n in (1, 7, 8, 12, 16, 30, 40)]
    [8, 8, 12, 16, 24, 32, 48]
    """
    power = max(neighbours.bit_length(), 3)
    return (3 * 2 ** (power - 2) if 8 <= neighbours < 3 * 2 ** (power - 2) else 2**power) - 1


def expected(experiment: Experiment) -> int:
    """Estimate the neighbours that lists must hold from the density, where the movement cannot be computed."""
    network, motion = experiment.network, experiment.motion
    area = network.grid_size**2 if world_in(experiment) == "grid" else motion.width * motion.height
    mean = 2.5 * network.num_clients * math.pi * network.radius**2 / area
    return min(math.ceil(mean + 6 * math.sqrt(mean) + 8), network.num_clients - 1)


def _has_too_many(experiment: Experiment) -> bool:
    """Tell whether no memory can hold the links, so that counting them would take hours for nothing."""
    is_known = world_in(experiment) in ("grid", "plane")  # its area, by which `expected` estimates
    return is_known and experiment.network.num_clients * expected(experiment) > 2**34


def with_links(
    make: Callable[[int], Simulation],
    members: Sequence[Experiment],
    numbers_of: Callable[[Simulation], Sequence[Hparams]],
    seeds: Sequence[int],
) -> Simulation:
    """Build a simulation whose links have the form that the configuration wants.

    The movement, which does not depend on the models, is computed ahead, and the neighbours in all rounds of all runs
    are counted. Lists whose length is not given are made long enough for them.

    Args:
      make: (neighbours that a list can hold, or 0 for matrices) -> Simulation.
      members: The configurations of the group's points.
      numbers_of: (Simulation) -> the traced numbers of the group's points.
      seeds: The seeds of each point.

    Raises:
      UserError: If lists are asked for and cannot be made, or are given a length that is too short.
    """
    experiment = members[0]
    engine, most = experiment.engine, experiment.network.num_clients - 1
    if not wants_lists(experiment):
        return make(0)
    counting = make(ONE)
    if not counting.counts_places:
        return counting  # a graph, or pairs: the number of neighbours is known
    if not devices.current().is_here or _has_too_many(experiment):
        return make(min(engine.max_neighbours or rounded(expected(experiment)), most))
    count: Any = jax.jit(counting.places_needed)
    with stages.stage("counting neighbours"):
        each = zip(numbers_of(counting), members, strict=True)
        runs = [(numbers, key) for numbers, member in each for key in keys_of(member, seeds)]
        needed = max(int(count(counting.data, numbers, key)) for numbers, key in runs)
    if engine.max_neighbours:
        check_lists(needed, engine.max_neighbours + 1)
    bound = engine.max_neighbours or rounded(needed - 1)
    if engine.links == "auto" and 4 * bound > experiment.network.num_clients:
        return make(0)
    return make(min(bound, most))


def check_lists(list_places: int, bound: int) -> None:
    """Check that the neighbour lists of a run have held all neighbours.

    Raises:
      UserError: If they have not.
    """
    if list_places > bound:
        least = list_places - 1
        raise UserError(f"engine.max_neighbours is {bound - 1}; a client has {least} neighbours, so {least} are needed")


def _schedule(experiment: Experiment) -> LearningRateSchedule | None:
    config = experiment.algorithm
    steps = experiment.rounds * config.local_steps
    if config.lr_schedule == "cosine":
        return optax.cosine_decay_schedule(1.0, steps, alpha=config.lr_final)
    if config.lr_schedule == "exponential":
        return optax.exponential_decay(1.0, 1, config.lr_decay, end_value=config.lr_final)
    return None


def _optimizer(experiment: Experiment) -> OptimizerFactory:
    if experiment.algorithm.optimizer == "adam":
        return adam(_schedule(experiment))
    return sgd(_schedule(experiment), momentum=has_momentum(experiment))


def _settings_of(experiment: Experiment) -> Settings:
    """Return the settings of the algorithm."""
    return Settings(
        optimizer=_optimizer(experiment),
        num_local_steps=experiment.algorithm.local_steps,
        num_local_epochs=experiment.algorithm.local_epochs,
        equal_steps=experiment.algorithm.epoch_steps == "equal",
        proximal=is_proximal(experiment),
        mixing_bound=experiment.engine.mixing_bound,
        compressor=experiment.algorithm.compressor,
        schedule=_schedule(experiment),
        local_statistics=experiment.algorithm.statistics == "local",
        aggregation=experiment.algorithm.aggregation,
        shared=experiment.model.shared,
    )


def build_simulation(
    experiment: Experiment,
    task: Task,
    rules: Sequence[Movement | Form],
    max_neighbours: int = 0,
) -> Simulation:
    """Build the simulation that the points of a group share. Their traced numbers are its arguments.

    Args:
      experiment: The configuration of any point of the group.
      task: The task of the group, from `build_task`.
      rules: The movements of the points of the group, or forms of rules. They have no effect with a graph.
      max_neighbours: The neighbours that a neighbour list can hold; 0 if links are matrices.

    Raises:
      UserError: If task, network and algorithm do not fit together.
    """
    engine = experiment.engine
    settings = _settings_of(experiment)
    algorithm = ALGORITHMS[experiment.algorithm.name](settings)
    algorithm = with_rule(algorithm, aggregation_in_use(experiment.algorithm.name, experiment.algorithm.aggregation))
    algorithm = in_parts(algorithm, settings.part) if sends_parts(experiment) else algorithm
    schedule = Schedule(
        experiment.rounds,
        experiment.eval_every,
        engine.record_positions,
        experiment.stop_std,
        experiment.judged == "global",
        asked_for(experiment.metrics),
        engine.record_mib,
        experiment.eval_clients,
        experiment.eval_samples,
        experiment.diverged_norm,
    )
    work = work_in(experiment, task, algorithm) if is_counted(experiment) else Work()
    built, used = Built(task, algorithm, work), sections_in(experiment)
    world = network_of(experiment, rules, filter_of(experiment, work), max_neighbours)
    for each in used:
        world = each.wrap(world, experiment, built) if each.ORDER < PICKED else world
    check_needs(algorithm, world, experiment.algorithm.name, described(experiment, rules))
    if is_partial(experiment):
        picks = experiment.algorithm.picks
        if picks == "one_way":
            thinned = world._replace(gives=world.gives - {SYMMETRIC})
            check_needs(algorithm, thinned, experiment.algorithm.name, f"a network with algorithm.picks={picks}")
        world = partial_participation(world, FIXED in algorithm.needs, picks)
    for each in used:
        world = each.wrap(world, experiment, built) if each.ORDER >= PICKED else world
    simulation = Simulation(task, world, algorithm, schedule)
    if settings.shared:  # a pattern without a leaf is told before the first file is written
        chosen_leaves(trained(simulation.model), settings.shared, "model.shared")
    if world.hooks.compares and (settings.shared or algorithm.traits.unsent):
        by, unsent = ("model.shared", "leaves") if settings.shared else (experiment.algorithm.name, "personal models")
        raise UserError(
            f"network.mobility is {experiment.network.mobility}; it must be a rule that reads no models with {by}: "
            f"clients would steer by {unsent} that nobody has sent"
        )
    return simulation


def hparams_of(
    experiment: Experiment,
    rules: list[Movement],
    trace: Tracks | ContactList | None = None,
    link_load: Callable[[Any], LinkLoad] | None = None,
) -> Hparams:
    """Return the traced numbers of a point. Their NumPy types are fixed, so that no point is compiled again.

    Args:
      experiment: The configuration of the point.
      rules: The movements, as given to `build_simulation`.
      trace: The trace from `mdfl_jax.study.prepare.network.TraceFiles`, if a rule needs one.
      link_load: `Simulation.link_load` of the simulation; None where only the shapes of the numbers matter.
    """
    cost, numbers = None, algorithm_numbers(experiment).traced()
    if is_counted(experiment):
        config = CostConfig.of(experiment)
        load = link_load(numbers) if link_load and config.short_contact != IGNORE else LinkLoad(1.0, 0.0)
        cost = config.numbers(experiment, load)
    network = network_params(experiment, rules, trace, cost)
    return Hparams(task=task_params(experiment), network=network, algorithm=numbers)


def evenly(num_runs: int, at_most: int) -> int:
    """Return the number of runs in a batch, such that the batches are of similar size and as few as possible.

    >>> [evenly(9, at_most=8), evenly(16, at_most=8), evenly(3, at_most=8), evenly(0, at_most=8)]
    [5, 8, 3, 1]
    """
    return -(-num_runs // -(-num_runs // at_most)) if num_runs else 1


def part_size(experiment: Experiment, simulation: Simulation, whole: int, num_runs: int) -> int:
    """Return the number of runs in a batch where only some of the runs of a group are left, or are of this worker.

    Where a device computes its runs one after another, a batch on several devices has two or more of them,
    since compilers round in another way for a single one. Where runs are mapped together, the batch stays as it is. In
    both cases, the last run is repeated until the batch is full.

    Args:
      experiment: The configuration of the study.
      simulation: The simulation of the group.
      whole: The number of runs in a batch of the whole study.
      num_runs: The number of runs of the group that are left.
    """
    if not in_turns(simulation, experiment.engine.runs_at_once):
        return whole
    places = simulation.mesh.shape[SEED] if simulation.mesh else len(devices.devices())
    return max(evenly(num_runs, whole), min(whole, places, 2))


@contextlib.contextmanager
def blame_own_files(origins: list[str]) -> Iterator[None]:
    """Name the user's files in an error that is probably theirs, though no line of theirs raised it.

    An example is a function of a member that takes another number of arguments than it is called with.

    Raises:
      UserError: in place of such an error, which is its cause.
    """
    try:
        yield
    except (TypeError, ValueError, AttributeError, LookupError) as error:
        if isinstance(error, UserError) or not origins or place(error):
            raise
        raise UserError(f"{', '.join(map(shown, origins))}: {error_words(error)}") from error


def check_traced(simulation: Simulation, hparams: Hparams) -> None:
    """Trace the steps of a simulation for the numbers of a point, without compiling or computing anything.

    Raises:
      UserError: if a member returns another structure or other shapes than it must (`mdfl_jax.core.contract`).
    """
    key = jax.eval_shape(lambda: jax.random.key(0))
    carry, _ = jax.eval_shape(simulation.init, simulation.data, hparams, key)
    jax.eval_shape(simulation.advance, simulation.data, hparams, key, carry)


class Run(NamedTuple):
    """One sweep point under one seed. ``point`` is the index of the point."""

    point: int
    seed: int


class Group(NamedTuple):
    """Points that share a compiled program.

    Attributes:
      points: The indices of the points.
      simulation: The simulation from which the program is compiled.
      hparams: The traced numbers of each point, in the order of ``points``.
      runs_per_batch: The number of runs that are on the devices together.
      rules: How the clients of the points move.
      dataset: The data set from which the simulation was built; None if the task draws its data.
      pretrained: The pretrained weights from which the simulation was built, if any.
      starts: The checkpoints from which the runs of each point start, in the order of ``points``; None for a point
        whose first model is drawn or has pretrained weights.
    """

    points: list[int]
    simulation: Simulation
    hparams: list[Hparams]
    runs_per_batch: int
    rules: list[Movement]
    dataset: Dataset | None
    pretrained: Pretrained | None = None
    starts: list[Start | None] = []  # noqa: RUF012

    @property
    def carry(self) -> Carry:
        """The shapes of the state of a run before its first round."""
        return jax.eval_shape(self.simulation.first, self.simulation.data, self.hparams[0], jax.random.key(0))

    def double_bits(self, point: int) -> float | None:
        """Return the bits of one message of a point as PaME counts them, or None if that count is not defined."""
        count = self.simulation.double_bits
        return count(self.hparams[self.points.index(point)].algorithm) if count else None

    def runs(self, seeds: list[int]) -> list[Run]:
        """Return all runs of the group, point after point."""
        return [Run(point, seed) for point in self.points for seed in seeds]

    def batches(self, runs: list[Run]) -> Iterator[list[Run]]:
        """Yield batches of some of the group's runs, in their order."""
        for start in range(0, len(runs), self.runs_per_batch):
            yield runs[start : start + self.runs_per_batch]


class RunBatch(NamedTuple):
    """Runs of one group that are on the devices together."""

    group: Group
    runs: list[Run]


class Study(NamedTuple):
    """A checked study.

    Attributes:
      experiment: The base configuration.
      points: The sweep points, one for every combination of the axes' values.
      baselines: For each point the index of the point that it is compared with, or None.
      groups: The points by compiled program.
      seeds: The seeds of every point.
      names: For each point the name of the run of each seed (`mdfl_jax.study.identity`). Points whose runs are the
        same have equal names, and such a run is done once.
      inputs: The digests of the data and the files that the study reads, by field and name.
      streets: [K, 4] float32 straight pieces of the streets for the map (``trace.streets``); None without any.
      traces: lines that say how the files of movement were read, and what of them may be a mistake.
    """

    experiment: Experiment
    points: list[Point]
    baselines: list[int | None]
    groups: list[Group]
    seeds: list[int]
    names: list[list[str]]
    inputs: dict[str, str] = {}  # noqa: RUF012
    streets: np.ndarray | None = None
    traces: tuple[str, ...] = ()

    @property
    def runs(self) -> list[Run]:
        """All runs of the study, group after group and point after point: the order in which they are done."""
        return [run for group in self.groups for run in group.runs(self.seeds)]

    def name(self, run: Run) -> str:
        """Return the name of a run, as its files have it."""
        return self.names[run.point][run.seed - self.seeds[0]]

    @property
    def config(self) -> dict[str, Any]:
        """The resolved configuration, as it is written to config.json.

        It has the digests of the user's own files whose members are in use, of the modules of hers that they import,
        of the data and of the files that the study reads, and the switches of JAX that change random numbers. So a
        refusal can name what has changed.
        """
        files = own_digests(point.experiment for point in self.points)
        found = {"own_files": files, "inputs": self.inputs, "switches": switches()}
        return dataclasses.asdict(self.experiment) | {name: values for name, values in found.items() if values}

    @property
    def pretrained(self) -> list[str]:
        """Lines that say how pretrained weights and checkpoints were used, one line for each file and model."""
        starts = [start for group in self.groups for start in (group.pretrained, *group.starts) if start]
        return list(dict.fromkeys(start.describe() for start in starts))


def runs_per_batch(experiment: Experiment, num_points: int) -> int:
    """Return the number of runs in a batch of a group: engine.runs_per_batch, or the seeds of a point (at least 8).

    The number is reduced so that the batches are of similar size. It does not depend on the number of devices, so that
    a study can continue on other devices.
    """
    return evenly(num_points * experiment.seeds, experiment.engine.runs_per_batch or max(experiment.seeds, 8))


def mesh_for(experiment: Experiment, num_runs: int) -> Mesh | None:
    """Return the mesh of a batch of runs, with as many columns as the configuration sets.

    If it sets none, as many devices as divide the clients share a run if there are fewer runs than devices and the task
    is not light, and always if they are those of several hosts. Otherwise there is no mesh (None), and each device has
    runs of its own.

    Raises:
      UserError: If the number of columns does not divide the number of devices and that of the clients, or if several
        hosts have nothing to share.
    """
    found, wanted, clients = devices.devices(), experiment.engine.client_devices, experiment.network.num_clients
    fitting = [k for k in range(1, len(found) + 1) if len(found) % k == 0 and clients % k == 0]
    number = f"the {len(found)} devices" if len(found) > 1 else "the one device"
    both = f"{number} and the {clients} clients (network.num_clients)"
    if wanted and wanted not in fitting:
        allowed = enumerated(list(map(str, fitting)), "or")
        raise UserError(f"engine.client_devices is {wanted}; it must divide {both}: {allowed}")
    if hosts.many() > 1:
        if wanted == 1:
            raise UserError(
                "engine.client_devices is 1, and with --hosts devices share each run; --workers or the same command on "
                "each host divides the runs instead"
            )
        if fitting == [1]:
            why = f"with --hosts devices share each run, and no number above 1 divides {both}"
            raise UserError(f"network.num_clients is {clients}; {why}")
        return client_mesh(found, wanted or fitting[-1])
    few = num_runs < len(found) and not task_of(experiment).is_light
    return client_mesh(found, wanted or (fitting[-1] if few else 1))


def set_precision(experiment: Experiment) -> None:
    """Set JAX's switches as a study needs them: 64-bit numbers for float64 alone, and its usual promotion of types."""
    wide = experiment.engine.precision == "float64"
    for name, value in zip(_SWITCHES, (wide, "standard", "allow")):  # the environment may say strict
        jax.config.update(name, value)


_SWITCHES = ("jax_enable_x64", "jax_numpy_dtype_promotion", "jax_numpy_rank_promotion")


@contextlib.contextmanager
def callers_switches() -> Iterator[None]:
    """Give the switches of `set_precision` the caller's values again at the end of this block."""
    before = [getattr(jax.config, name) for name in _SWITCHES]
    try:
        yield
    finally:
        for name, value in zip(_SWITCHES, before):
            jax.config.update(name, value)


def hparams_of_points(
    members: list[Experiment], rules: list[Movement], files: TraceFiles, simulation: Simulation
) -> list[Hparams]:
    """Return the traced numbers of the points of a group."""
    traces = files.of_points(members, rules)
    return [hparams_of(member, rules, trace, simulation.link_load) for member, trace in zip(members, traces)]


@stages.stage("preparing the study")
@own_files.errors_in_one_line()
@rng.small_threefry()
def make_study(config: ConfigDict) -> Study:
    """Check a configuration, load its data and build its simulations. Nothing is written.

    Raises:
      UserError: If anything in the configuration is wrong.
    """
    experiment = resolve(config)
    set_precision(experiment)
    all_points = points(experiment)
    ids = [point.id for point in all_points]
    if len(set(ids)) < len(ids):  # two axes have values with the same text
        raise UserError(f"sweep: two points are called {next(i for i in ids if ids.count(i) > 1)!r}")
    check_select(experiment, all_points)
    check_labels(experiment, all_points)
    baselines = baseline_of(experiment, all_points)
    check_used([point.experiment for point in all_points])
    datasets: dict[DataConfig, Dataset | None] = {}
    tasks: dict[Any, Task] = {}
    files, weight_files = TraceFiles(), PretrainedFiles()
    seeds = [experiment.first_seed + s for s in range(experiment.seeds)]
    groups = []
    with blame_own_files(own_origins(point.experiment for point in all_points)):
        by_program = group_points(all_points)
    for indices in by_program:
        members = [all_points[i].experiment for i in indices]
        rules = list(dict.fromkeys(map(movement_of, members)))
        source = static_settings(members[0]).data  # the fields that choose the samples, without traced numbers
        if source not in datasets:
            with stages.stage(f"loading data {source.name}"):
                datasets[source] = load_dataset(source)
        dataset = datasets[source]
        if dataset is not None:
            model = members[0].model.name
            numbers_in(members[0], MODELS, model).check_sample(spec_of(dataset), model, dataset.name)
        num_runs = runs_per_batch(members[0], len(members))
        pretrained = weight_files.weights(members[0], dataset)
        tree, mesh = pretrained.tree if pretrained else None, mesh_for(members[0], num_runs)
        origins = own_origins(members)
        with blame_own_files(origins):
            numbers = partial(hparams_of_points, members, rules, files)
            task = build_task(members[0], dataset, mesh, tree, tasks)
            make = partial(build_simulation, members[0], task, rules)
            simulation = with_links(make, members, numbers, seeds)
            for member in members:
                check_heard(member)
                for each in sections_in(member):
                    each.check_task(member, task)
            hparams = numbers(simulation)
            if origins:
                check_traced(simulation, hparams[0])
                for member, own in zip(members, hparams):
                    check_owners(member, simulation, own, seeds)
        starts = [start_of(member, simulation.model, seeds) for member in members]
        groups.append(Group(indices, simulation, hparams, num_runs, rules, dataset, pretrained, starts))
    names, inputs = _names(all_points, groups, seeds)
    found = Study(experiment, all_points, baselines, groups, seeds, names, inputs)
    return found._replace(streets=files.streets, traces=tuple(files.notes))


def _names(
    all_points: Sequence[Point], groups: Sequence[Group], seeds: Sequence[int]
) -> tuple[list[list[str]], dict[str, str]]:
    """Return the names of the runs of each point, and the digests of all inputs of the study."""
    names: list[list[str]] = [[] for _ in all_points]
    inputs: dict[str, set[str]] = {}
    of_data: dict[int, str] = {}
    for group in groups:
        dataset = group.dataset
        if dataset is not None and id(dataset) not in of_data:
            of_data[id(dataset)] = of_dataset(dataset)
        for p, start in zip(group.points, group.starts):
            experiment = all_points[p].experiment
            own = own_digests([experiment])
            known: dict[Path | None, str] = {}
            for seed in seeds:
                file = start.files[seed] if start else None
                if file not in known:
                    found = input_digests(experiment, of_data.get(id(dataset), ""), [file] if file else [])
                    known[file] = name_run(experiment, found, own)
                    for name, value in found.items():
                        inputs.setdefault(name, set()).add(value)
                names[p].append(run_name(known[file], seed, experiment.rounds))
    return names, {name: own_files.joined_digest(values) for name, values in sorted(inputs.items())}
