"""From a configuration to the task: data sets and models."""

from typing import Any

import flax.linen as nn
from jax.sharding import Mesh

from mdfl_jax.data.augment import Augmentation
from mdfl_jax.data.dataset import Dataset, hold_out
from mdfl_jax.data.partition import PARTITIONS
from mdfl_jax.data.sources import load
from mdfl_jax.errors import UserError
from mdfl_jax.experiments.config.families import numbers_in, task_of
from mdfl_jax.experiments.config.sections import DataConfig, Experiment
from mdfl_jax.gradients import Tiling
from mdfl_jax.models import MODELS, ModelSettings
from mdfl_jax.numbers import from_values
from mdfl_jax.tasks import TASKS, TaskRequest, task_named
from mdfl_jax.types import Task


def load_dataset(config: DataConfig) -> Dataset | None:
    """The data set that a configuration names, checked against what the partition needs; None where seeds draw it.

    Raises:
      UserError: as `mdfl_jax.data.sources.load`, or where there are fewer classes than a client should hold.
    """
    if not TASKS[task_named(config.name)].of_datasets:
        return None
    dataset = load(config.name, config.dir, config.limit_train, config.limit_test)
    numbers = from_values(PARTITIONS.numbers(config.partition), vars(config))
    numbers.check_dataset(dataset.num_classes, dataset.name)
    if config.validation >= len(dataset.y_train):
        raise UserError(f"data.validation is {config.validation}; there are {len(dataset.y_train)} training samples")
    return hold_out(dataset, config.validation)


def build_model(experiment: Experiment, dataset: Dataset) -> nn.Module:
    """The model of a point for a data set."""
    model, engine = experiment.model, experiment.engine
    form = "" if engine.convolution == "auto" else engine.convolution
    numbers = from_values(MODELS.numbers(model.name), vars(model))
    return MODELS[model.name](ModelSettings(dataset.num_classes, numbers, form, engine.remat))


def build_task(
    experiment: Experiment, dataset: Dataset | None, mesh: Mesh | None = None, pretrained: Any = None
) -> Task:
    """What is learnt.

    Args:
      experiment: any point of the group.
      dataset: from `load_dataset`.
      mesh: the devices that share each run, if any.
      pretrained: what the model starts from, as `mdfl_jax.models.pretrained.match` gives it; all is drawn without.
    """
    data, engine = experiment.data, experiment.engine
    asked = TaskRequest(
        num_clients=experiment.network.num_clients,
        numbers=numbers_in(experiment, TASKS, task_named(data.name)),
        batch_size=experiment.algorithm.batch_size,
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
