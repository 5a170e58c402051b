"""Clocks of the clients' own: a round is a slot of time, and each client computes for as many slots as its work takes.

The costs say how long a client computes (`mdfl_jax.networks.costs.computing_seconds`): by its samples, and by speeds
that are drawn or given. Nobody waits for the slowest client. `Finishing` says whose local work ends in a slot; the next
work of such a client begins in the next slot. The algorithm decides what a client does while it computes
(`Traits.asynchronous`).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.core.metric import NOTHING, Metric
from mdfl_jax.core.section import Built, Rule, Section, field, section
from mdfl_jax.core.types import FIXED, Clients, Links, Network
from mdfl_jax.exchange.active import Finishing, links_among
from mdfl_jax.metrics.values import HEARD
from mdfl_jax.networks.costs import MARGIN, CostParams, Work, computing_seconds, read_speeds
from mdfl_jax.networks.wrappers.wrapper import wrap

JOINS = ("at_once", "in_contact")
"""When a client whose work is done exchanges: in this slot, with or without a contact, or once it has a contact."""


class ClockParams(NamedTuple):
    """Traced numbers: those of the inner network, and the costs, whose ``round_seconds`` are those of a slot."""

    inner: Any
    cost: CostParams


class ClockState(NamedTuple):
    """The state of a network whose clients have clocks.

    Attributes:
      inner: the state of the inner network.
      slots: [N] int32, the slots that a work of each client takes.
      left: [N] int32, the slots until its work is done; 0: it is done and waits for a contact.
    """

    inner: Any
    slots: jax.Array
    left: jax.Array


def slots_of(params: CostParams, work: Work, key: jax.Array, num_samples: jax.Array) -> jax.Array:
    """Return [N] int32, the slots that a work takes: its seconds (`computing_seconds`) in slots, rounded up, or one."""
    seconds = computing_seconds(params, work, key, num_samples)
    slots = jnp.ceil(seconds / jnp.asarray(params.round_seconds, jnp.float32) * (1 - MARGIN))
    return jnp.maximum(slots, 1).astype(jnp.int32)


def with_clocks(network: Network, work: Work, asynchronous: bool, joins: str = "at_once") -> Network:
    """Make a network whose clients have clocks. ``hparams.network`` becomes a `ClockParams`.

    With an algorithm that is not asynchronous, a client takes part in the slot in which it joins (`Links.active`), with
    the others that do. So its model does not change while it computes, and it stays in range. Links are then no longer
    the same in every round, and the promise FIXED is gone. The clock of a client that takes no part, since it is away,
    stands still.

    Args:
      network: the inner network.
      work: what a client computes in a round of the algorithm.
      asynchronous: `Traits.asynchronous`.
      joins: one of `JOINS`. A contact is one with a client that can exchange: anybody if the algorithm is asynchronous,
        else another one whose work is done.

    Raises:
      UserError: for an unknown name.
    """
    if joins not in JOINS:
        raise UserError(f"clock.joins: {unknown_name('joins', joins, JOINS)}")

    def init(params: ClockParams, key: jax.Array, clients: Clients) -> ClockState:
        slots = slots_of(params.cost, work, key, clients.num_samples)
        return ClockState(network.init(params.inner, key, clients), slots, slots)

    def step(
        params: ClockParams, key: jax.Array, round_index: jax.Array, state: ClockState, clients: Clients
    ) -> tuple[ClockState, Links]:
        inner, links = network.step(params.inner, key, round_index, state.inner, clients)
        there = jnp.ones_like(state.left, bool) if links.active is None else links.active
        left = jnp.where(there, jnp.maximum(state.left - 1, 0), state.left)
        finishes = there & (left == 0)
        if joins == "in_contact":
            can_exchange = there if asynchronous else finishes
            finishes &= jnp.any(links.adjacency & links.senders.of(can_exchange), axis=1)
        if not asynchronous:
            links = links_among(links, finishes, stay=True)._replace(active=finishes)
        left = jnp.where(finishes, state.slots, left)
        return ClockState(inner, state.slots, left), links.adding(Finishing(finishes))

    gives = network.gives if asynchronous else network.gives - {FIXED}
    return wrap(network, init=init, step=step, gives=gives, metrics=(WORKS,) if asynchronous else (HEARD, WORKS))


@section("clock", order=30)
@dataclass(frozen=True)
class ClockConfig(Section):
    """Clocks of the clients' own: a round is a slot of motion.dt seconds, and nobody waits for the slowest client."""

    joins: str = field(
        "",
        "when a client exchanges that has computed for as many slots as cost says: in this slot, with or without a "
        "contact (at_once), or once it has one (in_contact); empty: rounds are synchronous",
        names=("", *JOINS),
    )

    def in_use(self, whole: Any) -> bool:
        """Tell whether clients have clocks of their own."""
        return bool(self.joins)

    def rules(self, whole: Any) -> Iterator[Rule]:
        """Yield the rules: work takes at least a slot, and there is nobody for whom others wait."""
        cost, dt, config, pattern = whole.cost, whole.motion.dt, whole.algorithm, whole.server.pattern
        if not self.joins:
            return
        at_once = "empty: cost.seconds_per_sample is 0, so that work takes no time"
        yield "clock.joins", not cost.seconds_per_sample, at_once
        yield "clock.joins", pattern, f"empty with server.pattern {pattern}: who computes would miss meetings"
        yield "cost.deadline", math.isfinite(cost.deadline), f"inf with clock.joins {self.joins}: nobody waits"
        if config.batch_size and not config.local_epochs and not cost.speed_spread:  # else a seed decides
            speed = read_speeds(cost.speeds, whole.network.num_clients).max() if cost.speeds else 1.0
            least = dt * float(speed) / (config.batch_size * config.local_steps)
            finer = f"at least {least:g}: the fastest client's work must take a slot of motion.dt {dt:g} s or more"
            yield "cost.seconds_per_sample", cost.seconds_per_sample < least * (1 - MARGIN), finer

    def describe(self, whole: Any) -> str:
        """Return when clients join."""
        return f"clock.joins={self.joins}"

    def wrap(self, network: Network, whole: Any, built: Built) -> Network:
        """Return the network with clocks."""
        return with_clocks(network, built.work, built.algorithm.traits.asynchronous, self.joins)

    def params(self, inner: Any, whole: Any, cost: Any) -> ClockParams:
        """Return the costs, which say how long clients compute."""
        return ClockParams(inner, cost)


WORKS = Metric(
    "works",
    lambda at: at.total("works"),
    NOTHING,
    each_round=lambda view: view.stats.report.computed.astype(jnp.float32),
    label="works finished per client",
)
"""[N] float32, the works that each client has finished since the last evaluation, those in which it computed."""
