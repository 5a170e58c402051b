"""Who is there in a round: clients that come and go, whatever the network, what they do meanwhile, and how they begin.

A member of the family says who is there; a trace may say it, too. Who is away has no links. By `Links.active` it also
stands still, or it trains on, as set. What a client that comes knows is told to the engine by `Links.renewed`.
"""

import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.core.metric import CURVE, TABLE, UNKNOWN, Metric
from mdfl_jax.core.numbers import Numbers, Setting, number
from mdfl_jax.core.registry import Registry
from mdfl_jax.core.rng import stream
from mdfl_jax.core.types import FIXED, Clients, Links, Network, Renewed
from mdfl_jax.exchange.active import links_among
from mdfl_jax.networks.spatial import PRESENT
from mdfl_jax.networks.wrappers.wrapper import wrap

OWN = zlib.crc32(b"presence") & 0x7FFFFFFF  # folded into the key, since other networks draw from the same stream
ABSENT = ("idle", "train")
"""What clients do that are away: nothing, or they train alone."""
NEWCOMERS = ("kept", "initial", "neighbour")
"""The model with which a client comes: its own, the first one, or that of the first neighbour that it hears."""


class Moment(NamedTuple):
    """A round: its index [] int32, and the seconds [] float32 at which it begins."""

    round: jax.Array
    seconds: jax.Array


# (numbers, key of the seed, moment of the round, who was there in the round before [N] bool) -> [N] bool
Presence = Callable[[Any, jax.Array, Moment, jax.Array], jax.Array]
PRESENCES: Registry[Presence] = Registry("presence", home="mdfl_jax.networks.wrappers")


class MarkovNumbers(Numbers):
    """The numbers of ``markov``."""

    leave: float = number(0.1, "probability that a client that is there leaves after a round", at_least=0, at_most=1)
    come: float = number(0.3, "probability that a client that is away comes after a round", at_least=0, at_most=1)


@PRESENCES.register(
    "markov",
    MarkovNumbers,
    formula="P(away | there) = leave;  P(there | away) = come;  in round 0 P(there) = come / (come + leave)",
)
def markov(numbers: MarkovNumbers, key: jax.Array, moment: Moment, before: jax.Array) -> jax.Array:
    """Clients leave and come with fixed probabilities, each by itself, from the stationary distribution on."""
    come, leave = numbers.come, numbers.leave
    stationary = jnp.where(come + leave > 0, come / jnp.maximum(come + leave, jnp.finfo(jnp.float32).tiny), 1)
    chance = jnp.where(moment.round == 0, stationary, jnp.where(before, 1 - leave, come))
    return jax.random.uniform(jax.random.fold_in(key, moment.round), before.shape) < chance


class PoissonNumbers(Numbers):
    """The numbers of ``poisson``."""

    at_start: int = number(5, "clients that are there from the first round on", at_least=0)
    arrivals: float = number(0.1, "mean number of clients that come in a round", above=0)
    stay: float = number(
        100.0, "mean number of rounds that a client stays; inf: it never leaves", above=0, finite=False
    )

    def check(self, setting: Setting) -> None:
        """Check that there are so many clients."""
        if self.at_start > setting.num_clients:
            raise UserError(
                f"presence.at_start is {self.at_start}; it must be at most network.num_clients, which is "
                f"{setting.num_clients}"
            )


@PRESENCES.register(
    "poisson",
    PoissonNumbers,
    formula="gaps between arrivals ~ Exp(mean 1 / arrivals), in rounds;  each stays Exp(mean stay);  nobody returns",
)
def poisson(numbers: PoissonNumbers, key: jax.Array, moment: Moment, before: jax.Array) -> jax.Array:
    """Clients come once, at the times of a Poisson process, in a drawn order; each stays for an exponential time."""
    order, gaps, stays = (jax.random.fold_in(key, k) for k in range(3))
    N = before.shape[0]
    place = jax.random.permutation(order, N)
    gap = jnp.where(jnp.arange(N) < numbers.at_start, 0, jax.random.exponential(gaps, (N,)) / numbers.arrivals)
    come = jnp.cumsum(gap)[place]
    leave = come + jax.random.exponential(stays, (N,)) * numbers.stay
    return (come <= moment.round) & (moment.round < leave)


class CyclicNumbers(Numbers):
    """The numbers of ``cyclic``."""

    hours: float = number(8.0, "hours that a client is there in each day", at_least=0, at_most=24)
    spread: float = number(24.0, "the daily hours at which clients come are spread evenly over so many", at_least=0)
    begin: float = number(0.0, "hour of the day at which the study begins", at_least=0, below=24)


@PRESENCES.register(
    "cyclic",
    CyclicNumbers,
    formula="there: (begin + seconds / 3600 - s_i) mod 24 < hours;  s_i ~ U[0, spread), once for a seed",
)
def cyclic(numbers: CyclicNumbers, key: jax.Array, moment: Moment, before: jax.Array) -> jax.Array:
    """Clients are there at the same hours of every day, each at its own; a round lasts `motion.dt` seconds."""
    shift = numbers.spread * jax.random.uniform(key, before.shape)
    return jnp.mod(numbers.begin + moment.seconds / 3600 - shift, 24) < numbers.hours


