"""The costs of a round: simulated seconds and joules, contacts that are too short, clients that are too slow.

`counted` wraps any network, so that a run counts seconds and joules. `link_filter` makes a rule that removes contacts
from a network. `Work` and `probe` find out what an algorithm computes and sends in a round: the gradients of its traced
round are counted, and the length of its messages is the length that the algorithm itself counts. So no algorithm
declares its work. docs/costs.md has the formulas.

A round is synchronous. First all clients compute, then all clients send, each its messages one after another. Meanwhile
clients move. The next round begins when both the work and the movement of the round are over.
"""

import dataclasses
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr

from mdfl_jax.core.errors import UserError, errors_about
from mdfl_jax.core.links import Senders, carried, no_senders
from mdfl_jax.core.message_bits import float_bits, sparse_bits, total_bits, words
from mdfl_jax.core.metric import AXIS, HOLDS, TABLE, TARGET, Metric
from mdfl_jax.core.numbers import single
from mdfl_jax.core.registry import Registry
from mdfl_jax.core.rng import stream
from mdfl_jax.core.section import Built, Rule, Section, field, is_counted, section, sections_in, switch
from mdfl_jax.core.totals import Total, add, no_total
from mdfl_jax.core.traced import sub_programs
from mdfl_jax.core.types import (
    BEFORE,
    NEVER,
    Algorithm,
    ClientParams,
    Clients,
    Links,
    Meetings,
    Network,
    Observed,
    RoundContext,
    RoundStats,
)
from mdfl_jax.data.batching import Epochs
from mdfl_jax.networks.contact import Met
from mdfl_jax.networks.link_filters import LinkFilter
from mdfl_jax.networks.wrappers.wrapper import wrap
from mdfl_jax.storage.given import read_text

MARGIN = 1e-5  # relative; seconds in single precision may be wrong by this much
_LEVELS = 3  # of the speeds 1, 1 / r, 1 / r^2
IGNORE = "ignore"  # the value of cost.short_contact with which every contact carries messages, whatever it lasts
_NAME = "gradient_of_a_probe"


class Work(NamedTuple):
    """What one client computes in a round.

    Attributes:
      gradients: the number of gradients of a minibatch, or of all samples, that the algorithm computes in a round.
      batch_size: samples of a minibatch; 0: a gradient takes all samples of the client.
      epochs: the epochs of local work, where ``gradients`` counts those of one step; 0: there are none.
      clocked: whether nobody waits for others, so that a round is a slot (`mdfl_jax.networks.wrappers.clocks`).
      uses_links: whether the algorithm sends over the links of the network. All-reduce and local training do not.
    """

    gradients: int = 1
    batch_size: int = 0
    uses_links: bool = True
    epochs: int = 0
    clocked: bool = False

    def samples(self, num_samples: jax.Array) -> jax.Array:
        """Return [N] float32, the samples that each client processes in a round. A client without samples has none.

        >>> Work(gradients=2, batch_size=8).samples(jnp.array([3, 0])).tolist()
        [16.0, 0.0]
        """
        drawn = self.batch_size and not self.epochs  # in an epoch each sample is taken once, however it is cut
        each = jnp.where(num_samples > 0, self.batch_size, 0) if drawn else num_samples
        return self.gradients * (self.epochs or 1) * each.astype(jnp.float32)


class LinkLoad(NamedTuple):
    """The messages that one link carries in a round in one direction, and their bits.

    ``least`` are the bits of a message of a single coordinate, where messages are whole models.
    """

    messages: float
    bits: float
    least: float = 0.0


def work_of(algorithm: Algorithm, numbers: Any, model: Any, batch_size: int, epochs: int = 0) -> Work:
    """Return what a client computes in a round of an algorithm.

    Args:
      algorithm: the algorithm.
      numbers: its traced numbers, `Hparams.algorithm`.
      model: the shapes of one model, a tree of `jax.ShapeDtypeStruct`.
      batch_size: samples of a minibatch; 0: all samples of the client.
      epochs: the epochs of local work; 0: the algorithm takes local steps.
    """
    uses_links = bool({"adjacency", "mix", "partner", "server"} & algorithm.needs)
    return Work(gradient_calls(algorithm, numbers, model), batch_size, uses_links, epochs)


