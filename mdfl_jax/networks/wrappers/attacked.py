"""A network some of whose clients are attackers: who they are, from when, and how far their models may have come."""

import zlib
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.attacks.registry import Attackers, attackers_of
from mdfl_jax.core.metric import CURVE, HOLDS, TABLE, UNKNOWN, Metric
from mdfl_jax.core.rng import stream
from mdfl_jax.core.types import Clients, Links, Network, Places
from mdfl_jax.networks.wrappers.wrapper import wrap

OWN = zlib.crc32(b"attackers") & 0x7FFFFFFF  # folded into the key, since the inner network draws from the same stream
NEVER = 2**30  # rounds
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


def choose(key: jax.Array, params: AttackedParams, places: Places) -> jax.Array:
    """Choose the attackers, [N] bool. Equal clients, and those that `WHO` does not tell apart, are drawn.

    Args:
      key: a typed key.
      params: says how many, and which.
      places: the first places.
    """
    num_clients = places.is_mobile.shape[0]
    draws = jax.random.uniform(key, (num_clients,))
    outside = jnp.sum(jnp.square(places.position - jnp.mean(places.position, axis=0)), axis=1)
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
        are = choose(jax.random.fold_in(stream(key, "placement"), OWN), params, network.places(inner))
        age = jnp.where(are, 0, NEVER).astype(jnp.int32)
        attackers = attackers_of(are, jnp.asarray(params.which, jnp.int32), params.numbers)
        return AttackedState(inner, attackers, age, jnp.int32(NEVER), jnp.asarray(params.memory, jnp.int32))

    def step(
        params: AttackedParams, key: jax.Array, round_index: jax.Array, state: AttackedState, clients: Clients
    ) -> tuple[AttackedState, Links]:
        inner, links = network.step(params.inner, key, round_index, state.inner, clients)
        begun, always = round_index >= params.from_round, state.attackers
        now = attackers_of(always.are & begun, always.which, always.numbers)
        heard = jnp.min(jnp.where(links.adjacency, links.senders.of(state.age), NEVER), axis=1)
        met = jnp.ones_like(always.are) if reaches_all else links.at_server
        at_server = state.at_server
        if met is not None:  # within a round a word goes to the server and from it to all who meet it
            at_server = jnp.minimum(at_server, jnp.min(jnp.where(met, state.age, NEVER)))
            heard = jnp.where(met, jnp.minimum(heard, at_server), heard)
        age = jnp.where(always.are, 0, jnp.minimum(jnp.minimum(state.age, heard) + 1, NEVER))
        age, at_server = (
            jnp.where(begun, x, y) for x, y in ((age, state.age), (jnp.minimum(at_server + 1, NEVER), state.at_server))
        )
        return state._replace(inner=inner, age=age, at_server=at_server), links._replace(attackers=now)

    own = (ATTACKER, CONTAMINATION, *metrics)
    return wrap(network, init=init, step=step, metrics=own, honest=lambda state: ~state.attackers.are)


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
    label="honest clients within reach of an attacker (%)",
    scale=0.01,
    shown={TABLE, CURVE},
)
"""[] float32, the share of honest clients that a chain of contacts of the last B rounds links to an attacker."""

ATTACKER = Metric("attacker", lambda at: at.network_state.attackers.are, HOLDS, label="attackers", summary=False)
"""[N] bool, who attacks, from the first round of the attack on."""
