"""Builds the simulation of a configuration from its task, network and algorithm, and its traced numbers.

It also chooses the form of the links, matrices or neighbour lists, and the length of the lists.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import optax
from jax.sharding import Mesh

from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import OptimizerFactory, Schedule, Settings, adam, sgd
from mdfl_jax.algorithms.registry import aggregation_in_use
from mdfl_jax.config.checks import keys_of, wants_lists
from mdfl_jax.config.sections import (
    Experiment,
    algorithm_numbers,
    has_momentum,
    is_partial,
    is_proximal,
)
from mdfl_jax.core import devices, stages
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.section import PICKED, Built, is_counted, sections_in
from mdfl_jax.core.types import FIXED, SYMMETRIC, Hparams
from mdfl_jax.core.types import Schedule as RunSchedule
from mdfl_jax.data.dataset import Dataset
from mdfl_jax.engine.simulation import Simulation, check_needs
from mdfl_jax.exchange.largest import in_parts
from mdfl_jax.exchange.neighbourhood import with_rule
from mdfl_jax.metrics import asked_for
from mdfl_jax.mobility import Form, Movement
from mdfl_jax.mobility.trace import Tracks
from mdfl_jax.networks.contact import ContactList
from mdfl_jax.networks.costs import IGNORE, CostConfig, LinkLoad, Work, sends_parts
from mdfl_jax.networks.wrappers.participation import partial_participation
from mdfl_jax.study.prepare.network import (
    described,
    filter_of,
    network_of,
    network_params,
    work_in,
)
from mdfl_jax.study.prepare.task import build_task, task_params

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
    of_grid = network.grid_size**2 if not motion.width else motion.width * motion.height
    mean = 2.5 * network.num_clients * math.pi * network.radius**2 / of_grid
    return min(math.ceil(mean + 6 * math.sqrt(mean) + 8), network.num_clients - 1)


def with_links(
    make: Callable[[int], Simulation],
    members: Sequence[Experiment],
    hparams_of: Callable[[Simulation], Sequence[Hparams]],
    seeds: Sequence[int],
) -> Simulation:
    """Build a simulation whose links have the form that the configuration wants.

    The movement, which does not depend on the models, is computed ahead, and the neighbours in all rounds of all runs
    are counted. Lists whose length is not given are made long enough for them.

    Args:
      make: (neighbours that a list can hold, or 0 for matrices) -> Simulation.
      members: The configurations of the group's points.
      hparams_of: (Simulation) -> the traced numbers of the group's points.
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
    if not devices.current().is_here:
        return make(min(engine.max_neighbours or rounded(expected(experiment)), most))
    count: Any = jax.jit(counting.places_needed)
    with stages.stage("counting neighbours"):
        each = zip(hparams_of(counting), members, strict=True)
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


def _schedule(experiment: Experiment) -> Schedule | None:
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


def build_simulation(
    experiment: Experiment,
    dataset: Dataset | None,
    rules: Sequence[Movement | Form],
    mesh: Mesh | None = None,
    pretrained: Any = None,
    max_neighbours: int = 0,
) -> Simulation:
    """Build the simulation that the points of a group share. Their traced numbers are its arguments.

    Args:
      experiment: The configuration of any point of the group.
      dataset: The data set, from `load_dataset`.
      rules: The movements of the points of the group, or forms of rules. They have no effect with a graph.
      mesh: The devices that share each run, if any.
      pretrained: As in `build_task`.
      max_neighbours: The neighbours that a neighbour list can hold; 0 if links are matrices.

    Raises:
      UserError: If task, network and algorithm do not fit together.
    """
    engine = experiment.engine
    task = build_task(experiment, dataset, mesh, pretrained)
    settings = Settings(
        optimizer=_optimizer(experiment),
        num_local_steps=experiment.algorithm.local_steps,
        num_local_epochs=experiment.algorithm.local_epochs,
        equal_steps=experiment.algorithm.epoch_steps == "equal",
        proximal=is_proximal(experiment),
        mixing_bound=engine.mixing_bound,
        compressor=experiment.algorithm.compressor,
        schedule=_schedule(experiment),
        local_statistics=experiment.algorithm.statistics == "local",
        aggregation=experiment.algorithm.aggregation,
        shared=experiment.model.shared,
    )
    algorithm = ALGORITHMS[experiment.algorithm.name](settings)
    algorithm = with_rule(algorithm, aggregation_in_use(experiment.algorithm.name, experiment.algorithm.aggregation))
    algorithm = in_parts(algorithm, settings.part) if sends_parts(experiment) else algorithm
    schedule = RunSchedule(
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
    return Simulation(task, world, algorithm, schedule)


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
