"""The learning tasks. Importing the package registers every task."""

from mdfl_jax.tasks.blocks import cut_for
from mdfl_jax.tasks.learner import PRECISIONS
from mdfl_jax.tasks.registry import TASKS, TaskKind, TaskRequest, task_named
from mdfl_jax.tasks.regression import LinearNumbers, LogisticNumbers, regression
from mdfl_jax.tasks.samples import SupervisedClients, SupervisedData, device_data, spec_of
from mdfl_jax.tasks.summed import GRADIENTS, summed
from mdfl_jax.tasks.supervised import supervised

classification = supervised  # the usual name where samples have one label each

__all__ = [
    "GRADIENTS",
    "PRECISIONS",
    "TASKS",
    "LinearNumbers",
    "LogisticNumbers",
    "SupervisedClients",
    "SupervisedData",
    "TaskKind",
    "TaskRequest",
    "classification",
    "cut_for",
    "device_data",
    "regression",
    "spec_of",
    "summed",
    "supervised",
    "task_named",
]
