"""Counts the simulated seconds and the joules of a run: a wrapper of any network.

A round is synchronous. First all clients compute, then all clients send, each its messages one after another. Meanwhile
clients move. The next round begins when both the work and the movement of the round are over.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core.links import ALL_PAIRS, Senders
from mdfl_jax.core.message_bits import WORD
from mdfl_jax.core.metric import AXIS, HOLDS, TABLE, TARGET, Metric
from mdfl_jax.core.types import Clients, Links, Network, Observed
from mdfl_jax.networks.costs.numbers import CostParams, computing_seconds, sending_seconds
from mdfl_jax.networks.costs.work import Work
from mdfl_jax.networks.wrappers.wrapper import wrap


class CountedParams(NamedTuple):
    """Traced numbers of a network that counts costs: those of the inner network, and those of the costs."""

    inner: Any
    cost: CostParams


class Total(NamedTuple):
    """A sum of many numbers in single precision, with the rounding error of the last additions (Kahan's summation).

    Without the second number, a sum over 10^6 short rounds would be wrong by some per cent.

    Attributes:
      value: the sum.
      excess: what the rounded sum has too much.
    """

    value: jax.Array
    excess: jax.Array


class CountedState(NamedTuple):
    """The state of a network that counts costs.

    Attributes:
      inner: the state of the inner network.
      samples: [N] float32, the samples that each client processes in a round.
      computing: [N] float32, the seconds that each client computes in a round.
      seconds: [] the seconds since the start of the run.
      worked: [N] the joules of computing and of the radio since the start.
      moved: [N] float32, the joules of movement since the start.
    """

    inner: Any
    samples: jax.Array
    computing: jax.Array
    seconds: Total
    worked: Total
    moved: jax.Array


def no_total(*shape: int) -> Total:
    """Return a sum of no numbers, of the given shape."""
    return Total(jnp.zeros(shape, jnp.float32), jnp.zeros(shape, jnp.float32))


def add(total: Total, more: jax.Array) -> Total:
    """Add a number to a sum, with the rounding error of the earlier additions."""
    due = more.astype(jnp.float32) - total.excess
    value = total.value + due
    return Total(value, (value - total.value) - due)


def round_seconds(params: CostParams, work: Work, computing: jax.Array, sending: jax.Array) -> jax.Array:
    """Compute the seconds of a synchronous round, T = max(dt, min(max_i C_i, D) + max_i S_i).

    A simplification: a client with C_i > D has no links in the round, but it finishes all its local steps. The time
    that they take beyond D is not counted.

    Args:
      params: the numbers of the costs, with the movement's seconds dt and the deadline D.
      work: what a client computes in a round. If it sends over no links, nobody is left out, and D has no effect.
      computing: [N] seconds that each client computes, C_i.
      sending: [N] seconds that each client sends, S_i.

    Returns:
      [] float32 seconds.
    """
    slowest = jnp.max(computing)
    if work.uses_links:
        slowest = jnp.minimum(slowest, jnp.asarray(params.deadline, jnp.float32))
    return jnp.maximum(jnp.asarray(params.round_seconds, jnp.float32), slowest + jnp.max(sending))


def received_bits(
    bits: jax.Array,
    adjacency: jax.Array,
    uses_links: bool,
    senders: Senders = ALL_PAIRS,
    active: jax.Array | None = None,
) -> jax.Array:
    """Compute the bits that each client receives in a round.

    A sender's bits are shared equally among the clients that hear it. This is exact if it sends the same to all of
    them, and a mean if it picks some at random. An algorithm without links, such as all-reduce, gives every client that
    takes part the mean of their bits.

    Args:
      bits: [N] float32 bits that each client sends.
      adjacency: [N, K] bool, [i, j] where i hears the sender at place j.
      uses_links: as in `Work`.
      senders: the clients for which the places stand.
      active: [N] bool, the clients that take part in the round; None: all.

    Returns:
      [N] float32 bits.

    >>> received_bits(jnp.array([6.0, 0.0, 0.0]), jnp.array([[0, 0, 0], [1, 0, 0], [1, 0, 0]], bool), True).tolist()
    [0.0, 3.0, 3.0]
    """
    if not uses_links:
        if active is None:
            return jnp.full_like(bits, jnp.mean(bits))
        return jnp.where(active, jnp.sum(jnp.where(active, bits, 0)) / jnp.maximum(jnp.sum(active), 1), 0)
    heard_by = senders.sums(adjacency)
    share = jnp.where(heard_by > 0, bits / jnp.maximum(heard_by, 1), 0)
    return senders.sum_of(adjacency.astype(bits.dtype), share)


def counted(network: Network, work: Work = Work()) -> Network:
    """Make a network that counts the seconds and joules of a run, and declares them as the metrics of a study.

    Links, places and metrics of the inner network stay the same. ``hparams.network`` becomes a `CountedParams`.

    Args:
      network: the inner network.
      work: what a client computes in a round.

    Returns:
      A network that gives what the inner one gives.
    """

    def init(params: CountedParams, key: jax.Array, clients: Clients) -> CountedState:
        held = clients.num_samples
        computing = computing_seconds(params.cost, work, key, held)
        none = no_total(network.num_clients)
        return CountedState(
            network.init(params.inner, key, clients), work.samples(held), computing, no_total(), none, none.value
        )

    def step(
        params: CountedParams, key: jax.Array, round_index: jax.Array, state: CountedState, clients: Clients
    ) -> tuple[CountedState, Links]:
        inner, links = network.step(params.inner, key, round_index, state.inner, clients)
        return state._replace(inner=inner), links

    passed = wrap(network, init=init, step=step, metrics=(SECONDS, JOULES))

    def observe(params: CountedParams, state: CountedState, seen: Observed) -> CountedState:
        cost, (links, stats, _) = params.cost, seen
        state = passed.observe(params, state, seen) if passed.observe else state
        samples, computing = state.samples, state.computing
        if links.active is not None:
            samples, computing = (jnp.where(links.active, x, 0) for x in (samples, computing))
        bits = stats.bits.high.astype(jnp.float32) * 2**WORD + stats.bits.low.astype(jnp.float32)
        sending = sending_seconds(cost, stats.messages, bits)
        received = received_bits(bits, links.adjacency, work.uses_links, links.senders, links.active)
        joules = cost.joules_per_sample * samples + cost.joules_per_bit * bits + cost.joules_per_bit_received * received
        return state._replace(
            seconds=add(state.seconds, round_seconds(cost, work, computing, sending)),
            worked=add(state.worked, joules),
            moved=cost.joules_per_metre * passed.places(state).distance_moved,
        )

    return passed._replace(observe=observe)


def _seconds(at: Any) -> jax.Array:
    """Return [] float32, the simulated seconds since the start of the run."""
    return at.network_state.seconds.value


def _joules(at: Any) -> jax.Array:
    """Return [N] float32, the joules that each client has used since the start of the run."""
    return at.network_state.worked.value + at.network_state.moved


_SHOWN = frozenset({AXIS, TABLE, TARGET})
SECONDS = Metric("seconds", _seconds, HOLDS, shape=(), unit="s", label="simulated seconds", shown=_SHOWN)
JOULES = Metric("joules", _joules, HOLDS, unit="J", label="joules per client", shown=_SHOWN)
