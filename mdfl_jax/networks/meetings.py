"""A network with a server, which clients meet by given or random patterns, and with random pairs of clients.

The source is FedMobile, section 7 and appendix B.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.core.errors import UserError, errors_about
from mdfl_jax.core.links import Lists, Senders
from mdfl_jax.core.metric import NOTHING, record
from mdfl_jax.core.numbers import Numbers, Setting, number
from mdfl_jax.core.registry import Registry
from mdfl_jax.core.rng import stream, stream_at
from mdfl_jax.core.types import BEFORE, NEVER, SYMMETRIC, Clients, Links, Meetings, Network, NetworkHooks, Places
from mdfl_jax.mobility.trace import on_circle
from mdfl_jax.storage.given import whole_numbers

SLOTS = 10**6  # the longest gap that may be set, in slots; sums of a few gaps stay far below NEVER


class MeetingsParams(NamedTuple):
    """Traced numbers of a network of meetings.

    Attributes:
      pairs: rho in [0, 1], the share of the clients that have a partner in a slot.
      known_next: if true, clients know the slot of their next meeting; else they expect it one mean gap after the last.
      numbers: the numbers of the pattern, an instance of the class that the pattern is registered with. None takes the
        defaults.
      table: [N, K] int32, for the pattern ``table`` only: the slots of each client's meetings, increasing and padded
        with `NEVER` (see `meeting_table`).
    """

    pairs: Any = 0.5
    known_next: Any = True
    numbers: Any = None
    table: Any = None


class Pattern(NamedTuple):
    """A rule for the slots in which clients meet the server.

    Attributes:
      following: (params, key, last [N], met [N]) -> [N] int32, the slot of the meeting that follows the one in slot
        ``last``. ``met`` is the number of meetings so far; ``last`` is -1 before the first one. The pattern's numbers
        are ``params.numbers``.
      mean: (params) -> the mean gap in slots. None if the mean can only be estimated from the observed meetings.
    """

    following: Callable[[MeetingsParams, jax.Array, jax.Array, jax.Array], jax.Array]
    mean: Callable[[MeetingsParams], jax.Array] | None


def _fixed(params: MeetingsParams, key: jax.Array, last: jax.Array, met: jax.Array) -> jax.Array:
    """Client i meets the server at (i mod interval) + interval * n. With N > interval, some clients share slots."""
    first = jnp.arange(last.shape[0]) % params.numbers.interval
    return jnp.where(met == 0, first, last + params.numbers.interval)


def _random(params: MeetingsParams, key: jax.Array, last: jax.Array, met: jax.Array) -> jax.Array:
    """Client i first meets the server at the slot i mod gap_max. The gaps are drawn from U{gap_min .. gap_max}."""
    first = jnp.arange(last.shape[0]) % params.numbers.gap_max
    gap = jax.random.randint(key, last.shape, params.numbers.gap_min, params.numbers.gap_max + 1)
    return jnp.where(met == 0, first, last + gap)


def _exponential(params: MeetingsParams, key: jax.Array, last: jax.Array, met: jax.Array) -> jax.Array:
    """Gaps follow an exponential distribution truncated at gap_limit, and are rounded up to whole slots.

    The first gap begins at slot -1. Gaps are drawn with the inverse of the truncated distribution function,
    -m log(1 - u (1 - exp(-limit / m))), with the mean m before truncation and u uniform in [0, 1).
    """
    mean, limit = jnp.asarray(params.numbers.mean_gap, jnp.float32), jnp.asarray(params.numbers.gap_limit, jnp.int32)
    u = jax.random.uniform(key, last.shape, jnp.float32)
    gap = jnp.ceil(-mean * jnp.log1p(u * jnp.expm1(-limit / mean))).astype(jnp.int32)
    return last + jnp.clip(gap, 1, limit)


def _table(params: MeetingsParams, key: jax.Array, last: jax.Array, met: jax.Array) -> jax.Array:
    """Clients meet the server at the slots of ``params.table``, and never again after the last one."""
    if params.table is None:
        raise UserError("the pattern table needs slots: give MeetingsParams.table, see networks.meetings.meeting_table")
    table = jnp.asarray(params.table)
    column = jnp.minimum(met, table.shape[1] - 1)[:, None]
    slot = jnp.take_along_axis(table, column, axis=1)[:, 0]
    return jnp.where(met < table.shape[1], slot, NEVER)


def _slots(default: int, doc: str) -> Any:
    return number(default, doc, at_least=1, at_most=SLOTS, unit="slots")


class FixedNumbers(Numbers):
    """The numbers of the pattern ``fixed``."""

    interval: int = _slots(50, "slots between two meetings; client i meets the server at i + interval * n")

    def gap_law(self) -> np.ndarray:
        """Return the distribution [Delta + 1] of the gap between two meetings, Delta the longest, in slots.

        >>> FixedNumbers(interval=2).gap_law().tolist()
        [0.0, 0.0, 1.0]
        """
        return np.append(np.zeros(self.interval), 1.0)


class RandomNumbers(Numbers):
    """The numbers of the pattern ``random``, whose gaps are uniform."""

    gap_min: int = _slots(30, "shortest gap between two meetings")
    gap_max: int = _slots(50, "longest gap")

    def check(self, setting: Setting) -> None:
        """Check that ``gap_min`` is at most ``gap_max``."""
        if self.gap_min > self.gap_max:
            raise UserError(
                f"server.gap_min is {self.gap_min}; it must be at most server.gap_max, which is {self.gap_max}"
            )

    def gap_law(self) -> np.ndarray:
        """Return the distribution [Delta + 1] of the gap between two meetings."""
        inside = np.arange(self.gap_max + 1) >= self.gap_min
        return inside / max(inside.sum(), 1)


class ExponentialNumbers(Numbers):
    """The numbers of the pattern ``exponential``."""

    mean_gap: float = number(30.0, "mean of the gaps before they are truncated", above=0, at_most=SLOTS, unit="slots")
    gap_limit: int = _slots(80, "longest gap, at which the exponential is truncated")

    def gap_law(self) -> np.ndarray:
        """Return the distribution [Delta + 1] of the gap between two meetings."""
        slots = np.arange(self.gap_limit + 1)
        below = np.expm1(-slots / self.mean_gap) / np.expm1(-self.gap_limit / self.mean_gap)
        return np.concatenate([[0.0], np.diff(below)])


PATTERNS: Registry[Pattern] = Registry("server pattern", home="mdfl_jax.networks")
PATTERNS.register(
    "fixed",
    FixedNumbers,
    "Meetings at equal intervals, the clients one after another.",
    formula="client i meets the server at the slots i + interval n, n = 0, 1, ...",
    cite="fedmobile: 7",
)(Pattern(_fixed, lambda params: params.numbers.interval))
PATTERNS.register(
    "random",
    RandomNumbers,
    "Meetings at random gaps between two bounds.",
    formula="gap ~ U{gap_min, ..., gap_max}",
    cite="fedmobile: 7",
)(Pattern(_random, lambda params: (params.numbers.gap_min + params.numbers.gap_max) / 2))
PATTERNS.register(
    "exponential",
    ExponentialNumbers,
    "Meetings at exponential gaps, truncated.",
    formula="gap = ceil(-mean_gap log(1 - u (1 - exp(-gap_limit / mean_gap)))), u ~ U(0, 1)",
    cite="fedmobile: C.6",
)(Pattern(_exponential, lambda params: params.numbers.mean_gap))
PATTERNS.register("table", doc="Meetings as a table says.", formula="the rows client,slot of the file")(
    Pattern(_table, None)
)


def meeting_table(client: Any, slot: Any, num_clients: int) -> np.ndarray:
    """Make the table for the pattern ``table`` from pairs of a client and a slot, in any order.

    Args:
      client: [n] whole numbers in 0..N-1.
      slot: [n] whole numbers, at least 0. A pair that is given twice counts once.
      num_clients: N.

    Returns:
      [N, K] int32, where K is the largest number of meetings of a client, at least 1. Rows are padded with `NEVER`.

    Raises:
      UserError: for a client or a slot out of range.

    >>> meeting_table([1, 0, 1], [7, 2, 3], 2).tolist() == [[2, NEVER], [3, 7]]
    True
    """
    for name, values, above in (("client", client, num_clients), ("slot", slot, NEVER)):
        bad = [value for value in values if not 0 <= value < above]
        if bad:
            raise UserError(f"the meeting table's {name} is {bad[0]}; it must be in 0..{above - 1}")
    clients, slots = np.asarray(client, np.int64), np.asarray(slot, np.int64)
    met = [np.unique(slots[clients == i]) for i in range(num_clients)]
    table = np.full((num_clients, max([1, *(len(m) for m in met)])), NEVER, np.int32)
    for i, row in enumerate(met):
        table[i, : len(row)] = row
    return table


def expected_next(last: jax.Array, mean: jax.Array, slot: jax.Array) -> jax.Array:
    """Compute the expected slots of the next meetings: one mean gap after the last meeting, but always after this slot.

    Args:
      last: [N] int32, the slots of the last meetings.
      mean: the mean gap in slots, one for all clients or [N]; ``inf`` if it is not known.
      slot: [] int32, the index of this slot.

    Returns:
      [N] int32; `NEVER` where the mean gap is not known.

    >>> expected_next(jnp.array([-1, 4, 4]), jnp.array([jnp.inf, 2.5, 30.0]), 9).tolist() == [NEVER, 10, 34]
    True
    """
    after = jnp.minimum(jnp.round(mean), NEVER // 2).astype(jnp.int32)
    return jnp.where(jnp.isinf(mean), NEVER, jnp.maximum(last + after, slot + 1)).astype(jnp.int32)


def observed_mean(last: jax.Array, met: jax.Array) -> jax.Array:
    """Compute the mean gap of the meetings so far.

    The first gap is counted from slot -1.

    Args:
      last: [N] int32, the slots of the last meetings; -1 before the first.
      met: [N] int32, the number of meetings so far.

    Returns:
      [N] mean gaps in slots; ``inf`` before the first meeting.
    """
    return jnp.where(met > 0, (last - BEFORE) / jnp.maximum(met, 1), jnp.inf)


def uniform_pairs(key: jax.Array, num_clients: int, rate: jax.Array | float) -> jax.Array:
    """Draw floor(rho N / 2) disjoint pairs of clients uniformly (FedMobile appendix B).

    Args:
      key: typed key of this slot.
      num_clients: N.
      rate: rho in [0, 1], the share of the clients that have a partner.

    Returns:
      [N] int32, the partner of each client; its own index if it is alone.
    """
    order = jax.random.permutation(key, num_clients).astype(jnp.int32)
    num_pairs = jnp.floor(jnp.asarray(rate, jnp.float32) * num_clients / 2 + 1e-4).astype(jnp.int32)
    place = jnp.arange(num_clients, dtype=jnp.int32)
    paired = place < 2 * num_pairs
    # The clients at the positions 2k and 2k + 1 of the order are a pair. With N odd, the last one has no partner.
    mate = order[jnp.minimum(place ^ 1, num_clients - 1)]
    return jnp.zeros(num_clients, jnp.int32).at[order].set(jnp.where(paired, mate, order))


def pair_links(partner: jax.Array, server: Meetings, lists: bool = False) -> Links:
    """Make the links of disjoint pairs. The two weights of a pair are one half; a client that is alone keeps its model.

    If an algorithm does not read the matrices, the compiler removes them from the program.

    Args:
      partner: [N] int32, see `mdfl_jax.core.types.Links`.
      server: the meetings with the server in this slot.
      lists: whether the links are neighbour lists, of two places, and not matrices.

    Returns:
      The links of the slot.
    """
    client = jnp.arange(partner.shape[0], dtype=jnp.int32)
    if lists:
        paired = partner != client
        adjacency = jnp.stack([jnp.zeros_like(paired), paired], axis=1)
        weights = jnp.stack([jnp.where(paired, 0.5, 1.0), jnp.where(paired, 0.5, 0.0)], axis=1)
        # The mate of a client is at place 1, and there the client is its mate's own one.
        place = jnp.broadcast_to(jnp.arange(2, dtype=jnp.int32), adjacency.shape)
        senders = Senders(jnp.stack([client, partner], axis=1), place, jnp.int32(2))
        return Links(adjacency, weights, senders, partner=partner, server=server)
    mate = partner[:, None] == client
    alone = client[:, None] == client
    return Links(mate & ~alone, 0.5 * mate + 0.5 * alone, partner=partner, server=server)


MET_SERVER = record("met_server", lambda view: view.heard.server.now, NOTHING, dtype="bool")
"""The record of who met the server in each round, of a network that has one."""


class MeetingsState(NamedTuple):
    """The state of a network of meetings between two slots.

    Attributes:
      last: [N] int32, the slot of each client's last meeting; -1 before the first.
      following: [N] int32, the slot of each client's next meeting, which may be the coming slot.
      met: [N] int32, the number of meetings so far.
    """

    last: jax.Array
    following: jax.Array
    met: jax.Array


def meetings(num_clients: int, pattern: str = "fixed", lists: bool = False) -> Network:
    """Make a network whose clients meet the server by a pattern, and each other in random pairs.

    A client's next meeting is drawn when the last one takes place, so a run may have any length. ``hparams.network`` is
    a `MeetingsParams`.

    Args:
      num_clients: N >= 1.
      pattern: a name of `PATTERNS`.
      lists: whether the links are neighbour lists and not matrices [N, N].

    Returns:
      The network.

    Raises:
      UserError: for an unknown pattern.
    """
    rule, own = PATTERNS[pattern], PATTERNS.numbers(pattern)()

    def seen(params: MeetingsParams) -> MeetingsParams:
        return params._replace(numbers=(params.numbers or own).typed())

    def init(params: MeetingsParams, key: jax.Array, clients: Clients) -> MeetingsState:
        params = seen(params)
        none = jnp.zeros(num_clients, jnp.int32)
        first = rule.following(params, stream(key, "placement"), none + BEFORE, none)
        return MeetingsState(none + BEFORE, first.astype(jnp.int32), none)

    def step(
        params: MeetingsParams, key: jax.Array, slot: jax.Array, state: MeetingsState, clients: Clients
    ) -> tuple[MeetingsState, Links]:
        params = seen(params)
        key_gap, key_pairs = jax.random.split(stream_at(key, "link", slot))
        at_server = state.following == slot
        last = jnp.where(at_server, slot, state.last).astype(jnp.int32)
        met = state.met + at_server
        drawn = rule.following(params, key_gap, last, met).astype(jnp.int32)
        following = jnp.where(at_server, drawn, state.following)
        mean = jnp.asarray(rule.mean(params), jnp.float32) if rule.mean else observed_mean(last, met)
        told = jnp.where(params.known_next, following, expected_next(last, mean, slot))
        links = pair_links(uniform_pairs(key_pairs, num_clients, params.pairs), Meetings(at_server, last, told), lists)
        return MeetingsState(last, following, met), links

    def places(state: MeetingsState) -> Places:
        world = on_circle(num_clients)
        return Places(world.start, jnp.zeros(num_clients), world.is_mobile)

    gives = frozenset({"adjacency", "mix", "partner", "server", SYMMETRIC})
    return Network(
        num_clients=num_clients,
        gives=gives,
        init=init,
        step=step,
        places=places,
        metrics=(MET_SERVER,),
        lists=Lists(2) if lists else None,
        hooks=NetworkHooks(reached=lambda state: state.following < NEVER),
    )


@lru_cache(maxsize=8)
def read_meetings(path: str, num_clients: int) -> np.ndarray:
    """Read the meetings from a file of lines client,slot, whose first line may be this header.

    Returns:
      [N, K] int32, the slots of each client's meetings, as `meeting_table` returns them.

    Raises:
      UserError: If the file cannot be read, a line has another form, or a client or slot is out of range.
    """
    rows = whole_numbers("server.file", path, ("client", "slot"), "meeting")
    with errors_about(f"server.file {path!r}"):
        return meeting_table(rows[:, 0], rows[:, 1], num_clients)
