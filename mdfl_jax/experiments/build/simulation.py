"""From a configuration to the three nouns and their numbers."""

from typing import Any

import optax
from jax.sharding import Mesh

from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import OptimizerFactory, Schedule, Settings, adam, sgd
from mdfl_jax.data.dataset import Dataset
from mdfl_jax.experiments.build.network import described, is_thinned, network_of, network_params
from mdfl_jax.experiments.build.task import build_task
from mdfl_jax.experiments.config.families import algorithm_numbers, has_momentum, task_numbers
from mdfl_jax.experiments.config.sections import Experiment
from mdfl_jax.mobility.trace import Tracks
from mdfl_jax.networks.contact_list import ContactList
from mdfl_jax.networks.participation import thinned
from mdfl_jax.simulation import Schedule as RunSchedule
from mdfl_jax.simulation import Simulation, build, check_needs
from mdfl_jax.types import FIXED, Hparams


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
    rules: list[str],
    mesh: Mesh | None = None,
    pretrained: Any = None,
) -> Simulation:
    """The compiled shape of a group of points.

    Args:
      experiment: any point of the group.
      dataset: from `load_dataset`.
      rules: the mobility rules that the group's points use; not looked at under a graph.
      mesh: the devices that share each run, if any.
      pretrained: as `build_task`.

    Raises:
      UserError: where the parts do not fit.
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
    )
    world = network_of(experiment, rules)
    check_needs(algorithm, world, experiment.algorithm.name, described(experiment, rules))
    if is_thinned(experiment):
        world = thinned(world, stay=FIXED in algorithm.needs)
    return build(task, world, algorithm, schedule)


def hparams_of(experiment: Experiment, rules: list[str], trace: Tracks | ContactList | None = None) -> Hparams:
    """The traced numbers of a point, as NumPy scalars of fixed type, so that no point compiles again.

    Args:
      experiment: the point's configuration.
      rules: as given to `build_simulation`.
      trace: of `mdfl_jax.experiments.build.traces.TraceFiles`, where a rule needs one.
    """
    return Hparams(
        task=task_numbers(experiment).traced(),
        network=network_params(experiment, rules, trace),
        algorithm=algorithm_numbers(experiment).traced(),
    )