class StayNumbers(NamedTuple):
    """The numbers of ``table``: the stays of each client, [N, K, 2] int32, from a round on and up to another one."""

    stays: Any


@PRESENCES.register("table", formula="there: from <= round < to, for a row client,from,to of presence.file")
def table(numbers: StayNumbers, key: jax.Array, moment: Moment, before: jax.Array) -> jax.Array:
    """Clients are there in the rounds that a file says."""
    stays = jnp.asarray(numbers.stays)
    return jnp.any((stays[:, :, 0] <= moment.round) & (moment.round < stays[:, :, 1]), axis=1)


@PRESENCES.register("trace", formula="there: the trace shows the client (trace.gaps=absent)")
def trace(numbers: Numbers, key: jax.Array, moment: Moment, before: jax.Array) -> jax.Array:
    """Clients are there while their trace says where they are. With other members they are there if both say so."""
    return jnp.ones_like(before)


class PresenceParams(NamedTuple):
    """Traced numbers: those of the inner network and of the member, and the seconds of a round."""

    inner: Any
    numbers: Any
    seconds: Any = 1.0


class PresenceState(NamedTuple):
    """The state of a network whose clients come and go.

    Attributes:
      inner: the state of the inner network.
      says: [N] bool, who is there in the coming round as the member says.
      was: [N] bool, who was there in the round before; before the first one, everybody.
      waits: [N] bool, clients that have come and have not heard a neighbour from which they could begin.
    """

    inner: Any
    says: jax.Array
    was: jax.Array
    waits: jax.Array


def coming_and_going(network: Network, name: str, absent: str = "idle", newcomers: str = "kept") -> Network:
    """Make a network whose clients come and go. ``hparams.network`` becomes a `PresenceParams`.

    Links from and to a client that is away are removed, and their weights go to the receivers' own models. It goes on
    moving. Links are no longer the same in every round, so the promise FIXED is gone.

    Args:
      network: the inner network.
      name: a name of `PRESENCES`.
      absent: one of `ABSENT`.
      newcomers: one of `NEWCOMERS`. A client that comes begins anew with this model, with the state that the algorithm
        has at its start; with ``kept`` it goes on with what it had. With ``neighbour`` this happens in the first round
        in which it hears a client that is not waiting for a neighbour itself; if it hears several, it is the first one.

    Raises:
      UserError: for an unknown name.
    """
    rule = PRESENCES[name]
    for field, value, known in (("absent", absent, ABSENT), ("newcomers", newcomers, NEWCOMERS)):
        if value not in known:
            raise UserError(f"presence.{field}: {unknown_name(field, value, known)}")

    def said(params: PresenceParams, key: jax.Array, round_index: jax.Array, before: jax.Array) -> jax.Array:
        own = jax.random.fold_in(stream(key, "placement"), OWN)
        moment = Moment(round_index, round_index.astype(jnp.float32) * params.seconds)
        numbers = params.numbers.typed() if isinstance(params.numbers, Numbers) else params.numbers
        return rule(numbers, own, moment, before)

    def init(params: PresenceParams, key: jax.Array, clients: Clients) -> PresenceState:
        everybody = jnp.ones(network.num_clients, bool)
        says = said(params, key, jnp.int32(0), everybody)
        return PresenceState(network.init(params.inner, key, clients), says, everybody, ~everybody)

    def there(state: PresenceState) -> jax.Array:
        return state.says & network.there(state.inner) if network.there else state.says

    def step(
        params: PresenceParams, key: jax.Array, round_index: jax.Array, state: PresenceState, clients: Clients
    ) -> tuple[PresenceState, Links]:
        inner, links = network.step(params.inner, key, round_index, state.inner, clients)
        now = there(state)
        links = links_among(links, now)
        comes, waits, renewed = now & ~state.was & (round_index > 0), state.waits, None
        me = jnp.arange(now.shape[0], dtype=jnp.int32)
        if newcomers == "initial":
            renewed = Renewed(comes, me)
        elif newcomers == "neighbour":
            waits = (waits & now) | comes
            teachers = links.adjacency & ~links.senders.of(waits)
            taught, place = waits & jnp.any(teachers, axis=1), jnp.argmax(teachers, axis=1)
            ids = links.senders.ids
            teacher = place if ids is None else jnp.take_along_axis(ids, place[:, None], axis=1)[:, 0]
            renewed, waits = Renewed(taught, jnp.where(taught, teacher, me).astype(jnp.int32)), waits & ~taught
        active = now if links.active is None else now & links.active
        links = links._replace(active=active if absent == "idle" else links.active, renewed=renewed)
        return PresenceState(inner, said(params, key, round_index + 1, state.says), now, waits), links

    others = network._replace(metrics=tuple(metric for metric in network.metrics if metric is not PRESENT))
    return wrap(
        others, init=init, step=step, there=there, gives=network.gives - {FIXED}, metrics=(PRESENT, SHARE_PRESENT)
    )


SHARE_PRESENT = Metric(
    "share_present",
    lambda at: at.mean_over_rounds("share_present"),
    UNKNOWN,
    shape=(),
    each_round=lambda view: jnp.mean(view.network.there(view.before).astype(jnp.float32)),
    label="clients that are there (%)",
    scale=0.01,
    shown={TABLE, CURVE},
)
"""[] float32, the share of clients that were there, in the mean of the rounds since the last evaluation."""
