"""A network around another one: what it does not change is the inner one's."""

import dataclasses
from typing import Any, NamedTuple

from mdfl_jax.networks.costs import counted
from mdfl_jax.networks.spatial import spatial
from mdfl_jax.networks.wrappers.wrapper import wrap


class Around(NamedTuple):
    """The numbers, or the state, of a network around another one."""

    inner: Any


class View(NamedTuple):
    """What a metric sees of a round."""

    network: Any
    params: Any
    before: Any
    state: Any


def test_a_metric_of_an_inner_network_reads_its_own_state_and_numbers():
    inner = counted(spatial(6, 5, ("static",)))
    first, *others = inner.metrics
    inner = inner._replace(metrics=(dataclasses.replace(first, each_round=lambda view: view), *others))
    (found, *_) = wrap(inner, init=inner.init, step=inner.step).metrics
    view = View(None, Around("numbers"), Around("before"), Around("state"))
    assert found.each_round(view) == View(inner, "numbers", "before", "state")
