"""Who is there in a round: clients that come and go, whatever the network, what they do meanwhile, and how they begin.

A member of the family says who is there; a trace may say it, too. Who is away has no links. By `Links.active` it also
stands still, or it trains on, as set. What a client that comes knows is said by `Renewed`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.core.message_bits import add_bits, count_bits, dense_bits
from mdfl_jax.core.metric import CURVE, TABLE, UNKNOWN, Metric
from mdfl_jax.core.numbers import Numbers, Setting, number
from mdfl_jax.core.registry import Registry
from mdfl_jax.core.rng import number_of, stream
from mdfl_jax.core.section import Built, Family, Rule, Section, field, section
from mdfl_jax.core.sharding import everywhere
from mdfl_jax.core.trees import where_rows
from mdfl_jax.core.types import (
    FIXED,
    NEVER,
    Algorithm,
    ClientParams,
    Clients,
    Extra,
    Links,
    Network,
    RoundContext,
    RoundStats,
)
from mdfl_jax.exchange.active import leave_out, links_among, links_of_speakers, where_moving
from mdfl_jax.mobility.registry import movement_of
from mdfl_jax.networks.costs import sends_parts
from mdfl_jax.networks.spatial import PRESENT
from mdfl_jax.networks.wrappers.wrapper import wrap
from mdfl_jax.storage.given import whole_numbers

OWN_STREAM = number_of("presence")  # folded into the key, since other networks draw from the same stream
ABSENT = ("idle", "train")
"""What clients do that are away: nothing, or they train alone."""
NEWCOMERS = ("kept", "initial", "neighbour")
"""The model with which a client comes: its own, the first one, or that of the first neighbour that it hears."""


class Moment(NamedTuple):
    """A round: its index [] int32, and the seconds [] float32 at which it begins."""

    round: jax.Array
    seconds: jax.Array


# (numbers, key of the seed, moment of the round, who was there in the round before [N] bool) -> [N] bool
PresenceRule = Callable[[Any, jax.Array, Moment, jax.Array], jax.Array]
PRESENCES: Registry[PresenceRule] = Registry("presence", contrib="presence")


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
    stay = jax.random.exponential(stays, (N,)) * numbers.stay
    leave = jnp.where(jnp.isinf(numbers.stay), jnp.inf, come + stay)  # a draw may be 0, and 0 times inf is no number
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
    hour = jnp.mod(numbers.begin + moment.seconds / 3600 - shift, 24)
    return (hour < numbers.hours) | (numbers.hours >= 24)  # an hour just before 24 is rounded to it


class StayNumbers(NamedTuple):
    """The numbers of ``table``: the stays of each client, [N, K, 2] int32, from a round on and up to another one."""

    stays: Any


@PRESENCES.register("table", formula="there: from <= round < to, for a row client,from,to of presence.file")
def _table(numbers: StayNumbers, key: jax.Array, moment: Moment, before: jax.Array) -> jax.Array:
    """Clients are there in the rounds that a file says."""
    stays = jnp.asarray(numbers.stays)
    return jnp.any((stays[:, :, 0] <= moment.round) & (moment.round < stays[:, :, 1]), axis=1)


@PRESENCES.register("trace", formula="there: the trace shows the client (trace.gaps)")
def _trace(numbers: Numbers, key: jax.Array, moment: Moment, before: jax.Array) -> jax.Array:
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


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Renewed(Extra):
    """Clients that begin anew, before a round, with the state that the algorithm has at its start.

    Attributes:
      who: [N] bool.
      teacher: [N] int32, the client whose model each of them takes; itself: it takes the first model.
    """

    who: jax.Array
    teacher: jax.Array

    def among(self, kept: jax.Array, clients: jax.Array) -> "Renewed":
        """Return those whose model does not come from, or go to, a client that another wrapper has silenced."""
        itself = self.teacher == jnp.arange(self.who.shape[0])
        return Renewed(self.who & (itself | (clients & clients[self.teacher])), self.teacher)

    def around(self, algorithm: Algorithm) -> Algorithm:
        """Return the algorithm that begins a round with these clients anew, and counts the models that they take."""

        def do_round(hparams: Any, state: Any, links: Links, context: RoundContext) -> tuple[Any, RoundStats]:
            assert context.first_models is not None
            own, first = algorithm.params(state), context.first_models()
            begun = self.begin(algorithm, hparams, state, own, first)
            following, stats = algorithm.round(hparams, begun, links, context)
            heard = links_of_speakers(links, stats.messages) if stats.heard is None else stats.heard
            told = self.who & (self.teacher != jnp.arange(self.who.shape[0]))
            lessons = jnp.zeros_like(stats.messages).at[self.teacher].add(told.astype(stats.messages.dtype))
            bits = add_bits(stats.bits, count_bits(lessons, dense_bits(jax.tree.map(lambda x: x[:1], first))))
            return following, stats._replace(messages=stats.messages + lessons, bits=bits, heard=heard)

        return algorithm._replace(round=do_round)

    def begin(self, algorithm: Algorithm, hparams: Any, state: Any, own: ClientParams, first: ClientParams) -> Any:
        """Return the algorithm's state, of models ``own``, with these clients at its start."""
        rows = self.who.shape[0]
        taught = everywhere(lambda models, of: jax.tree.map(lambda p: p[of], models), own, self.teacher)
        models = where_rows(self.who, where_rows(self.teacher != jnp.arange(rows), taught, first), own)
        return where_moving(self.who, algorithm.init(hparams, models), state, of_all=False)


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
        If one of the two is silent then for another reason, as without energy, it goes on with its own model.

    Raises:
      UserError: for an unknown name.
    """
    rule = PRESENCES[name]
    for setting, value, known in (("absent", absent, ABSENT), ("newcomers", newcomers, NEWCOMERS)):
        if value not in known:
            raise UserError(f"presence.{setting}: {unknown_name(setting, value, known)}")

    def said(params: PresenceParams, key: jax.Array, round_index: jax.Array, before: jax.Array) -> jax.Array:
        own = jax.random.fold_in(stream(key, "placement"), OWN_STREAM)
        moment = Moment(round_index, round_index.astype(jnp.float32) * params.seconds)
        numbers = params.numbers.typed() if isinstance(params.numbers, Numbers) else params.numbers
        return rule(numbers, own, moment, before)

    def init(params: PresenceParams, key: jax.Array, clients: Clients) -> PresenceState:
        everybody = jnp.ones(network.num_clients, bool)
        says = said(params, key, jnp.int32(0), everybody)
        return PresenceState(network.init(params.inner, key, clients), says, everybody, ~everybody)

    def there(state: PresenceState) -> jax.Array:
        return state.says & network.hooks.there(state.inner) if network.hooks.there else state.says

    def step(
        params: PresenceParams, key: jax.Array, round_index: jax.Array, state: PresenceState, clients: Clients
    ) -> tuple[PresenceState, Links]:
        inner, links = network.step(params.inner, key, round_index, state.inner, clients)
        now = there(state)
        links = leave_out(links, ~now) if absent == "idle" else links_among(links, now)
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
        links = links if renewed is None else links.adding(renewed)
        return PresenceState(inner, said(params, key, round_index + 1, state.says), now, waits), links

    others = network._replace(metrics=tuple(metric for metric in network.metrics if metric is not PRESENT))
    return wrap(
        others, init=init, step=step, there=there, gives=network.gives - {FIXED}, metrics=(PRESENT, SHARE_PRESENT)
    )


@lru_cache(maxsize=8)
def read_stays(path: str, num_clients: int) -> np.ndarray:
    """Read who is there from a file of lines client,from,to, in rounds; the first line may be this header.

    Returns:
      [N, K, 2] int32, the stays of each client: there from a round on, and no more in the second one.

    Raises:
      UserError: If the file cannot be read, a line has another form, or a client or a stay is out of range.
    """
    rows = whole_numbers("presence.file", path, ("client", "from", "to"), "stay")
    for client, begin, end in rows:
        if not (0 <= client < num_clients and 0 <= begin < end <= NEVER):
            raise UserError(
                f"presence.file {path!r}: the stay {client},{begin},{end} must be of a client in 0..{num_clients - 1}, "
                "from a round to a later one"
            )
    of_client = [rows[rows[:, 0] == i, 1:] for i in range(num_clients)]
    stays = np.zeros((num_clients, max(map(len, of_client)), 2), np.int32)
    for i, own in enumerate(of_client):
        stays[i, : len(own)] = own
    return stays


@section("presence", order=10, switch="name")
@dataclass(frozen=True)
class PresenceConfig(Section):
    """Clients that come and go, what they do while they are away, and the models with which they come."""

    name: str = field("", "who is there in a round; empty: all clients, always", names=lambda: ("", *PRESENCES))
    absent: str = field("idle", "clients that are away do nothing (idle), or train alone (train)", names=ABSENT)
    newcomers: str = field(
        "kept",
        "a client that comes goes on with its own model (kept), or begins anew with the first model (initial) or with "
        "that of the first neighbour that it hears (neighbour)",
        names=NEWCOMERS,
    )
    file: str = field("", "who is there with presence.name=table: file of lines client,from,to, in rounds", file=True)

    FAMILIES = (
        Family(
            PRESENCES,
            "Clients that come and go",
            "presence",
            "presence.name",
            about="Who is there in a round, each client by itself. Who is away has no links.",
        ),
    )

    def in_use(self, whole: Any) -> bool:
        """Tell whether some clients may be away."""
        return bool(self.name)

    def rules(self, whole: Any) -> Iterator[Rule]:
        """Yield the rules: a table needs its file, and nobody misses meetings."""
        pattern, is_table = whole.server.pattern, self.name == "table"
        yield "presence.file", self.file and not is_table, "empty unless presence.name is table"
        yield "presence.file", is_table and not self.file, "a file of lines client,from,to: presence.name is table"
        misses = f"empty with server.pattern {pattern}: who is away would miss meetings that the pattern has"
        yield "presence.name", self.name and pattern, misses
        held = f"another one: trace.gaps is {whole.trace.gaps}, so that no client is ever away"
        yield "presence.name", self.name == "trace" and whole.trace.gaps == "hold", held
        algorithm, comes_with = whole.algorithm.name, self.newcomers if self.in_use(whole) else "kept"
        kept = f"kept: the states of {algorithm}'s clients have a sum that they must keep"
        yield "presence.newcomers", comes_with != "kept" and ALGORITHMS.traits(algorithm).keeps_sum, kept
        taught = f"another one: presence.newcomers {comes_with} needs whole models"
        yield "cost.short_contact", comes_with == "neighbour" and sends_parts(whole), taught

    def lasts(self, whole: Any) -> bool:
        """Tell whether clients may come at hours of a day."""
        return self.in_use(whole)

    def begins_anew(self, whole: Any) -> bool:
        """Tell whether a client that comes begins with the first model."""
        return self.in_use(whole) and self.newcomers == "initial"

    def describe(self, whole: Any) -> str:
        """Return the member."""
        return f"presence.name={self.name}"

    def wrap(self, network: Network, whole: Any, built: Built) -> Network:
        """Return the network with clients that come and go.

        Raises:
          UserError: If they do so as a trace says, and the network follows none.
        """
        if self.name == "trace" and network.hooks.there is None:
            movement = movement_of(whole)
            raise UserError(f"presence.name is trace; it must be another one: network.mobility {movement} follows none")
        return coming_and_going(network, self.name, self.absent, self.newcomers)

    def params(self, inner: Any, whole: Any, cost: Any) -> PresenceParams:
        """Return the numbers of the member, or the stays that a file holds."""
        is_table, clients = self.name == "table", whole.network.num_clients
        own = StayNumbers(read_stays(self.file, clients)) if is_table else self.traced(PRESENCES, self.name)
        return PresenceParams(inner, own, np.float32(whole.motion.dt))


SHARE_PRESENT = Metric(
    "share_present",
    lambda at: at.mean_over_rounds("share_present"),
    UNKNOWN,
    shape=(),
    each_round=lambda view: jnp.mean(view.network.hooks.there(view.before).astype(jnp.float32)),
    label="clients that are there (%)",
    scale=0.01,
    shown={TABLE, CURVE},
)
"""[] float32, the share of clients that were there, in the mean of the rounds since the last evaluation."""
