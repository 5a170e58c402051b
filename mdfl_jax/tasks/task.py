"""The family of tasks, which learn from a data set or from data that each seed draws.

The field `data.name` of a study names its task. A name that is no task names a data set, whose targets are learnt.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from mdfl_jax.core.numbers import Numbers
from mdfl_jax.core.registry import Registry
from mdfl_jax.core.trees import each, rows_like
from mdfl_jax.core.types import ClientParams, Task
from mdfl_jax.data.augment import Augmentation
from mdfl_jax.data.dataset import Dataset
from mdfl_jax.tasks.gradients import Tiling

OF_DATASETS = "classification"


class TaskRequest(NamedTuple):
    """The settings that a study gives to its task. Each task reads the ones that it needs.

    Attributes:
      num_clients: N.
      num_relays: K, the last clients, which hold no data.
      numbers: the task's numbers, of the class that it is registered with.
      batch_size: samples of a client's minibatch; 0 takes all its samples.
      precision: the precision of the models' arithmetic, one of the task's ``precisions``.
      mesh: devices that share one simulation; None for one device.
      tiling: how samples are divided into blocks and tiles.
      dataset: samples and targets; None for a task that draws its data.
      model: a model of the samples, as `mdfl_jax.models.client_model` takes it; None without a data set.
      partition: a name of `mdfl_jax.data.partition.PARTITIONS`.
      augmentation: how training images are augmented.
      pretrained: initial variables of the model, see `mdfl_jax.models.weights.WeightFormat`.
      loss: a name of `mdfl_jax.tasks.losses.LOSSES`; empty: the natural loss of the data set's targets.
      loss_numbers: the numbers of the loss; None: its defaults.
      trainable: patterns of the paths of the model's leaves that are trained; empty: all.
    """

    num_clients: int
    numbers: Any = Numbers()
    batch_size: int = 0
    precision: str = "float32"
    mesh: Mesh | None = None
    tiling: Tiling = Tiling()
    dataset: Dataset | None = None
    model: Any = None
    partition: str = "dirichlet"
    augmentation: Augmentation = Augmentation()
    pretrained: Any = None
    loss: str = ""
    loss_numbers: Any = None
    num_relays: int = 0
    trainable: str = ""


class TaskKind(NamedTuple):
    """A task as the registry holds it.

    Attributes:
      make: (request) -> `mdfl_jax.core.types.Task`. Its ``partition`` gets ``hparams.task``: the task's own numbers,
        or the numbers of the partition where ``of_datasets`` is true.
      of_datasets: whether the task learns from a data set, with a model and a partition; else each seed draws its data.
      precisions: the precisions that the task supports.
      has_objective: whether the task has an objective, which the stop rule needs.
      has_epochs: whether the task has minibatches of epochs (`mdfl_jax.core.types.TaskHooks.passes`).
      is_light: whether a round takes only microseconds; then devices share a run only on request.
    """

    make: Callable[[TaskRequest], Task]
    of_datasets: bool = False
    precisions: tuple[str, ...] = ("float32",)
    has_objective: bool = False
    is_light: bool = False
    has_epochs: bool = False


TASKS: Registry[TaskKind] = Registry("task", home="mdfl_jax.tasks")


def task_named(data_name: str) -> str:
    """Return the name of a study's task: its ``data.name`` if that is a task, else "classification"."""
    return data_name if data_name in TASKS else OF_DATASETS


def summed(task: Task, batch_size: int) -> Task:
    """Make a task whose gradients are sums over the samples of a minibatch (thesis, algorithm 1), and not means.

    The losses stay means, and so do the steps of batch statistics. A whole gradient that an algorithm asks for beside
    minibatches is M times the mean, so that a difference of both has the mean zero.

    Args:
      task: the task, whose gradients are means.
      batch_size: M, the samples of a minibatch; 0: all samples of the client.

    Returns:
      The task.
    """

    @functools.wraps(task.gradient)  # which arguments it takes is asked of it
    def gradient(
        data: Any, clients: Any, client_params: ClientParams, key: jax.Array, **more: Any
    ) -> tuple[jax.Array, ClientParams]:
        loss, found = task.gradient(data, clients, client_params, key, **more)
        counts = jnp.full_like(clients.num_samples, batch_size) if batch_size else clients.num_samples
        if (batch := more.get("batch")) is not None:
            counts = jnp.sum(batch.mask, axis=1)
        of_samples = lambda g: g * rows_like(counts, g).astype(g.dtype)  # noqa: E731
        return loss, each(of_samples, lambda statistic: statistic, found)

    return task._replace(gradient=gradient)


GRADIENTS: dict[str, Callable[[Task, int], Task]] = {"mean": lambda task, batch_size: task, "sum": summed}
"""The gradients of a client that a study can choose, by name: (task with means, samples of a minibatch) -> task."""
