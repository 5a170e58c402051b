"""Clients that sleep in every k-th round, each in rounds of its own: a wrapper of networks in one file.

mdfl sweep digits --use=examples/sleeping.py --config.sleep.every=4
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from mdfl_jax.core.metric import CURVE, TABLE, UNKNOWN, Metric
from mdfl_jax.core.section import Section, field, section
from mdfl_jax.core.types import FIXED
from mdfl_jax.exchange.active import leave_out
from mdfl_jax.networks.wrappers.wrapper import wrap


class Sleep(NamedTuple):
    """The traced numbers of the wrapper, or its state (who is awake), around those of the inner network."""

    inner: Any
    own: Any


@section("sleep", order=15, switch="every")
@dataclass(frozen=True)
class SleepConfig(Section):
    """Clients that sleep."""

    every: int = field(0, "rounds from one sleep of a client to its next; 0: nobody sleeps", at_least=0, traced=True)

    def in_use(self, whole):
        return self.every > 0

    def rules(self, whole):
        yield "sleep.every", self.every == 1, "0 or at least 2: with 1 all clients sleep in all rounds"

    def wrap(self, network, whole, built):
        def init(params, key, clients):
            return Sleep(network.init(params.inner, key, clients), jnp.ones(network.num_clients, bool))

        def step(params, key, round_index, state, clients):
            inner, links = network.step(params.inner, key, round_index, state.inner, clients)
            awake = (round_index + jnp.arange(network.num_clients)) % params.own != 0
            return Sleep(inner, awake), leave_out(links, ~awake)

        return wrap(network, init=init, step=step, gives=network.gives - {FIXED}, metrics=(AWAKE,))

    def params(self, inner, whole, cost):
        return Sleep(inner, np.int32(self.every))


AWAKE = Metric(
    "awake", lambda at: at.mean_over_rounds("awake"), UNKNOWN, shape=(), label="clients awake (%)", scale=0.01,
    each_round=lambda view: jnp.mean(view.state.own.astype(jnp.float32)), shown={TABLE, CURVE}
)  # fmt: skip
