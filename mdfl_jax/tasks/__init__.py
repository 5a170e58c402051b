"""The learning tasks. A file of this folder registers its task in `TASKS`."""

from mdfl_jax.tasks.regression import LinearNumbers, LogisticNumbers, regression
from mdfl_jax.tasks.supervised import (
    PRECISIONS,
    SupervisedClients,
    SupervisedData,
    cut_for,
    device_data,
    spec_of,
    supervised,
)
from mdfl_jax.tasks.task import GRADIENTS, TASKS, TaskKind, TaskRequest, summed, task_named

classification = supervised  # the usual name where samples have one label each
