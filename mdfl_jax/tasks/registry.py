"""The tasks by name: what is learnt, of a data set or of data that each seed draws.

A study's task is the one that `data.name` names; any other name is a data set, to be classified.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from jax.sharding import Mesh

from mdfl_jax.data.augment import Augmentation
from mdfl_jax.data.dataset import Dataset
from mdfl_jax.gradients import Tiling
from mdfl_jax.numbers import Numbers
from mdfl_jax.registry import Registry
from mdfl_jax.types import Task

OF_DATASETS = "classification"


class TaskRequest(NamedTuple):
    """What a study asks of its task; each task takes what it has a use for.

    Attributes:
      num_clients: N.
      numbers: of the task, of the class that it is registered with.
      batch_size: samples of a client's minibatch; 0 takes all its samples.
      precision: of the models' arithmetic, one of the task's ``precisions``.
      mesh: devices that share one simulation, if any.
      tiling: how samples are cut up.
      dataset: images and labels; None of a task that draws its data.
      model: a flax module for them; None without a data set.
      partition: a name of `mdfl_jax.data.partition.PARTITIONS`.
      augmentation: how training images are shown.
      pretrained: what the model starts from, see `mdfl_jax.models.pretrained.match`.
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


class TaskKind(NamedTuple):
    """A task as the registry holds it.

    Attributes:
      make: (request) -> `mdfl_jax.types.Task`. Its ``partition`` gets the task's numbers as ``hparams.task``, or those
        of the partition where the task is of data sets.
      of_datasets: it learns from a data set, with a model and a partition; else each seed draws its data.
      precisions: which it has.
      has_objective: the stop rule can be used.
      is_light: its rounds take microseconds, so that devices share a run only where that is asked for.
    """

    make: Callable[[TaskRequest], Task]
    of_datasets: bool = False
    precisions: tuple[str, ...] = ("float32",)
    has_objective: bool = False
    is_light: bool = False


TASKS: Registry[TaskKind] = Registry("task")


def task_named(data_name: str) -> str:
    """The task of a study: the one that its ``data.name`` names, else the classification of a data set."""
    return data_name if data_name in TASKS else OF_DATASETS
