"""Batch statistics as a part of the model, beside the trained parameters.

The model of a task with batch normalisation is {"params": ..., "batch_stats": ...}; any other model is the tree of its
parameters. A running statistic is treated like a parameter: it is sent, mixed and relayed with the parameters, as if
PyTorch state dictionaries were averaged. Its gradient is momentum * (statistic - the batch's statistic), which is the
gradient of a quadratic around the batch's statistic. A plain step of length one therefore gives the usual running
average; no optimiser, decay or learning rate is applied to it. With ``algorithm.statistics=local`` an algorithm
exchanges only the trained parameters (as FedBN does; Li et al., ICLR 2021).
"""

from collections.abc import Callable
from typing import Any

import jax

STATISTICS = "batch_stats"
KEPT = ("mixed", "local")  # the statistics are exchanged with the parameters, or stay with each client


def has_statistics(model: Any) -> bool:
    """Tell whether a model, stacked or not, has batch statistics."""
    return isinstance(model, dict) and set(model) == {"params", STATISTICS}


def trained(model: Any) -> Any:
    """Return the trained parameters of a model: the whole model, or everything except its batch statistics.

    >>> trained({"params": {"w": 1.0}, "batch_stats": {"mean": 0.0}}), trained({"w": 1.0})
    ({'w': 1.0}, {'w': 1.0})
    """
    return model["params"] if has_statistics(model) else model


def with_trained(model: Any, params: Any) -> Any:
    """Return the model with other parameters and unchanged batch statistics."""
    return {"params": params, STATISTICS: model[STATISTICS]} if has_statistics(model) else params


def exchanged(model: Any, local: bool) -> Any:
    """Return the part of a model that is exchanged: without batch statistics if these are ``local``."""
    return trained(model) if local else model


def received(model: Any, part: Any, local: bool) -> Any:
    """Return the model after an exchange.

    Args:
      model: the model before the exchange.
      part: the result of exchanging what `exchanged` returned.
      local: whether the batch statistics stay with each client.
    """
    return with_trained(model, part) if local else part


def each(of_trained: Callable[..., Any], of_statistics: Callable[..., Any], *models: Any) -> Any:
    """Map the leaves of models of one structure, with a function for parameters and one for batch statistics.

    Args:
      of_trained: the function for leaves of trained parameters, with one argument for each model.
      of_statistics: the function for leaves of batch statistics, with one argument for each model.
      *models: the models.
    """
    if not has_statistics(models[0]):
        return jax.tree.map(of_trained, *models)
    return {
        "params": jax.tree.map(of_trained, *(model["params"] for model in models)),
        STATISTICS: jax.tree.map(of_statistics, *(model[STATISTICS] for model in models)),
    }
