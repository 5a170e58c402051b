"""Builds what a configuration says about costs: the work of a round, the link filter, and the traced numbers."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from mdfl_jax.config.checks import read_speeds
from mdfl_jax.config.families import algorithm_numbers
from mdfl_jax.config.sections import CostConfig, Experiment
from mdfl_jax.core.types import Algorithm, Task
from mdfl_jax.networks.costs import CostParams, LinkLoad, Work
from mdfl_jax.networks.costs.filters import IGNORE
from mdfl_jax.networks.costs.work import work_of

NUMBERS = tuple(each.name for each in dataclasses.fields(CostConfig) if isinstance(each.default, float))
"""The fields of the section `cost` that are numbers. `CostParams` has the same names."""


def work_in(experiment: Experiment, task: Task, algorithm: Algorithm) -> Work:
    """Return what a client computes in a round, found out by tracing a round of the algorithm.

    Args:
      experiment: The configuration of any point of a group.
      task: Its task, for the shapes of a model.
      algorithm: Its algorithm.
    """
    model = jax.eval_shape(task.init, task.data, jax.random.key(0))
    return work_of(algorithm, algorithm_numbers(experiment).traced(), model, experiment.algorithm.batch_size)


def movement_seconds(experiment: Experiment) -> float:
    """Return the seconds of movement in a round: motion.dt, or 0 where no client has a place that matters."""
    in_space = not experiment.network.graph and experiment.server.pattern in ("", "roadside")
    return experiment.motion.dt if in_space else 0.0


def cost_params(experiment: Experiment, link_load: Callable[[Any], LinkLoad] | None = None) -> CostParams:
    """Return the traced numbers of the costs of a point, as NumPy values of fixed type.

    Args:
      experiment: The configuration of the point.
      link_load: (the algorithm's traced numbers) -> what a link carries in a round (`mdfl_jax.networks.costs.probe`);
        None where only the shapes of the numbers matter.

    Raises:
      UserError: If the file of speeds cannot be used.
    """
    cost, number = experiment.cost, np.float32
    load = LinkLoad(1.0, 0.0)
    if link_load and cost.short_contact != IGNORE:
        load = link_load(algorithm_numbers(experiment).traced())
    return CostParams(
        **{name: number(getattr(cost, name)) for name in NUMBERS},
        speeds=read_speeds(cost.speeds, experiment.network.num_clients) if cost.speeds else None,
        round_seconds=number(movement_seconds(experiment)),
        link_messages=number(load.messages),
        link_bits=number(load.bits),
    )
