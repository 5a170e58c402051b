"""Builds the task of a configuration: its data set and its model."""

from typing import Any

import flax.linen as nn
from jax.sharding import Mesh

from mdfl_jax.data.augment import Augmentation
from mdfl_jax.data.dataset import Dataset, hold_out
from mdfl_jax.data.sources import load
from mdfl_jax.errors import UserError
from mdfl_jax.experiments.config.families import numbers_in, task_numbers, task_of
from mdfl_jax.experiments.config.sections import DataConfig, Experiment
from mdfl_jax.gradients import Tiling
from mdfl_jax.models import MODELS, ModelSettings
from mdfl_jax.numbers import from_values
from mdfl_jax.tasks import TASKS, TaskRequest, task_named
from mdfl_jax.types import Task


def load_dataset(config: DataConfig) -> Dataset | None:
    """Loads the data set that a configuration names, and holds out its validation samples.

    Returns:
      The data set, or None for a task that draws its data from the seed.

    Raises:
      UserError: As `mdfl_jax.data.sources.load`. Also if the validation samples would leave no training samples.
    """
    if not TASKS[task_named(config.name)].of_datasets:
        return None
    dataset = load(config.name, config.dir, config.limit_train, config.limit_test)
    if config.validation >= len(dataset.y_train):
        raise UserError(f"data.validation is {config.validation}; there are {len(dataset.y_train)} training samples")
    return hold_out(dataset, config.validation)


def build_model(experiment: Experiment, dataset: Dataset) -> nn.Module:
    """Builds the model of a point for a data set."""
    model, engine = experiment.model, experiment.engine
    form = "" if engine.convolution == "auto" else engine.convolution
    numbers = from_values(MODELS.numbers(model.name), vars(model))
    return MODELS[model.name](ModelSettings(dataset.num_classes, numbers, form, engine.remat))


def build_task(
    experiment: Experiment, dataset: Dataset | None, mesh: Mesh | None = None, pretrained: Any = None
) -> Task:
    """Builds the task of a group of points.

    Args:
      experiment: The configuration of any point of the group.
      dataset: The data set, from `load_dataset`.
      mesh: The devices that share each run, if any.
      pretrained: The variables from which the model starts, as `mdfl_jax.models.pretrained.match` returns them; None:
        all are drawn at random.

    Raises:
      UserError: If a minibatch is larger than the data set, if the data set cannot be divided as configured, or if the
        task refuses what it is asked.
    """
    data, engine, batch_size = experiment.data, experiment.engine, experiment.algorithm.batch_size
    if dataset is not None and batch_size > len(dataset.y_train):
        raise UserError(
            f"algorithm.batch_size is {batch_size}; all clients together have {len(dataset.y_train)} training samples "
            "(0: full batch)"
        )
    if dataset is not None:
        task_numbers(experiment).check_dataset(dataset, experiment.network.num_clients)
    asked = TaskRequest(
        num_clients=experiment.network.num_clients,
        numbers=numbers_in(experiment, TASKS, task_named(data.name)),
        batch_size=batch_size,
        precision=engine.precision,
        mesh=mesh,
        tiling=Tiling(engine.block_size, engine.tile, engine.mapping),
        dataset=dataset,
        model=None if dataset is None else build_model(experiment, dataset),
        partition=data.partition,
        augmentation=Augmentation(data.crop, data.flip),
        pretrained=pretrained,
    )
    return task_of(experiment).make(asked)
