"""A network that counts what clients let others know, and whose links say what noise they get.

A client spends nothing by computing. It spends what it has computed when it sends: so epsilon follows the steps up to
the last round in which a client has sent, and who meets nobody spends nothing. With noise on messages, each of them is
one release.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.contrib.privacy.account import Account
from mdfl_jax.contrib.privacy.cancelling import Cancelling, spent_by_step
from mdfl_jax.contrib.privacy.messages import NoisedMessages
from mdfl_jax.contrib.privacy.sgd import learns
from mdfl_jax.core.metric import CLIENTS, CURVE, HOLDS, TABLE, Metric
from mdfl_jax.core.types import Clients, Links, Network, Observed
from mdfl_jax.exchange.active import Finishing, takes_part
from mdfl_jax.networks.wrappers.wrapper import wrap


class CountingParams(NamedTuple):
    """The traced numbers of a network that counts releases.

    Attributes:
      inner: those of the inner network.
      clip, noise, delta, least: as in `mdfl_jax.contrib.privacy.sgd.PrivateNumbers`.
      cancelling: the standard deviation of the noise that two clients share, in clips.
    """

    inner: Any
    clip: Any
    noise: Any
    delta: Any
    least: Any
    cancelling: Any


class Hidden(NamedTuple):
    """What clients have spent whose noise cancels, as mu^2 of the Gaussian mechanism that tells as much; each [N].

    Attributes:
      by_step: by a step of this round.
      spent: by all steps.
      released: by those of which the messages that each has sent may tell.
    """

    by_step: jax.Array
    spent: jax.Array
    released: jax.Array


class CountingState(NamedTuple):
    """The state of a network that counts releases.

    Attributes:
      inner: the state of the inner network.
      noise, delta: [] the numbers of the account.
      learns: [N] bool, the clients that learn from samples of their own.
      steps: [N] int32, what each client has to release: the noised gradients that it has computed, or its messages.
      released: [N] int32, those of them of which the messages that it has sent may tell.
      reached: [N, N] int32, [j, i] those of i of which messages may have told j, also by way of others; None: not
        counted.
      hidden: what clients have spent whose noise cancels; None: no noise does.
    """

    inner: Any
    noise: jax.Array
    delta: jax.Array
    learns: jax.Array
    steps: jax.Array
    released: jax.Array
    reached: jax.Array | None
    hidden: Hidden | None

    def equal_noise(self) -> jax.Array:
        """Return [N] the noise of as many steps that tell as much of each client without any that cancels."""
        if self.hidden is None:
            return jnp.broadcast_to(self.noise, self.steps.shape)
        return jnp.sqrt(jnp.where(self.released > 0, self.released / self.hidden.released, 1))


class Counting(NamedTuple):
    """What decides how releases are counted.

    Attributes:
      steps: the gradients that a client computes in a round; 0: its messages are counted.
      late: whether the messages of a round carry nothing of its gradients.
      of_models: whether messages with noise are models, and not updates.
      hops: the exchanges of a round; 0: what pairs know of each other is not counted.
      cancels: whether neighbours add and subtract noise that they share.
    """

    steps: int = 0
    late: bool = False
    of_models: bool = False
    hops: int = 0
    cancels: bool = False


def counting(network: Network, how: Counting, metrics: tuple[Metric, ...]) -> Network:
    """Make a network that counts what clients let others know, and whose links say what noise messages get.

    Args:
      network: the network.
      how: what is counted.
      metrics: the metrics of the account.
    """
    num_clients = network.num_clients

    def init(params: CountingParams, key: jax.Array, clients: Clients) -> CountingState:
        none = jnp.zeros(num_clients, jnp.int32)
        reached = jnp.zeros((num_clients, num_clients), jnp.int32) if how.hops else None
        inner, who = network.init(params.inner, key, clients), learns(clients.num_samples, params.least)
        hidden = Hidden(*[jnp.zeros(num_clients)] * 3) if how.cancels else None
        numbers = jnp.asarray(params.noise), jnp.asarray(params.delta)
        return CountingState(inner, *numbers, who, none, none, reached, hidden)

    def step(
        params: CountingParams, key: jax.Array, round_index: jax.Array, state: CountingState, clients: Clients
    ) -> tuple[CountingState, Links]:
        inner, links = network.step(params.inner, key, round_index, state.inner, clients)
        if not how.steps:
            noised = NoisedMessages(jnp.asarray(params.clip), jnp.asarray(params.noise), of_models=how.of_models)
            links = links.adding(noised)
        if state.hidden is not None:
            length = params.clip / jnp.maximum(clients.num_samples, 1)
            between = jnp.square(params.cancelling) * jnp.where(
                share(links, state.learns), jnp.outer(length, length), 0
            )
            by_step = spent_by_step(jnp.square(params.noise * length), between, length)
            state, links = (
                state._replace(hidden=state.hidden._replace(by_step=by_step)),
                links.adding(Cancelling(between)),
            )
        return state._replace(inner=inner), links

    passed = wrap(network, init=init, step=step, metrics=metrics)

    def observe(params: CountingParams, state: CountingState, seen: Observed) -> CountingState:
        state = passed.hooks.observe(params, state, seen) if passed.hooks.observe else state
        computed, sends = seen.stats.report.computed, seen.stats.messages > 0
        assert computed is not None  # the engine says who has computed
        after = state.steps + (how.steps * (computed & state.learns) if how.steps else sends)
        told, reached, hidden = state.steps if how.late else after, state.reached, state.hidden
        if reached is not None:
            for _ in range(how.hops):
                reached = passed_on(seen.heard, told, reached)
        if hidden is not None:
            spent = hidden.spent + (after - state.steps) * hidden.by_step
            released = jnp.where(sends, hidden.spent if how.late else spent, hidden.released)
            hidden = hidden._replace(spent=spent, released=released)
        released = jnp.where(sends, told, state.released)
        return state._replace(steps=after, released=released, reached=reached, hidden=hidden)

    return passed._replace(hooks=passed.hooks._replace(observe=observe))


def share(links: Links, learns: jax.Array) -> jax.Array:
    """Return [N, N] bool, the pairs that share noise: both hear each other and compute in this round."""
    finishing = links.get(Finishing)
    works = takes_part(links) & learns & (True if finishing is None else finishing.who)
    return links.adjacency & links.adjacency.T & works[:, None] & works


def passed_on(heard: Links, told: jax.Array, reached: jax.Array) -> jax.Array:
    """Return what clients may know of each other after an exchange, in which they pass on all that they knew before.

    Args:
      heard: the links over which messages went.
      told: [N] the releases of itself of which a client's message may tell.
      reached: [N, N] as in `CountingState`, before the exchange.

    >>> links = Links(jnp.array([[False, True, False], [False, False, True], [False, False, False]]), jnp.eye(3))
    >>> passed_on(links, jnp.array([4, 5, 6]), jnp.array([[0, 0, 0], [0, 0, 2], [3, 0, 0]])).tolist()
    [[0, 5, 2], [3, 0, 6], [3, 0, 0]]
    """
    carried = jnp.where(jnp.eye(len(told), dtype=bool), told, reached)
    of_one = lambda known: jnp.max(jnp.where(heard.adjacency, heard.senders.of(known), 0), axis=1)  # noqa: E731
    return jnp.maximum(reached, jax.lax.map(of_one, carried.T).T)


def metrics_of(account: Account, how: Counting) -> tuple[Metric, ...]:
    """Return the metrics of an account: the epsilon of each client, its releases, and the noise; perhaps of pairs."""

    def rows(at: Any, released: jax.Array) -> jax.Array:
        """Return the rows of an account, of ``released`` [..., N] of the N clients."""
        numbers = [released, at.clients.num_samples, at.network_state.equal_noise(), at.network_state.delta]
        return jnp.stack([jnp.broadcast_to(x, released.shape).astype(jnp.float32) for x in numbers], axis=-1)

    def of_pairs(at: Any) -> jax.Array:
        known = at.network_state.reached
        return rows(at, jnp.where(jnp.eye(len(known), dtype=bool), 0, known)).swapaxes(0, 1)

    shown: dict[str, Any] = {
        "on_host": account.of_rows,
        "over_clients": lambda values: float(np.max(values)),
        "more": {"mean": lambda values: float(np.mean(values))},
    }
    of_clients = (
        Metric(
            "epsilon",
            lambda at: rows(at, at.network_state.released),
            HOLDS,
            shape=(CLIENTS, 4),
            label="epsilon, largest of a client",
            shown={TABLE, CURVE},
            **shown,
        ),
        Metric("released_steps", lambda at: at.network_state.released, HOLDS, label="releases that others may know"),
        Metric("privacy_noise", lambda at: at.network_state.noise, HOLDS, shape=(), label="noise (clips)"),
    )
    towards = Metric(
        "epsilon_pairs",  # [i, j]: of client i, towards j
        of_pairs,
        HOLDS,
        shape=(CLIENTS, CLIENTS, 4),
        label="epsilon, largest of a client towards another",
        **shown,
    )
    return (*of_clients, towards) if how.hops else of_clients
