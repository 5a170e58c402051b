"""Batch statistics as a part of the model that clients hold: what is trained, and what follows the batches.

The model of a task with batch normalisation is {"params": ..., "batch_stats": ...}; others are their parameters. A
running statistic is a coordinate like any other: it is sent, mixed and relayed with the parameters, as averaging the
state dictionaries of PyTorch does. Its gradient, momentum * (statistic - the batch's), is that of a quadratic around
the batch's, so that a plain step of length one is the usual running average; no optimiser, decay or learning rate
comes between. An algorithm under ``algorithm.statistics=local`` exchanges what is trained alone (as FedBN does; Li et
al., ICLR 2021).
"""

from collections.abc import Callable
from typing import Any

import jax

STATISTICS = "batch_stats"
KEPT = ("mixed", "local")  # what an exchange makes of them


def has_statistics(model: Any) -> bool:
    """Whether a model, stacked or not, holds batch statistics."""
    return isinstance(model, dict) and set(model) == {"params", STATISTICS}


def trained(model: Any) -> Any:
    """What is trained of a model: all of it, or all but the statistics.

    >>> trained({"params": {"w": 1.0}, "batch_stats": {"mean": 0.0}}), trained({"w": 1.0})
    ({'w': 1.0}, {'w': 1.0})
    """
    return model["params"] if has_statistics(model) else model


def with_trained(model: Any, params: Any) -> Any:
    """The model with other parameters, its statistics as they are."""
    return {"params": params, STATISTICS: model[STATISTICS]} if has_statistics(model) else params


def sent(model: Any, local: bool) -> Any:
    """The part of a model that is exchanged."""
    return trained(model) if local else model


def received(model: Any, part: Any, local: bool) -> Any:
    """The model after an exchange of what `sent` gave."""
    return with_trained(model, part) if local else part


def each(of_trained: Callable[..., Any], of_statistics: Callable[..., Any], *models: Any) -> Any:
    """Maps models of one structure leaf by leaf: what is trained by one function, statistics by another."""
    if not has_statistics(models[0]):
        return jax.tree.map(of_trained, *models)
    return {
        "params": jax.tree.map(of_trained, *(model["params"] for model in models)),
        STATISTICS: jax.tree.map(of_statistics, *(model[STATISTICS] for model in models)),
    }
