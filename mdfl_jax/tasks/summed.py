"""What a client's gradient is: the mean of the gradients of its samples, or their sum."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from mdfl_jax.core.batch_statistics import each
from mdfl_jax.core.trees import rows_like
from mdfl_jax.core.types import ClientParams, Task


def summed(task: Task, batch_size: int) -> Task:
    """Make a task whose gradients are sums over the samples of a minibatch (thesis, algorithm 1), and not means.

    The losses stay means, and so do the steps of batch statistics.

    Args:
      task: the task, whose gradients are means.
      batch_size: M, the samples of a minibatch; 0: all samples of the client.

    Returns:
      The task.
    """

    def gradient(
        data: Any, clients: Any, client_params: ClientParams, key: jax.Array, **more: Any
    ) -> tuple[jax.Array, ClientParams]:
        loss, found = task.gradient(data, clients, client_params, key, **more)
        counts = jnp.full_like(clients.num_samples, batch_size) if batch_size else clients.num_samples
        of_samples = lambda g: g * rows_like(counts, g).astype(g.dtype)  # noqa: E731
        return loss, each(of_samples, lambda statistic: statistic, found)

    return task._replace(gradient=gradient)


GRADIENTS: dict[str, Callable[[Task, int], Task]] = {"mean": lambda task, batch_size: task, "sum": summed}
"""What a client's gradient is, by name: (task with means, samples of a minibatch) -> task."""
