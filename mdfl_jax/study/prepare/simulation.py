"""Builds the simulation of a configuration from its task, network and algorithm, and its traced numbers."""

from collections.abc import Callable
from typing import Any

import optax
from jax.sharding import Mesh

from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import OptimizerFactory, Schedule, Settings, adam, sgd
from mdfl_jax.config.costs import has_deadline, is_counted, is_filtered
from mdfl_jax.config.families import algorithm_numbers, has_momentum, is_partial, task_numbers
from mdfl_jax.config.sections import Experiment
from mdfl_jax.core.types import FIXED, SYMMETRIC, Hparams
from mdfl_jax.data.dataset import Dataset
from mdfl_jax.engine.simulation import Schedule as RunSchedule
from mdfl_jax.engine.simulation import Simulation, build, check_needs
from mdfl_jax.metrics import asked_for
from mdfl_jax.mobility import Movement
from mdfl_jax.mobility.trace import Tracks
from mdfl_jax.networks.contact_list import ContactList
from mdfl_jax.networks.costs import LinkLoad, Work, counted, link_filter
from mdfl_jax.networks.costs.account import CountedParams
from mdfl_jax.networks.wrappers.participation import partial_participation
from mdfl_jax.study.prepare.costs import cost_params, work_in
from mdfl_jax.study.prepare.network import described, network_of, network_params
from mdfl_jax.study.prepare.task import build_task


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
    rules: list[Movement],
    mesh: Mesh | None = None,
    pretrained: Any = None,
    max_neighbours: int = 0,
) -> Simulation:
    """Build the simulation that the points of a group share. Their traced numbers are its arguments.

    Args:
      experiment: The configuration of any point of the group.
      dataset: The data set, from `load_dataset`.
      rules: The movements of the points of the group. They have no effect with a graph.
      mesh: The devices that share each run, if any.
      pretrained: As in `build_task`.
      max_neighbours: The neighbours that a neighbour list can hold; 0 if links are matrices.

    Raises:
      UserError: If task, network and algorithm do not fit together.
    """
    engine = experiment.engine
    task = build_task(experiment, dataset, mesh, pretrained)
    algorithm = ALGORITHMS[experiment.algorithm.name](
        Settings(
            optimizer=_optimizer(experiment),
            num_local_steps=experiment.algorithm.local_steps,
            mixing_bound=engine.mixing_bound,
            compressor=experiment.algorithm.compressor,
            schedule=_schedule(experiment),
            local_statistics=experiment.algorithm.statistics == "local",
        )
    )
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
    slow = link_filter(work, experiment.cost.short_contact, has_deadline(experiment))
    world = network_of(experiment, rules, slow, max_neighbours)
    check_needs(algorithm, world, experiment.algorithm.name, described(experiment, rules))
    if is_partial(experiment):
        picks = experiment.algorithm.picks
        if picks == "one_way":
            thinned = world._replace(gives=world.gives - {SYMMETRIC})
            check_needs(algorithm, thinned, experiment.algorithm.name, f"a network with algorithm.picks={picks}")
        world = partial_participation(world, FIXED in algorithm.needs, picks)
    if is_counted(experiment):
        world = counted(world, work)
    return build(task, world, algorithm, schedule)


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
      trace: The trace from `mdfl_jax.study.prepare.traces.TraceFiles`, if a rule needs one.
      link_load: `Simulation.link_load` of the simulation; None where only the shapes of the numbers matter.
    """
    cost = cost_params(experiment, link_load) if is_counted(experiment) else None
    network = network_params(experiment, rules, trace, cost if is_filtered(experiment) else None)
    return Hparams(
        task=task_numbers(experiment).traced(),
        network=network if cost is None else CountedParams(network, cost),
        algorithm=algorithm_numbers(experiment).traced(),
    )
