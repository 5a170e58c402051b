"""From a configuration to the three nouns and their numbers."""

from typing import Any

import numpy as np
import optax
from jax.sharding import Mesh

from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import AlgorithmParams, OptimizerFactory, Schedule, Settings, adam, sgd
from mdfl_jax.algorithms.registry import numbers_of
from mdfl_jax.data.dataset import Dataset
from mdfl_jax.experiments.build_task import SYNTHETIC, build_task
from mdfl_jax.experiments.graph_points import graph_network, graph_params
from mdfl_jax.experiments.participation_points import is_thinned, participation_of
from mdfl_jax.experiments.sections import AlgorithmConfig, Experiment, MotionConfig
from mdfl_jax.experiments.server_points import server_network, server_params
from mdfl_jax.experiments.world_checks import parse_loop
from mdfl_jax.mobility import BOUNDARIES, Motion
from mdfl_jax.mobility.trace import Tracks
from mdfl_jax.networks.contact_list import ContactList
from mdfl_jax.networks.participation import ThinnedParams, thinned
from mdfl_jax.networks.spatial import SpatialParams, spatial
from mdfl_jax.regression import RegressionParams
from mdfl_jax.simulation import Schedule as RunSchedule
from mdfl_jax.simulation import Simulation, build, check_needs
from mdfl_jax.tasks import PartitionParams
from mdfl_jax.types import FIXED, Hparams, Network


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
    return sgd(_schedule(experiment), momentum=experiment.algorithm.momentum > 0)


def build_simulation(
    experiment: Experiment,
    dataset: Dataset | None,
    patterns: list[str],
    mesh: Mesh | None = None,
    pretrained: Any = None,
) -> Simulation:
    """The compiled shape of a group of points.

    Args:
      experiment: any point of the group.
      dataset: from `load_dataset`.
      patterns: the mobility rules that the group's points use; not looked at under a graph.
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
    world = _network(experiment, patterns)
    check_needs(algorithm, world, experiment.algorithm.name, _described(experiment, patterns))
    if is_thinned(experiment.algorithm):
        world = thinned(world, stay=FIXED in algorithm.needs)
    return build(task, world, algorithm, schedule)


def _described(experiment: Experiment, patterns: list[str]) -> str:
    """How an error calls the network of a group of points."""
    network = experiment.network
    if network.graph:
        where = f"network.graph={network.graph}"
        where += f" with graph.file={experiment.graph.file}" if network.graph == "file" else ""
    else:
        where = f"network.mobility={','.join(patterns)} with network.contact={network.contact}"
    if experiment.server.pattern:
        over = f" over {where}" if experiment.server.pattern == "roadside" else ""
        where = f"server.pattern={experiment.server.pattern}{over}"
    where += " and failing links" if network.link_failure > 0 or network.link_fading > 0 else ""
    return f"{where}, network.mixing={network.mixing},"


def _network(experiment: Experiment, patterns: list[str]) -> Network:
    network = experiment.network
    if network.graph:
        return graph_network(experiment)
    world = spatial(
        network.num_clients,
        network.grid_size,
        patterns,
        mixing=network.mixing,
        contact=network.contact,
        links_fail=network.link_failure > 0 or network.link_fading > 0,
    )
    return server_network(experiment, world) if experiment.server.pattern else world


def _motion(config: MotionConfig) -> Motion:
    """The numbers of the plane as NumPy scalars and arrays of fixed type."""
    kinds: dict[Any, Any] = {int: np.int32, bool: np.bool_, float: np.float32}
    values = {
        name: kinds[type(v)](v) for name, v in vars(config).items() if name in Motion._fields and type(v) in kinds
    }
    return Motion(
        **values,
        boundary=np.int32(BOUNDARIES.index(config.boundary)),
        directions=np.array([config.up, config.down, config.left, config.right], np.float32),
        loop=np.array(parse_loop(config.loop), np.float32),
    )


def _algorithm_numbers(config: AlgorithmConfig) -> AlgorithmParams:
    """The numbers of an algorithm, its own where the configuration says 0 and that is not a value of the field."""
    own, defaults = numbers_of(config.name), AlgorithmConfig()
    says = lambda name: bool(getattr(config, name) or getattr(defaults, name))  # noqa: E731
    values = {name: getattr(config if says(name) else own, name) for name in AlgorithmParams._fields}
    kinds = AlgorithmConfig.__annotations__
    return AlgorithmParams(**{n: np.int32(v) if kinds[n] is int else np.float32(v) for n, v in values.items()})


def hparams_of(experiment: Experiment, patterns: list[str], trace: Tracks | ContactList | None = None) -> Hparams:
    """The traced numbers of a point, as NumPy scalars of fixed type, so that no point compiles again.

    Args:
      experiment: the point's configuration.
      patterns: as given to `build_simulation`.
      trace: of `mdfl_jax.experiments.trace_files.TraceFiles`, where a rule needs one.
    """
    number: Any = np.float32
    network: Any = graph_params(experiment) if experiment.network.graph else _in_space(experiment, patterns, trace)
    if experiment.server.pattern:
        network = server_params(experiment, network)
    if is_thinned(experiment.algorithm):
        participation, period = participation_of(experiment.algorithm)
        network = ThinnedParams(network, number(participation), np.int32(period))
    return Hparams(
        task=RegressionParams(
            number(experiment.data.shift), number(experiment.data.l2), number(experiment.data.truth_share)
        )
        if experiment.data.name.startswith(SYNTHETIC)
        else PartitionParams(alpha=number(experiment.data.alpha)),
        network=network,
        algorithm=_algorithm_numbers(experiment.algorithm),
    )


def _in_space(experiment: Experiment, patterns: list[str], trace: Tracks | ContactList | None) -> SpatialParams:
    number: Any = np.float32
    network = experiment.network
    return SpatialParams(
        num_mobile=np.int32(network.num_mobile),
        radius=number(network.radius),
        max_step=number(network.max_step),
        pattern=np.int32(patterns.index(network.mobility)),
        radius_spread=number(network.radius_spread),
        link_failure=number(network.link_failure),
        link_fading=number(network.link_fading),
        ratio=number(network.ratio),
        motion=_motion(experiment.motion),
        warm_up_met=number(network.warm_up_met),
        tell_met=np.bool_(network.tell_met),
        trace=trace,
    )
