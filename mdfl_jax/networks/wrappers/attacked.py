"""A network some of whose clients are attackers: who they are, from when, and how far their models may have come."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.attacks.registry import ATTACKS, Attack, Attackers, Samples, attackers_of, names
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.metric import CURVE, HOLDS, TABLE, UNKNOWN, Metric
from mdfl_jax.core.numbers import of_fixed_types
from mdfl_jax.core.rng import number_of, stream
from mdfl_jax.core.section import Built, Family, Rule, Section, field, section, switch
from mdfl_jax.core.types import Clients, Links, Network, Places, Task
from mdfl_jax.mobility.registry import world_in
from mdfl_jax.networks.wrappers.wrapper import wrap
from mdfl_jax.tasks.supervised import IMAGES

_OWN = number_of("attackers")  # folded into the key, since the inner network draws from the same stream
_NEVER = 2**30  # rounds
WHO = ("random", "mobile", "static", "most_central", "outermost", "listed")
"""Who attacks: any clients, mobile or static ones, those nearest to or farthest from the middle, or those listed."""


class AttackedParams(NamedTuple):
    """Traced numbers of an attacked network.

    Attributes:
      inner: the numbers of the network.
      number: the number of attackers.
      who: an index of `WHO`.
      listed: [N] bool, the listed clients.
      from_round: the first round in which they attack.
      memory: B, the rounds within which a model that an attacker has sent counts as fresh.
      which: the attack, an index of `mdfl_jax.attacks.registry.names`.
      numbers: the numbers of all attacks, in this order.
    """

    inner: Any
    number: Any
    who: Any
    listed: Any
    from_round: Any
    memory: Any
    which: Any
    numbers: tuple[Any, ...]


class AttackedState(NamedTuple):
    """The state of an attacked network.

    Attributes:
      inner: the state of the inner network.
      attackers: those that attack once the attack has begun.
      age: [N] int32, for each client the rounds that the newest word of an attacker has needed to reach it.
      at_server: [] int32, the same for the server.
      memory: [] int32, B.
    """

    inner: Any
    attackers: Attackers
    age: jax.Array
    at_server: jax.Array
    memory: jax.Array


def _choose(key: jax.Array, params: AttackedParams, places: Places) -> jax.Array:
    """Choose the attackers, [N] bool. Equal clients, and those that `WHO` does not tell apart, are drawn.

    Args:
      key: a typed key.
      params: says how many, and which.
      places: the first places.
    """
    num_clients = places.is_mobile.shape[0]
    draws = jax.random.uniform(key, (num_clients,))
    # Times the number of clients, so that on a grid clients equally far from the middle are exactly so.
    outside = jnp.sum(jnp.square(num_clients * places.position - jnp.sum(places.position, axis=0)), axis=1)
    everybody, mobile, listed = jnp.ones(num_clients, bool), places.is_mobile, jnp.asarray(params.listed)
    may = jnp.stack([everybody, mobile, ~mobile, everybody, everybody, listed])[params.who]
    nothing = jnp.zeros(num_clients)
    score = jnp.stack([nothing, nothing, nothing, outside, -outside, nothing])[params.who]
    order = jnp.lexsort((draws, score, ~may))
    first = jnp.zeros(num_clients, bool).at[order].set(jnp.arange(num_clients) < params.number)
    return first & may


def attacked(network: Network, metrics: tuple[Metric, ...] = (), reaches_all: bool = False) -> Network:
    """Make a network of which some clients attack. ``hparams.network`` becomes an `AttackedParams`.

    The attackers are chosen once for a seed, from the clients' first places.

    Args:
      network: the network.
      metrics: metrics of attacks, which are measured in addition to those of every attack.
      reaches_all: whether the algorithm brings what any client sends to all of them in each round, whatever the links.
    """

    def init(params: AttackedParams, key: jax.Array, clients: Clients) -> AttackedState:
        inner = network.init(params.inner, key, clients)
        are = _choose(jax.random.fold_in(stream(key, "placement"), _OWN), params, network.places(inner))
        age = jnp.where(are, 0, _NEVER).astype(jnp.int32)
        attackers = attackers_of(are, jnp.asarray(params.which, jnp.int32), params.numbers)
        return AttackedState(inner, attackers, age, jnp.int32(_NEVER), jnp.asarray(params.memory, jnp.int32))

    def step(
        params: AttackedParams, key: jax.Array, round_index: jax.Array, state: AttackedState, clients: Clients
    ) -> tuple[AttackedState, Links]:
        inner, links = network.step(params.inner, key, round_index, state.inner, clients)
        begun, always = round_index >= params.from_round, state.attackers
        now = attackers_of(always.are & begun, always.which, always.numbers)
        heard = jnp.min(jnp.where(links.adjacency, links.senders.of(state.age), _NEVER), axis=1)
        met = jnp.ones_like(always.are) if reaches_all else links.server and links.server.now
        at_server = state.at_server
        if met is not None:  # within a round a word goes to the server and from it to all who meet it
            at_server = jnp.minimum(at_server, jnp.min(jnp.where(met, state.age, _NEVER)))
            heard = jnp.where(met, jnp.minimum(heard, at_server), heard)
        age = jnp.where(always.are, 0, jnp.minimum(jnp.minimum(state.age, heard) + 1, _NEVER))
        age, at_server = (
            jnp.where(begun, x, y) for x, y in ((age, state.age), (jnp.minimum(at_server + 1, _NEVER), state.at_server))
        )
        return state._replace(inner=inner, age=age, at_server=at_server), links.adding(now)

    own = (ATTACKER, CONTAMINATION, *metrics)
    return wrap(network, init=init, step=step, metrics=own, counted=lambda state: ~state.attackers.are)


def _attack_needs(name: str) -> str:
    """Say what an attack asks of the algorithm and of the task."""
    attack = ATTACKS[name]
    mixes = "Needs an algorithm that mixes by `algorithm.aggregation`." if attack.to_each else ""
    kind = "images with labels" if attack.of_images else "samples with labels"
    return mixes or (f"Needs {kind}." if attack.poison else "")


@section("attack", order=60, switch="name")
@dataclass(frozen=True)
class AttackConfig(Section):
    """Which clients attack, from when, and how. Tables and curves are then of the honest clients."""

    name: str = field("", "what attackers do; empty: nobody attacks", names=lambda: ("", *ATTACKS), traced=True)
    number: int = field(1, "number of attackers", at_least=0, traced=True, part="attackers")
    share: float = field(
        0.0, "share of the clients that attack, in place of the number", at_least=0, below=1, traced=True
    )
    who: str = field(
        "random",
        "who attacks: any clients, mobile or static ones, those in the middle or outside, or those of attack.clients",
        names=WHO,
        traced=True,
    )
    clients: str = field("", "the clients that attack with attack.who listed, as 0,3", traced=True)
    from_round: int = field(0, "first round of the attack", at_least=0, traced=True)
    memory: int = field(
        20,
        "rounds within which a chain of contacts connects a client to an attacker",
        at_least=0,
        traced=True,
    )

    FAMILIES = (
        Family(
            ATTACKS,
            "Attacks",
            "attack",
            "attack.name",
            about="What attackers do. x_j is the vector of attacker j, y_j what it sends in its place; y is what all "
            "attackers send to client i, whose model is x_i. The honest models are those that client i hears, and its "
            "own; W is the mixing matrix.",
            needs=_attack_needs,
        ),
    )

    def in_use(self, whole: Any) -> bool:
        """Tell whether some clients attack."""
        return bool(self.name)

    def count(self, whole: Any) -> int:
        """Return the number of attackers: that of the listed ones, the share of the clients, rounded, or `number`."""
        if self.who == "listed":
            return len(self.clients.split(","))
        return round(self.share * whole.network.num_clients) if self.share else self.number

    def listed(self, whole: Any) -> list[int]:
        """Parse the field `clients`.

        Raises:
          UserError: If it is no list of different clients.
        """
        clients, words = whole.network.num_clients, [word.strip() for word in self.clients.split(",")]
        found = [int(word) for word in words if word.isdecimal()]
        if len(found) < len(words) or len(set(found)) < len(found) or any(client >= clients for client in found):
            raise UserError(
                f"attack.clients is {self.clients!r}; it must be different clients of 0 to {clients - 1}, as in 0,3"
            )
        return found

    def rules(self, whole: Any) -> Iterator[Rule]:
        """Yield the rules: attackers can do what the attack says, there are so many, and not all clients attack."""
        network, name, ignored = whole.network, whole.algorithm.name, whole.ignored
        if not self.name:
            return
        each, mixes = ATTACKS[self.name].to_each, "aggregation" not in ignored
        yield "attack.name", each and not mixes, f"another one: {name} sends no whole models by algorithm.aggregation"
        path, count = ("attack.share" if self.share else "attack.number"), self.count(whole)
        path = "attack.clients" if self.who == "listed" else path
        yield path, count >= network.num_clients, f"fewer than network.num_clients, which is {network.num_clients}"
        yield path, not count, f"enough for one attacker of {network.num_clients} clients"
        yield "attack.name", "sends" in ignored, f"empty: {name} sends nothing by which clients could attack"
        yield "attack.from_round", self.from_round >= whole.rounds, f"below rounds, which is {whole.rounds}"
        yield "eval_clients", whole.eval_clients, "0 with attack.name: a sample would not know who is honest"
        drawn = whole.server.pattern not in ("", "roadside")
        moves = 0 if network.graph or drawn or network.mobility == "static" else network.num_mobile
        kinds = {"mobile": moves, "static": network.num_clients - moves}
        if self.who in kinds:
            there = kinds[self.who]
            yield path, count > there, f"at most {there} clients: attack.who is {self.who}, and so many are"
        needs_places = self.who in ("most_central", "outermost")
        of_graph = f"another one: a graph (network.graph is {network.graph}) knows no places"
        yield "attack.who", needs_places and network.graph, of_graph
        of_pairs = f"another one: drawn pairs (server.pattern is {whole.server.pattern}) know no places"
        yield "attack.who", needs_places and drawn, of_pairs
        of_list = f"another one: network.mobility {network.mobility} knows no places"
        yield "attack.who", needs_places and world_in(whole) == "contacts", of_list
        listed = self.who == "listed"
        yield "attack.clients", self.clients and not listed, "empty unless attack.who is listed"
        if listed:
            self.listed(whole)

    def ignored(self, whole: Any) -> Iterator[Rule]:
        """Yield what else says how many attack."""
        yield "attackers", self.who == "listed", "attack.clients says who attacks"
        yield "attackers", bool(self.share), "attack.share says how many attack"

    def wrap(self, network: Network, whole: Any, built: Built) -> Network:
        """Return the network with attackers."""
        measured = measures_of_attacks() if has_own_measures(whole) else ()
        return attacked(network, measured, reaches_all=not built.algorithm.needs & {"adjacency", "server"})

    def check_task(self, whole: Any, task: Task) -> None:
        """Check that the task has samples that the attack can change."""
        name, data = self.name, whole.data.name
        attack, shape = ATTACKS[name], getattr(task.data, "x_train", np.zeros(0)).shape
        if attack.poison and not task.scoring.num_labels:
            raise UserError(f"attack.name is {name}, which changes labels; the samples of data.name {data} have none")
        if attack.of_images and len(shape) != IMAGES:
            raise UserError(f"attack.name is {name}, which needs images; the samples of data.name {data} are none")
        numbers = self.member(ATTACKS, name)
        labels = ("source_label", "wrong_label", "target_label") if task.scoring.num_labels else ()
        most = dict.fromkeys(labels, (task.scoring.num_labels or 1) - 1)
        most |= {"trigger_size": min(shape[1:3])} if attack.of_images else {}
        for each, bound in most.items():
            if (value := getattr(numbers, each, 0)) > bound:
                raise UserError(f"attack.{each} is {value}; it must be at most {bound} with data.name {data}")
        if attack.poison and not _changes(attack, numbers.traced(), task):
            given = " and ".join(f"attack.{each} {value}" for each, value in vars(numbers).items())
            given = f"with {given} " if given else ""
            raise UserError(f"attack.name is {name}; {given}it changes no training sample of data.name {data}")

    def params(self, inner: Any, whole: Any, cost: Any) -> AttackedParams:
        """Return the numbers of the attackers and of all attacks, which share a program."""
        listed = np.zeros(whole.network.num_clients, bool)
        if self.who == "listed":
            listed[self.listed(whole)] = True
        return of_fixed_types(
            AttackedParams(
                inner=inner,
                number=self.count(whole),
                who=WHO.index(self.who),
                listed=listed,
                from_round=self.from_round,
                memory=self.memory,
                which=names().index(self.name),
                numbers=tuple(self.traced(ATTACKS, name) for name in names()),
            )
        )


def _changes(attack: Attack, numbers: Any, task: Task) -> bool:
    """Tell whether an attack changes any training sample, or may do so, where there are no arrays yet."""
    if not isinstance(getattr(task.data, "y_train", None), jax.Array):
        return True
    x, y, brightest = task.data.x_train, task.data.y_train, getattr(task.data, "brightest", None)

    def of_any(x: jax.Array, y: jax.Array) -> jax.Array:
        draws = jnp.arange(len(y)) / len(y)
        assert attack.poison
        changed = attack.poison(numbers, Samples(x, y, draws, task.scoring.num_labels or 0, brightest))
        return jnp.any(changed[0] != x) | jnp.any(changed[1] != y)

    return bool(jax.jit(of_any)(x, y))


@switch
def has_own_measures(whole: Any) -> bool:
    """Tell whether the attack has metrics of its own."""
    name = AttackConfig.of(whole).name
    return bool(name and ATTACKS[name].metrics)


def measures_of_attacks() -> tuple[Metric, ...]:
    """Return the metrics of all attacks: points with different attacks share a program."""
    return tuple(metric for name in ATTACKS.as_registered() for metric in ATTACKS[name].metrics)


def _contaminated(view: Any) -> jax.Array:
    """Return the share of honest clients whom a model of an attacker may have reached within the last B rounds."""
    state = view.state
    honest = ~state.attackers.are
    return jnp.sum(honest & (state.age <= state.memory)) / jnp.maximum(jnp.sum(honest), 1)


CONTAMINATION = Metric(
    "contamination",
    lambda at: at.mean_over_rounds("contamination"),
    UNKNOWN,
    shape=(),
    each_round=_contaminated,
    label="honest clients connected to an attacker (%)",
    scale=0.01,
    shown={TABLE, CURVE},
)
"""[] float32, the share of honest clients that a chain of contacts of the last B rounds links to an attacker."""

ATTACKER = Metric("attacker", lambda at: at.network_state.attackers.are, HOLDS, label="attackers", summary=False)
"""[N] bool, who attacks, from the first round of the attack on."""
