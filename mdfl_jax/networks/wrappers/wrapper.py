"""The base of networks that wrap another network: what a wrapper does not change, it passes on.

The state and the traced numbers of a wrapper have a field ``inner``, which holds those of the network that it wraps.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

from mdfl_jax.core.metric import Metric
from mdfl_jax.core.types import Network, NetworkHooks
from mdfl_jax.metrics.values import HEARD


def wrap(network: Network, *, init: Callable[..., Any], step: Callable[..., Any], **changes: Any) -> Network:
    """Make a network around another one, which passes on every function and fact of it that is not changed.

    Args:
      network: the inner network.
      init: as `Network.init`; its state has the inner state in the field ``inner``.
      step: as `Network.step`.
      **changes: other fields of `Network` and of its hooks that differ. ``metrics`` are the wrapper's own; those of the
        inner network come first. A function gets the state and the numbers of the wrapper.
    """
    (reached, observe, compares, there, counted, hold), lists = network.hooks, network.lists
    needed = lists and lists.needed
    own_metrics = changes.pop("metrics", ())
    hooks = NetworkHooks(
        reached=reached and (lambda state: reached(state.inner)),
        observe=observe
        and (lambda params, state, seen: state._replace(inner=observe(params.inner, state.inner, seen))),
        compares=compares,
        there=there and (lambda state: there(state.inner)),
        counted=counted and (lambda state: counted(state.inner)),
        hold=hold and (lambda state, stands: state._replace(inner=hold(state.inner, stands))),
    )
    passed = network._replace(
        places=lambda state: network.places(state.inner),
        lists=lists and lists._replace(needed=needed and (lambda state: needed(state.inner))),
        hooks=hooks._replace(**{name: changes.pop(name) for name in NetworkHooks._fields if name in changes}),
        metrics=(*(_from_outside(network, metric) for metric in network.metrics), *own_metrics),
    )
    return passed._replace(init=init, step=step, **changes)


def _from_outside(network: Network, metric: Metric) -> Metric:
    """Make a metric of the inner network read the state and the numbers of the wrapper."""
    if metric is HEARD:  # it reads no state, and is measured once if an algorithm declares it, too
        return metric
    each = metric.each_round

    def at_evaluation(at: Any) -> Any:
        return metric.measure(at._replace(network=network, network_state=at.network_state.inner))

    def in_round(view: Any) -> Any:
        assert each is not None
        before = None if view.before is None else view.before.inner
        return each(view._replace(network=network, params=view.params.inner, before=before, state=view.state.inner))

    return dataclasses.replace(metric, measure=at_evaluation, each_round=each and in_round)
