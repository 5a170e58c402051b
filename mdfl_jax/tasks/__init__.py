"""The learning tasks. Importing the package registers every task."""

from mdfl_jax.tasks.images import (
    PRECISIONS,
    ClassificationClients,
    ClassificationData,
    classification,
    cut_for,
    device_data,
)
from mdfl_jax.tasks.registry import TASKS, TaskKind, TaskRequest, task_named
from mdfl_jax.tasks.regression import LinearNumbers, LogisticNumbers, regression

__all__ = [
    "PRECISIONS",
    "TASKS",
    "ClassificationClients",
    "ClassificationData",
    "LinearNumbers",
    "LogisticNumbers",
    "TaskKind",
    "TaskRequest",
    "classification",
    "cut_for",
    "device_data",
    "regression",
    "task_named",
]
