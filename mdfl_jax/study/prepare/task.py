"""Builds the task of a configuration: its data set and its model."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from mdfl_jax.config.families import numbers_in, task_numbers, task_of
from mdfl_jax.config.sections import DataConfig, Experiment
from mdfl_jax.config.texts import keys_of
from mdfl_jax.core.contract import where
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbers import from_values
from mdfl_jax.core.own_files import is_own
from mdfl_jax.core.types import Hparams, Task
from mdfl_jax.data.augment import Augmentation
from mdfl_jax.data.dataset import Dataset, Targets, hold_out
from mdfl_jax.data.partition import PARTITIONS
from mdfl_jax.data.sources import load
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.models import MODELS, ModelSettings, SampleSpec, client_model
from mdfl_jax.tasks import GRADIENTS, TASKS, TaskRequest, spec_of, task_named
from mdfl_jax.tasks.gradients import Tiling
from mdfl_jax.tasks.losses import LOSSES, check_loss, loss_named


def load_dataset(config: DataConfig) -> Dataset | None:
    """Load the data set that a configuration names, and hold out its validation samples.

    Returns:
      The data set, or None for a task that draws its data from the seed.

    Raises:
      UserError: As `mdfl_jax.data.sources.load`. Also if the validation samples would leave no training samples, or if
        the data set has validation samples of its own.
    """
    if not TASKS[task_named(config.name)].of_datasets:
        return None
    dataset = load(config.name, config.dir, config.limit_train, config.limit_test)
    if config.validation >= len(dataset.y_train):
        raise UserError(f"data.validation is {config.validation}; there are {len(dataset.y_train)} training samples")
    if config.validation and dataset.x_validation is not None:
        raise UserError(
            f"data.validation is {config.validation}; {dataset.name} has {len(dataset.x_validation)} validation "
            "samples of its own, so it must be 0"
        )
    return hold_out(dataset, config.validation)._replace(normalize=config.normalize)


def sample_of(dataset: Dataset) -> SampleSpec:
    """Return what a sample of a data set is, as the models receive it."""
    return spec_of(dataset)


def loss_of(experiment: Experiment, dataset: Dataset) -> tuple[str, Any]:
    """Return the name and the numbers of a point's loss.

    Raises:
      UserError: If the loss cannot be used with the targets of the data set.
    """
    name = loss_named(experiment.model.loss, dataset.targets)
    check_loss(name, dataset)
    numbers = from_values(LOSSES.numbers(name), vars(experiment.model))
    numbers.validate("model.")
    return name, numbers


def build_model(experiment: Experiment, dataset: Dataset) -> Any:
    """Build the model of a point for a data set.

    Raises:
      UserError: If the factory of the model returns nothing that is a model; the message names the user's file.
    """
    model, engine = experiment.model, experiment.engine
    form = "" if engine.convolution == "auto" else engine.convolution
    numbers = from_values(MODELS.numbers(model.name), vars(model))
    num_outputs = LOSSES[loss_of(experiment, dataset)[0]].num_outputs(dataset)
    per_position = dataset.targets is Targets.POSITIONS
    make = MODELS[model.name]
    made = make(ModelSettings(num_outputs, numbers, form, engine.remat, sample_of(dataset), per_position))
    try:
        return client_model(made)
    except UserError as error:
        place = "" if error.__cause__ else where(make).rpartition(": ")[0]
        raise UserError(f"{place}: {error}" if place else str(error)) from error.__cause__


def check_owners(experiment: Experiment, simulation: Simulation, hparams: Hparams, seeds: list[int]) -> None:
    """Check that a partition of the user's own gives samples to the clients that there are.

    Args:
      experiment: The configuration of a point.
      simulation: Its simulation.
      hparams: Its traced numbers.
      seeds: The seeds whose partitions are drawn.

    Raises:
      UserError: If it gives a sample to a client that there is not. The message names the function.
    """
    if simulation.task.owner is None or not is_own(PARTITIONS.origin(experiment.data.partition)):
        return
    owner, last = simulation.owner, experiment.network.num_clients - experiment.network.relays - 1

    def ends(data: Any, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        found = owner(data, hparams, key)
        return jnp.min(found), jnp.max(found)

    low, high = jax.jit(lambda data: jax.lax.map(partial(ends, data), keys_of(experiment, seeds)))(simulation.data)
    wrong = [k for k in range(len(seeds)) if low[k] < -1 or high[k] > last]
    if wrong:
        k = wrong[0]
        raise UserError(
            f"{where(PARTITIONS[experiment.data.partition])} returned owners from {low[k]} to {high[k]} with seed "
            f"{seeds[k]}; they must be -1 (nobody) to {last}"
        )


def build_task(
    experiment: Experiment, dataset: Dataset | None, mesh: Mesh | None = None, pretrained: Any = None
) -> Task:
    """Build the task of a group of points.

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
        task_numbers(experiment).check_dataset(dataset, experiment.network.num_clients - experiment.network.relays)
    loss, loss_numbers = ("", None) if dataset is None else loss_of(experiment, dataset)
    asked = TaskRequest(
        num_clients=experiment.network.num_clients,
        num_relays=experiment.network.relays,
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
        loss=loss,
        loss_numbers=loss_numbers,
        trainable=experiment.model.trainable,
    )
    return GRADIENTS[experiment.algorithm.gradient](task_of(experiment).make(asked), batch_size)
