"""From a configuration to the task: data sets, models, synthetic data."""

from typing import Any

import flax.linen as nn
from jax.sharding import Mesh

from mdfl_jax.data.augment import Augmentation
from mdfl_jax.data.dataset import Dataset, hold_out
from mdfl_jax.data.partition import PartitionSettings
from mdfl_jax.data.sources import load
from mdfl_jax.errors import UserError
from mdfl_jax.experiments.sections import DataConfig, Experiment
from mdfl_jax.gradients import Tiling
from mdfl_jax.models import MODELS, ModelSettings
from mdfl_jax.regression import regression
from mdfl_jax.tasks import classification
from mdfl_jax.types import Task

SYNTHETIC = "synthetic:"


def load_dataset(config: DataConfig) -> Dataset | None:
    """The data set that a configuration names, checked against what the partition needs; None where seeds draw it.

    Raises:
      UserError: as `mdfl_jax.data.sources.load`, or where there are fewer classes than a client should hold.
    """
    if config.name.startswith(SYNTHETIC):
        return None
    dataset = load(config.name, config.dir, config.limit_train, config.limit_test)
    if config.partition == "classes_per_client" and config.classes_per_client > dataset.num_classes:
        raise UserError(
            f"data.classes_per_client is {config.classes_per_client}; {dataset.name} has {dataset.num_classes} classes"
        )
    if config.validation >= len(dataset.y_train):
        raise UserError(f"data.validation is {config.validation}; there are {len(dataset.y_train)} training samples")
    return hold_out(dataset, config.validation)


def build_model(experiment: Experiment, dataset: Dataset) -> nn.Module:
    """The model of a point for a data set."""
    model, engine = experiment.model, experiment.engine
    settings = ModelSettings(
        num_classes=dataset.num_classes,
        widths=model.widths,
        kernel=model.kernel,
        hidden=model.hidden,
        convolution="" if engine.convolution == "auto" else engine.convolution,
        remat=engine.remat,
        base_width=model.base_width,
        norm=model.norm,
    )
    return MODELS[model.name](settings)


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
    if dataset is None:
        return regression(
            data.name.removeprefix(SYNTHETIC),
            experiment.network.num_clients,
            data.dimension,
            data.samples_per_client,
            batch_size=experiment.algorithm.batch_size,
            precision=engine.precision,
            mesh=mesh,
        )
    num_clients = experiment.network.num_clients
    return classification(
        dataset,
        build_model(experiment, dataset),
        num_clients=num_clients,
        partition=data.partition,
        settings=PartitionSettings(
            num_clients,
            dataset.num_classes,
            classes_per_client=data.classes_per_client,
            shards_per_client=data.shards_per_client,
        ),
        batch_size=experiment.algorithm.batch_size,
        tiling=Tiling(engine.block_size, engine.tile, engine.mapping),
        precision=engine.precision,
        mesh=mesh,
        augmentation=Augmentation(data.crop, data.flip),
        pretrained=pretrained,
    )