def gradient_calls(algorithm: Algorithm, numbers: Any, model: Any) -> int:
    """Count the gradients that each client computes in a round of an algorithm, in the traced program of the round.

    The body of a ``scan`` counts once for each iteration, and a ``cond`` counts as its most expensive branch. The loop
    over the steps of epochs counts once.

    Args:
      algorithm, numbers, model: as in `work_of`.
    """
    traced = jax.make_jaxpr(lambda own: _rounds(algorithm, own, model, 1)[0].loss)(numbers)
    return _calls(traced.jaxpr)


def probe(algorithm: Algorithm, model: Any) -> Callable[[Any], LinkLoad]:
    """Make a function that finds out what a link carries in a round.

    The function computes two rounds of the algorithm between two clients in contact, with random models and gradients,
    and takes the round with more bits. An algorithm that sends nothing there is taken to send whole models. Where the
    messages of a run differ in length, as with an adaptive code, the result is the length of one of them.

    Args:
      algorithm, model: as in `work_of`.

    Returns:
      (the algorithm's traced numbers) -> LinkLoad. It compiles and computes a small program.
    """

    @jax.jit
    def sent(numbers: Any) -> tuple[jax.Array, jax.Array]:
        stats = _rounds(algorithm, numbers, model, 2)
        return jnp.stack([one.messages for one in stats]), jnp.stack([words(one.bits) for one in stats])

    def load(numbers: Any) -> LinkLoad:
        messages, counted = map(np.asarray, sent(numbers))
        bits = total_bits(counted)
        where = np.unravel_index(np.argmax(bits), bits.shape)
        if not bits[where]:
            return LinkLoad(1.0, float(sum(8 * leaf.dtype.itemsize * leaf.size for leaf in jax.tree.leaves(model))))
        sent_bits, width = float(bits[where]), float_bits(model)
        size = max(int(sent_bits / messages[where]) // width, 1)
        return LinkLoad(float(messages[where]), sent_bits, float(total_bits(words(sparse_bits(size, 1, width)))))

    return load


def _stacked(model: Any) -> Any:
    """Return the shapes of the models of two clients."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((2, *leaf.shape), leaf.dtype), model)


def _drawn(model: Any, seed: int) -> ClientParams:
    """Draw the models, or the gradients, of two clients."""
    leaves, structure = jax.tree.flatten(_stacked(model))
    keys = jax.random.split(jax.random.key(seed), len(leaves))
    draws = [jax.random.normal(own, leaf.shape).astype(leaf.dtype) for own, leaf in zip(keys, leaves)]
    return jax.tree.unflatten(structure, draws)


def _rounds(algorithm: Algorithm, numbers: Any, model: Any, count: int) -> list[RoundStats]:
    """Compute rounds of two clients that hear each other and meet a server, and return their statistics."""
    everybody, own = jnp.ones(2, bool), jnp.eye(2, dtype=bool)
    slots = jnp.zeros(2, jnp.int32)
    server, partner = Meetings(everybody, slots + BEFORE, slots + NEVER), jnp.array([1, 0], jnp.int32)
    links = Links(~own, jnp.full((2, 2), 0.5), partner=partner, server=server)

    def gradient_of_a_probe(params: ClientParams, key: jax.Array) -> tuple[jax.Array, ClientParams]:
        return jnp.zeros(2, jax.tree.leaves(params)[0].dtype), _drawn(model, 1)

    named = jax.jit(gradient_of_a_probe)  # a call with a name, which can be counted

    def gradient(
        params: ClientParams, key: jax.Array, per_sample: Any = None, whole: bool = False, batch: Any = None
    ) -> Any:
        return (gradient_of_a_probe if whole else named)(params, key)  # a round tells itself who computes a whole one

    state, found = algorithm.init(numbers, _drawn(model, 0)), []
    once = Epochs(jnp.zeros((1, 2), jnp.int32), jnp.arange(2), jnp.ones(2, jnp.int32), 1, False)
    for index in range(count):
        context = RoundContext(jax.random.key(2 + index), gradient, passes=lambda key, num_passes, equal: once)
        state, stats = algorithm.round(numbers, state, links, context)
        found.append(stats)
    return found


def _calls(jaxpr: Jaxpr | ClosedJaxpr) -> int:
    """Count the calls of the probe's gradient in a traced program."""
    total = 0
    for equation in jaxpr.eqns:
        if equation.params.get("name") == _NAME:
            total += 1
            continue
        inside = [_calls(sub) for sub in sub_programs(equation.params)]
        if inside:
            several = max(inside) if equation.primitive.name == "cond" else sum(inside)
            total += several * (equation.params["length"] if equation.primitive.name == "scan" else 1)
    return total


class CostParams(NamedTuple):
    """Traced numbers of the costs. With the defaults computing, sending and moving are free and take no time.

    Attributes:
      seconds_per_sample: seconds for the gradient of one sample, for a client of speed 1.
      speed_spread: sigma of the lognormal distribution from which the clients' speeds are drawn; 0: all speeds are 1.
      speed_ratio: r >= 1; these speeds are divided by 1, r or r^2, for a third of the clients each, drawn for a seed.
      speeds: [N] given speeds of the clients; None: they are drawn.
      deadline: seconds after which a round does not wait for computing clients any longer; ``inf``: no deadline. These
        clients still finish their local steps, and that time is not counted.
      bandwidth: bits per second of a client's radio; ``inf``: sending takes no time.
      latency: seconds that each message takes besides its bits.
      round_seconds: seconds of movement in a round; 0 where clients have no places.
      link_messages: messages that one link carries in a round in one direction (`mdfl_jax.networks.costs.probe`).
      link_bits: the bits of these messages.
      link_least: the bits of a message of one coordinate.
      joules_per_bit: energy of the sender for each bit.
      joules_per_bit_received: energy of the receiver for each bit.
      joules_per_sample: energy for the gradient of one sample.
      joules_per_metre: energy of movement for each metre, or grid unit.
    """

    seconds_per_sample: Any = 0.0
    speed_spread: Any = 0.0
    speed_ratio: Any = 1.0
    speeds: Any = None
    deadline: Any = jnp.inf
    bandwidth: Any = jnp.inf
    latency: Any = 0.0
    round_seconds: Any = 0.0
    link_messages: Any = 1.0
    link_bits: Any = 0.0
    link_least: Any = 0.0
    joules_per_bit: Any = 0.0
    joules_per_bit_received: Any = 0.0
    joules_per_sample: Any = 0.0
    joules_per_metre: Any = 0.0


def client_speeds(params: CostParams, key: jax.Array, num_clients: int) -> jax.Array:
    """Return the relative computing speeds of the clients, drawn once for a seed unless they are given.

    A speed is exp(sigma z - sigma^2 / 2) with a standard normal z, so that speeds are lognormal with mean one. It is
    divided by 1, r or r^2, which equally many clients have, or one more of the first ones.

    Args:
      params: the numbers of the costs.
      key: the key of the seed. Its stream "cost" is used for nothing else.
      num_clients: N.

    Returns:
      [N] float32 speeds, above 0.
    """
    if params.speeds is not None:
        return jnp.asarray(params.speeds, jnp.float32)
    sigma = jnp.asarray(params.speed_spread, jnp.float32)
    normal = jax.random.normal(stream(key, "cost"), (num_clients,), jnp.float32)
    # Levels and normal draws have keys of their own, so neither depends on whether the other is used.
    dealt = jax.random.permutation(jax.random.fold_in(stream(key, "cost"), 1), num_clients) % _LEVELS
    slower = jnp.asarray(params.speed_ratio, jnp.float32) ** dealt
    return jnp.exp(sigma * normal - jnp.square(sigma) / 2) / slower


def computing_seconds(params: CostParams, work: Work, key: jax.Array, num_samples: jax.Array) -> jax.Array:
    """Return the seconds that each client computes in a round, C_i = seconds_per_sample * samples_i / speed_i.

    Args:
      params: the numbers of the costs.
      work: what a client computes in a round.
      key: the key of the seed.
      num_samples: [N] int32, the training samples that each client holds.

    Returns:
      [N] float32 seconds.
    """
    samples = work.samples(num_samples)
    seconds = jnp.asarray(params.seconds_per_sample, jnp.float32) * samples
    return seconds / client_speeds(params, key, num_samples.shape[0])


def sending_seconds(
    params: CostParams, messages: jax.Array, bits: jax.Array, rate: jax.Array | None = None
) -> jax.Array:
    """Return the seconds that messages take one after another on one radio: latency * messages + bits / rate.

    Args:
      params: the numbers of the costs.
      messages: the number of messages, an array of any shape.
      bits: the bits of all these messages, of the same shape.
      rate: bits per second, of a shape that broadcasts with them; None: the bandwidth.

    Returns:
      float32 seconds, of the broadcast shape.

    >>> float(sending_seconds(CostParams(bandwidth=1000.0, latency=0.5), jnp.array(2), jnp.array(3000)))
    4.0
    """
    latency, bandwidth = (jnp.asarray(value, jnp.float32) for value in (params.latency, params.bandwidth))
    speed = bandwidth if rate is None else rate
    return latency * jnp.asarray(messages, jnp.float32) + jnp.asarray(bits, jnp.float32) / speed


class ShortContact(NamedTuple):
    """A rule that says which contacts carry the messages of a round, from their durations.

    Attributes:
      init: (N, K) -> the state before the first round; K is 0 if links are matrices.
      step: (need [] seconds, state, contact [N, K] bool, seconds [N, K], senders) -> (carries [N, K] bool, state).
        ``need`` is what the messages of one link take, and ``seconds`` is the duration of each contact in the round.
        Where links have rates of their own, both are in shares of the messages: ``need`` is one. ``senders`` tells the
        clients for which the K places stand.
      goes_on: whether messages that do not fit one round may arrive in a later one.
      all_pairs: whether the state must remember pairs that are not in contact, so that links must be matrices.
      in_parts: whether a contact carries the coordinates that fit it, so that ``need`` is that of a single one.
    """

    init: Callable[[int, int], Any]
    step: Callable[[jax.Array, Any, jax.Array, jax.Array, Senders], tuple[jax.Array, Any]]
    goes_on: bool = False
    all_pairs: bool = False
    in_parts: bool = False


SHORT_CONTACTS: Registry[ShortContact] = Registry("rule for short contacts", home="mdfl_jax.networks")


def _drop(
    need: jax.Array, state: None, contact: jax.Array, seconds: jax.Array, senders: Senders
) -> tuple[jax.Array, None]:
    del senders
    return contact & (seconds >= need * (1 - MARGIN)), state


class Lasted(NamedTuple):
    """The seconds of contact so far of messages that have not arrived yet.

    Attributes:
      seconds: [N, K] float32.
      ids: [N, K] int32, the clients of the places (`mdfl_jax.core.links.Senders.ids`); None in the dense form.
    """

    seconds: jax.Array
    ids: jax.Array | None


def _nothing_sent(num_clients: int, places: int) -> Lasted:
    ids = no_senders(num_clients, places).ids if places else None
    return Lasted(jnp.zeros((num_clients, places or num_clients), jnp.float32), ids)


def _resume(
    need: jax.Array, state: Lasted, contact: jax.Array, seconds: jax.Array, senders: Senders, forgets: bool = True
) -> tuple[jax.Array, Lasted]:
    before = state.seconds if state.ids is None else carried(state.ids, state.seconds, senders)
    lasted = jnp.where(contact, before + seconds, 0 if forgets else before)
    carries = contact & (lasted >= need * (1 - MARGIN))
    return carries, Lasted(jnp.where(carries, 0, lasted), senders.ids)


SHORT_CONTACTS.register("drop", doc="A contact carries the messages of a round if they fit its seconds in the round.")(
    ShortContact(lambda num_clients, places: None, _drop)
)
SHORT_CONTACTS.register("resume", doc="Messages go on in the next round of the same contact, and arrive late.")(
    ShortContact(_nothing_sent, _resume, goes_on=True)
)
SHORT_CONTACTS.register("next_contact", doc="Messages go on in the next contact of the same clients, and arrive late.")(
    ShortContact(_nothing_sent, partial(_resume, forgets=False), goes_on=True, all_pairs=True)
)
SHORT_CONTACTS.register(
    "largest",
    doc="A contact carries the coordinates that fit its seconds in the round, those that changed most first.",
)(ShortContact(lambda num_clients, places: None, _drop, in_parts=True))


def budgets(params: CostParams, seconds: jax.Array, rate: jax.Array | None = None) -> jax.Array:
    """Return the bits that contacts carry: (seconds - latency) rate, or ``inf`` where the whole messages fit.

    Args:
      params: the numbers of the costs.
      seconds: [N, K] those of each contact in the round.
      rate: [N, K] bits per second of each link; None: the bandwidth.
    """
    whole = sending_seconds(params, params.link_messages, params.link_bits, rate) * (1 - MARGIN)
    speed = jnp.asarray(params.bandwidth, jnp.float32) if rate is None else rate
    left = seconds - jnp.asarray(params.latency, jnp.float32) * params.link_messages
    return jnp.where(seconds >= whole, jnp.inf, jnp.maximum(left * speed, 0))


class FilterState(NamedTuple):
    """The state of a filter.

    Attributes:
      in_time: [N] bool, the clients that finish their computation before the deadline; None without a deadline.
      contacts: the state of the rule for short contacts; None without one.
    """

    in_time: jax.Array | None
    contacts: Any


def in_time(params: CostParams, work: Work, key: jax.Array, num_samples: jax.Array) -> jax.Array:
    """Return [N] bool, the clients whose computation C_i (`computing_seconds`) ends at the deadline or before.

    Args:
      params: the numbers of the costs.
      work: what a client computes in a round.
      key: the key of the seed.
      num_samples: [N] int32, the training samples that each client holds.
    """
    seconds = computing_seconds(params, work, key, num_samples) * (1 - MARGIN)  # a product may be rounded up
    return seconds <= jnp.asarray(params.deadline, jnp.float32)


def link_filter(work: Work, short_contact: str = IGNORE, deadline: bool = False) -> LinkFilter | None:
    """Make the filter that removes the links of slow clients and contacts that are too short.

    The filter's numbers are a `CostParams`.

    Args:
      work: what a client computes in a round.
      short_contact: a name of `SHORT_CONTACTS`, or "ignore".
      deadline: whether there is a deadline. A client that misses it has no links.

    Returns:
      The filter; None if nothing is removed.

    Raises:
      UserError: for an unknown name.
    """
    rule = None if short_contact == IGNORE else SHORT_CONTACTS[short_contact]
    if rule is None and not deadline:
        return None

    def init(params: CostParams, key: jax.Array, clients: Clients, places: int) -> FilterState:
        if rule and rule.all_pairs and places:
            raise UserError(
                f"cost.short_contact {short_contact} remembers all pairs of clients; links must be matrices"
            )
        num_samples = clients.num_samples
        fast = in_time(params, work, key, num_samples) if deadline else None
        return FilterState(fast, rule.init(num_samples.shape[0], places) if rule else None)

    def step(params: CostParams, state: FilterState, key: jax.Array, met: Met) -> tuple[Met, FilterState]:
        if state.in_time is not None:
            met = met._replace(heard=met.heard & state.in_time[:, None] & met.senders.of(state.in_time))
        if rule is None:
            return met, state
        rate, lasted = met.rate, met.seconds()
        if rate is not None:  # both directions carry or none, so the slower one decides
            rate = jnp.minimum(rate, met.senders.opposite(rate))
        bits = params.link_least if rule.in_parts else params.link_bits
        need, done = sending_seconds(params, params.link_messages, bits, rate), lasted
        if rate is not None:  # rates change, so shares of messages are added
            need, done = jnp.float32(1), jnp.where(need > 0, done / need, jnp.where(done > 0, jnp.inf, 0))
        carries, contacts = rule.step(need, state.contacts, met.heard, done, met.senders)
        if rule.in_parts:
            met = met._replace(capacity=budgets(params, lasted, rate))
        return met._replace(heard=carries), state._replace(contacts=contacts)

    return LinkFilter(init, step, keeps_fixed=rule is None, needs_seconds=rule is not None)


class CountedParams(NamedTuple):
    """Traced numbers of a network that counts costs: those of the inner network, and those of the costs."""

    inner: Any
    cost: CostParams


class CountedState(NamedTuple):
    """The state of a network that counts costs.

    Attributes:
      inner: the state of the inner network.
      samples: [N] float32, the samples that each client processes in a round.
      computing: [N] float32, the seconds that each client computes in a round.
      whole: [2, N] float32, the samples and the seconds of a gradient over all samples of a client.
      seconds: [] the seconds since the start of the run.
      worked: [N] the joules of computing and of the radio since the start.
      moved: [N] float32, the joules of movement since the start.
    """

    inner: Any
    samples: jax.Array
    computing: jax.Array
    whole: jax.Array
    seconds: Total
    worked: Total
    moved: jax.Array


def round_seconds(params: CostParams, work: Work, computing: jax.Array, sending: jax.Array) -> jax.Array:
    """Compute the seconds of a synchronous round, T = max(dt, min(max_i C_i, D) + max_i S_i); with clocks, of a slot.

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
    if work.clocked:
        return jnp.asarray(params.round_seconds, jnp.float32)
    slowest = jnp.max(computing)
    if work.uses_links:
        slowest = jnp.minimum(slowest, jnp.asarray(params.deadline, jnp.float32))
    return jnp.maximum(jnp.asarray(params.round_seconds, jnp.float32), slowest + jnp.max(sending))


def received_bits(bits: jax.Array, heard: Links) -> jax.Array:
    """Compute the bits that each client receives in a round.

    A sender's bits are shared equally among the clients that received from it, unless the bits of each link are known.
    The result is exact if the sender sent the same to all of them.

    Args:
      bits: [N] float32 bits that each client sends.
      heard: who heard whom.

    Returns:
      [N] float32 bits.

    >>> adjacency = jnp.array([[0, 0, 0], [1, 0, 0], [1, 0, 0]], bool)
    >>> received_bits(jnp.array([6.0, 0.0, 0.0]), Links(adjacency, jnp.eye(3))).tolist()
    [0.0, 3.0, 3.0]
    """
    if heard.channel.bits is not None:
        return jnp.sum(jnp.where(heard.adjacency, heard.channel.bits, 0), axis=1)
    heard_by = heard.senders.sums(heard.adjacency)
    share = jnp.where(heard_by > 0, bits / jnp.maximum(heard_by, 1), 0)
    return heard.senders.sum_of(heard.adjacency.astype(bits.dtype), share)


def airtime(params: CostParams, messages: jax.Array, bits: jax.Array, heard: Links) -> jax.Array:
    """Compute the seconds that each client sends in a round, one message after another.

    Where links have rates, the bits of a sender are shared among its receivers, as in `received_bits`, and each
    receiver takes its share at the rate of its link.

    Args:
      params: the numbers of the costs.
      messages: [N] messages that each client sends.
      bits: [N] float32, the bits of these messages.
      heard: who heard whom.

    Returns:
      [N] float32 seconds.
    """
    senders, rate, on_links = heard.senders, heard.channel.rate, heard.channel.bits
    if rate is None:
        return sending_seconds(params, messages, bits)
    waits = sending_seconds(params, messages, jnp.zeros_like(bits))
    if on_links is not None:
        return waits + senders.sums(jnp.where(heard.adjacency, on_links / rate, 0))
    receivers = jnp.maximum(senders.sums(heard.adjacency), 1)
    return waits + bits * (senders.sums(jnp.where(heard.adjacency, 1 / rate, 0)) / receivers)


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
        none, once = no_total(network.num_clients), Work()
        return CountedState(
            inner=network.init(params.inner, key, clients),
            samples=work.samples(held),
            computing=computing_seconds(params.cost, work, key, held),
            whole=jnp.stack([once.samples(held), computing_seconds(params.cost, once, key, held)]),
            seconds=no_total(),
            worked=none,
            moved=none.value,
        )

    def step(
        params: CountedParams, key: jax.Array, round_index: jax.Array, state: CountedState, clients: Clients
    ) -> tuple[CountedState, Links]:
        inner, links = network.step(params.inner, key, round_index, state.inner, clients)
        return state._replace(inner=inner), links

    passed = wrap(network, init=init, step=step, metrics=(_SECONDS, JOULES))

    def observe(params: CountedParams, state: CountedState, seen: Observed) -> CountedState:
        cost, heard, stats = params.cost, seen.heard, seen.stats
        samples, computing = state.samples, state.computing
        if stats.report.whole is not None:
            samples, computing = jnp.stack([samples, computing]) + jnp.where(stats.report.whole, state.whole, 0)
        if stats.report.computed is not None:
            samples, computing = (jnp.where(stats.report.computed, x, 0) for x in (samples, computing))
        bits = stats.bits.rounded()
        known = heard if work.uses_links else heard.of_channel(rate=None)  # all-reduce sends over links of its own
        sending = airtime(cost, stats.messages, bits, known)
        received = received_bits(bits, heard)
        joules = cost.joules_per_sample * samples + cost.joules_per_bit * bits + cost.joules_per_bit_received * received
        state = state._replace(
            seconds=add(state.seconds, round_seconds(cost, work, computing, sending)),
            worked=add(state.worked, joules),
            moved=cost.joules_per_metre * passed.places(state).distance_moved,
        )
        seen = seen._replace(joules=state.worked.value + state.moved)
        return passed.hooks.observe(params, state, seen) if passed.hooks.observe else state

    return passed._replace(hooks=passed.hooks._replace(observe=observe))


def _seconds(at: Any) -> jax.Array:
    """Return [] float32, the simulated seconds since the start of the run."""
    return at.network_state.seconds.value


def _joules(at: Any) -> jax.Array:
    """Return [N] float32, the joules that each client has used since the start of the run."""
    return at.network_state.worked.value + at.network_state.moved


_SHOWN = frozenset({AXIS, TABLE, TARGET})
_SECONDS = Metric("seconds", _seconds, HOLDS, shape=(), unit="s", label="simulated seconds", shown=_SHOWN)
JOULES = Metric("joules", _joules, HOLDS, unit="J", label="joules per client", shown=_SHOWN)


COUNTED_AXES = ("joules", "seconds")  # x axes that only studies with a cost have
_of_links = partial(field, part="links")


def _free(doc: str) -> Any:
    return field(0.0, doc, at_least=0, finite=True, traced=True)


@section("cost", order=70)
@dataclass(frozen=True)
class CostConfig(Section):
    """What computing, sending and moving take, in seconds and joules. If a field is set, a run counts both."""

    seconds_per_sample: float = _free("seconds for the gradient of one sample, for a client of speed 1")
    speed_spread: float = _free("clients' speeds are lognormal with this sigma and mean one, drawn once for a seed")
    speed_ratio: float = field(
        1.0,
        "speeds are divided by 1, r and r^2, for a third of the clients each, drawn once for a seed",
        at_least=1,
        finite=True,
        traced=True,
    )
    speeds: str = field("", "file of N relative speeds, one for each client", traced=True, file=True)
    deadline: float = _of_links(
        math.inf,
        "seconds after which a client that still computes is left out of the exchange; it trains all the same",
        above=0,
        traced=True,
    )
    bandwidth: float = field(math.inf, "bits per second of a client's radio; inf: no time", above=0, traced=True)
    latency: float = _free("seconds that each message takes besides its bits")
    short_contact: str = field(
        IGNORE,
        "contacts too short for a message: they carry it all the same (ignore), not at all (drop), or late: it goes on "
        "in the next round of the contact (resume), or also in the next contact of the same clients (next_contact), or "
        "the coordinates that fit, those that changed most first (largest)",
        names=lambda: (IGNORE, *SHORT_CONTACTS),
    )
    joules_per_bit: float = _free("joules of the sender for each bit")
    joules_per_bit_received: float = _free("joules of the receiver for each bit")
    joules_per_sample: float = _free("joules for the gradient of one sample")
    joules_per_metre: float = _free("joules of movement for each metre, or grid unit")

    def in_use(self, whole: Any) -> bool:
        """Tell whether seconds and joules are counted."""
        return is_counted(whole)

    def counts(self, whole: Any) -> bool:
        """Tell whether a cost is set, or costs are varied."""
        is_set = any(getattr(self, each.name) != each.default for each in dataclasses.fields(CostConfig))
        return is_set or varies_costs(whole)

    def rules(self, whole: Any) -> Iterator[Rule]:
        """Yield the rules: what is counted is known, and one field says what the speeds are.

        Raises:
          UserError: As `read_speeds`.
        """
        network, pattern, waits = whole.network, whole.server.pattern, self.short_contact != IGNORE
        uncounted = whole.x_axis in COUNTED_AXES and not is_counted(whole)
        yield "x_axis", uncounted, "another one, or a field of cost must be set"
        where = f"server.pattern {pattern}" if pattern else f"network.graph {network.graph}" if network.graph else ""
        unknown = f"{IGNORE} with {where}: the durations of contacts are not known"
        yield "cost.short_contact", where and waits, unknown
        listed = remembers_all(whole) and whole.engine.links == "lists"
        remembers = f"dense or auto: cost.short_contact {self.short_contact} remembers all pairs of clients"
        yield "engine.links", listed, remembers
        if pattern:
            yield "cost.deadline", has_deadline(whole), f"inf with server.pattern {pattern}"
        if pattern or whole.serves_all:
            with_server = f"server.pattern {pattern}" if pattern else f"algorithm.name {whole.algorithm.name}"
            by_receiver = f"0 with {with_server}: bits are not counted by receiver"
            yield "cost.joules_per_bit_received", self.joules_per_bit_received > 0, by_receiver
        yield "cost.speed_spread", self.speeds and self.speed_spread > 0, "0 where cost.speeds names a file"
        yield "cost.speed_ratio", self.speeds and self.speed_ratio > 1, "1 where cost.speeds names a file"
        if self.speeds:
            read_speeds(self.speeds, network.num_clients)

    def ignored(self, whole: Any) -> Iterator[Rule]:
        """Yield what needs a time of computing or of sending; where the sweep varies costs, a point may be free."""
        computes_at_once = not self.seconds_per_sample and not varies_costs(whole)
        for name in ("deadline", "speed_spread", "speed_ratio", "speeds"):
            yield f"cost.{name}", computes_at_once, "cost.seconds_per_sample is 0"
        yield "cost.short_contact", sends_without_rate(whole) and not self.latency, "messages take no time"

    def describe(self, whole: Any) -> str:
        """Return what happens to contacts that are too short."""
        return f"cost.short_contact={self.short_contact}" if self.short_contact in SHORT_CONTACTS else ""

    def link_filter(self, whole: Any, work: Work) -> LinkFilter | None:
        """Return the rule that removes slow clients and short contacts."""
        return link_filter(work, self.short_contact, has_deadline(whole))

    def filter_params(self, whole: Any, cost: Any) -> Any:
        """Return the numbers of the costs."""
        return cost

    def best_rate(self, whole: Any) -> float:
        """Return the bandwidth of all links."""
        return self.bandwidth

    def wrap(self, network: Network, whole: Any, built: Built) -> Network:
        """Return the network that counts."""
        return counted(network, built.work)

    def params(self, inner: Any, whole: Any, cost: Any) -> CountedParams:
        """Return the numbers of the costs."""
        return CountedParams(inner, cost)

    def numbers(self, whole: Any, load: LinkLoad = LinkLoad(1.0, 0.0)) -> CostParams:
        """Return the traced numbers of the costs of a point, as NumPy values of fixed type.

        Args:
          whole: the configuration of the point.
          load: what a link carries in a round (`probe`), if short contacts are told from others.

        Raises:
          UserError: If the file of speeds cannot be used.
        """
        numbers = (each.name for each in dataclasses.fields(CostConfig) if isinstance(each.default, float))
        in_space = not whole.network.graph and whole.server.pattern in ("", "roadside")
        has_slots = in_space or bool(whole.clock.joins)  # a round takes at least motion.dt, for movement or as a slot
        return CostParams(
            **{name: np.float32(getattr(self, name)) for name in numbers},
            speeds=read_speeds(self.speeds, whole.network.num_clients) if self.speeds else None,
            round_seconds=np.float32(whole.motion.dt if has_slots else 0.0),
            link_messages=np.float32(load.messages),
            link_bits=np.float32(load.bits),
            link_least=np.float32(load.least),
        )


@switch
def has_deadline(whole: Any) -> bool:
    """Tell whether slow clients are left out of the rounds."""
    return math.isfinite(whole.cost.deadline)


@switch
def has_speeds(whole: Any) -> bool:
    """Tell whether the speeds of the clients are given, and not drawn."""
    return bool(whole.cost.speeds)


def is_filtered(whole: Any) -> bool:
    """Tell whether slow clients or short contacts are removed (`link_filter`)."""
    return has_deadline(whole) or whole.cost.short_contact != IGNORE


def remembers_all(whole: Any) -> bool:
    """Tell whether messages wait for the next contact of any two clients, so that links must be matrices."""
    rule = whole.cost.short_contact
    return rule != IGNORE and SHORT_CONTACTS[rule].all_pairs


def sends_parts(whole: Any) -> bool:
    """Tell whether a message that does not fit a contact carries the coordinates that do."""
    rule = whole.cost.short_contact
    return rule != IGNORE and SHORT_CONTACTS[rule].in_parts


def varies_costs(whole: Any) -> bool:
    """Tell whether a sweep varies costs, so that all of its points count them."""
    return re.search(r"(^|[;+\s])(cost\.|radio\.rate)", whole.sweep) is not None


def most_bits_a_second(whole: Any) -> float:
    """Return the most bits per second of a link; infinite if messages are sent at once."""
    return min((each.best_rate(whole) for each in sections_in(whole)), default=math.inf)


def sends_without_rate(whole: Any) -> bool:
    """Tell whether the bits of a message take no time in any point of a sweep."""
    return not varies_costs(whole) and math.isinf(most_bits_a_second(whole))


def read_speeds(file: str, num_clients: int) -> np.ndarray:
    """Read the relative speeds of the clients from a text file of N numbers.

    Returns:
      [N] float32 speeds.

    Raises:
      UserError: If the file cannot be read, or does not hold N finite numbers above 0.
    """
    given = f"cost.speeds {file!r}"
    with errors_about(given):
        words = read_text(file, any_encoding=True).replace(",", " ").split()
    speeds = []
    for word in words:
        try:
            speeds.append(float(word))
        except ValueError:
            raise UserError(f"{given}: {word!r} is not a number") from None
        if not 0 < single(speeds[-1]) < math.inf:
            raise UserError(f"{given}: {word} is no speed; it must be greater than 0 and finite")
    if len(speeds) != num_clients:
        raise UserError(f"{given} holds {len(speeds)} numbers; network.num_clients is {num_clients}")
    return np.array(speeds, np.float32)
