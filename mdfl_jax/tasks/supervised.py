"""The task of a data set, made from its arrays, a model and a loss."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from mdfl_jax.core.batch_statistics import STATISTICS, trained
from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.core.trees import chosen_leaves
from mdfl_jax.core.types import Scoring, Spread, Task
from mdfl_jax.data.augment import Augmentation, check_augmentation
from mdfl_jax.data.batching import ClientIndex
from mdfl_jax.data.dataset import Dataset, Targets
from mdfl_jax.data.partition import PARTITIONS
from mdfl_jax.models.adapters import client_model, draws, variables_of
from mdfl_jax.models.client_models import with_stream
from mdfl_jax.tasks.gradients import Tiling
from mdfl_jax.tasks.learner import PRECISIONS, Learner, low_type
from mdfl_jax.tasks.losses import LOSSES, check_loss, loss_named
from mdfl_jax.tasks.samples import SupervisedClients, cut_for, device_data, spec_of
from mdfl_jax.tasks.scoring import Part
from mdfl_jax.tasks.task import OF_DATASETS, TASKS, TaskKind, TaskRequest


def supervised(
    dataset: Dataset,
    model: Any,
    num_clients: int,
    partition: str = "dirichlet",
    batch_size: int = 0,
    tiling: Tiling = Tiling(),
    precision: str = "float32",
    mesh: Mesh | None = None,
    augmentation: Augmentation = Augmentation(),
    pretrained: Any = None,
    loss: str = "",
    loss_numbers: Any = None,
    trainable: str = "",
) -> Task:
    """Make the task of learning the targets of a data set that is divided among clients.

    A model with batch statistics (`mdfl_jax.core.batch_statistics`) normalises each block separately, and a model with
    random draws draws for each block. For both, a minibatch is one block, unless ``tiling`` sets the block size. In
    full-batch training each block is weighted by its number of samples.

    Args:
      dataset: samples and targets, see `mdfl_jax.data.sources.load`.
      model: a model from normalised samples [B, ...] to outputs [B, C], or [B, T, C] with a label at each position;
        anything that `mdfl_jax.models.client_model` takes.
      num_clients: N >= 1.
      partition: a name of `mdfl_jax.data.partition.PARTITIONS`; its numbers are ``hparams.task``.
      batch_size: samples of a client's minibatch, drawn with replacement; 0 takes all its samples (full batch).
      tiling: how samples are divided into blocks and tiles.
      precision: the precision of the models' arithmetic, one of `PRECISIONS`; weights, sums and mixing are always
        float32.
      mesh: devices that share one simulation, from `mdfl_jax.core.sharding.client_mesh`; None for one device.
      augmentation: how training images are augmented; by default they are not.
      pretrained: initial variables of the model, see `mdfl_jax.models.pretrained.match`; None draws all of them.
      loss: a name of `mdfl_jax.tasks.losses.LOSSES`; empty: the natural one of the targets.
      loss_numbers: the numbers of the loss; None: its defaults.
      trainable: patterns of the paths of the leaves that are trained (`mdfl_jax.core.trees.chosen_leaves`); empty: all.

    Raises:
      UserError: for an unknown partition, mapping, precision or loss; for a loss or an augmentation that the data set
        does not allow; or for full-batch training of a model that has both batch statistics and random draws.
    """
    return _make(
        TaskRequest(
            num_clients,
            batch_size=batch_size,
            precision=precision,
            mesh=mesh,
            tiling=tiling,
            dataset=dataset,
            model=model,
            partition=partition,
            augmentation=augmentation,
            pretrained=pretrained,
            loss=loss,
            loss_numbers=loss_numbers,
            trainable=trainable,
        )
    )


def _make(asked: TaskRequest) -> Task:
    """Make the task of a request, which has a data set."""
    dataset = asked.dataset
    assert dataset is not None
    learner = _learner(asked, dataset)
    by_place = getattr(PARTITIONS.numbers(asked.partition), "needs_places", False)
    return Task(
        asked.num_clients,
        device_data(dataset)._replace(pretrained=jax.tree.map(jnp.asarray, asked.pretrained)),
        learner.partition,
        learner.init,
        learner.gradient,
        learner.evaluate,
        validate=learner.validate if dataset.x_validation is not None else None,
        by_place=by_place,
        owner=learner.owner,
        spread=Spread(asked.mesh, _by_client, learner.sizes.alone),
        scoring=Scoring(
            in_turn=learner.sizes.chunk > 0,
            over_test=learner.over_test,
            num_labels=dataset.num_classes if learner.has_one_label else None,
            local_accuracy=learner.local_accuracy if dataset.client_test is not None else None,
            part=Part(len(dataset.y_test), learner.evaluate_part),
        ),
    )


def _learner(asked: TaskRequest, dataset: Dataset) -> Learner:
    """Check a request, and return the settings of the task."""
    name = loss_named(asked.loss, dataset.targets)
    check_loss(name, dataset)
    check_augmentation(asked.augmentation, dataset)
    sample, model, per_position = spec_of(dataset), client_model(asked.model), dataset.targets is Targets.POSITIONS
    num_outputs, batch_size, precision = LOSSES[name].num_outputs(dataset), asked.batch_size, asked.precision
    shapes = variables_of(model, sample, num_outputs, per_position)
    model = with_stream(model, shapes, sample)
    with_statistics, may_draw = STATISTICS in shapes, draws(model)
    if may_draw and with_statistics and not batch_size:
        raise UserError(
            "algorithm.batch_size is 0; an adapted model with batch statistics needs minibatches, 1 or more"
        )
    chosen_leaves(trained(shapes if with_statistics else shapes["params"]), asked.trainable, "model.trainable")
    if precision not in PRECISIONS:
        raise UserError(unknown_name("precision", precision, PRECISIONS))
    count, dtype = len(dataset.y_train), low_type(precision)
    PARTITIONS[asked.partition]  # an unknown name is told before anything is computed
    return Learner(
        num_clients=asked.num_clients,
        num_owners=asked.num_clients - asked.num_relays,
        model=model,
        sample=sample,
        num_outputs=num_outputs,
        per_position=per_position,
        loss=LOSSES[name],
        loss_numbers=LOSSES.numbers(name)() if asked.loss_numbers is None else asked.loss_numbers,
        partition_name=asked.partition,
        num_strata=dataset.num_strata,
        num_natural_owners=0 if dataset.client is None else len(np.unique(dataset.client)),
        batch_size=batch_size,
        sizes=cut_for(model, shapes, sample, batch_size, count, asked.num_clients, asked.tiling, dtype),
        precision=precision,
        mesh=asked.mesh,
        augmentation=asked.augmentation,
        with_statistics=with_statistics,
        may_draw=may_draw,
        has_one_label=dataset.targets is Targets.LABELS,
        trainable=asked.trainable,
    )


def _by_client(clients: SupervisedClients) -> SupervisedClients:
    """Divide all fields by client, except the list of sample indices.

    The clients of a device may hold any number of samples, so each device keeps the whole list, which is n words.
    """
    alike = jax.tree.map(lambda _: False, clients.frozen)
    divided = jax.tree.map(lambda _: True, clients)
    return divided._replace(held=ClientIndex(False, True, True, True), frozen=alike)  # type: ignore[arg-type]


TASKS.register(OF_DATASETS, doc="Learns the targets of a partitioned data set: labels, numbers or sequences.")(
    TaskKind(_make, of_datasets=True, precisions=tuple(PRECISIONS))
)
