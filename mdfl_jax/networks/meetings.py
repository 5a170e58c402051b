"""A server met now and then by given or random patterns, and random pairs of clients (FedMobile 7 and appendix B)."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.errors import UserError
from mdfl_jax.mobility.contact_list import on_circle
from mdfl_jax.networks.server import expected_next, observed_mean, pair_links, random_pairs
from mdfl_jax.numbers import Numbers, Setting, number
from mdfl_jax.registry import Registry
from mdfl_jax.rng import stream, stream_at
from mdfl_jax.types import BEFORE, NEVER, SYMMETRIC, Clients, Links, Network, Places

SLOTS = 10**6  # of a gap; sums of a few stay far below NEVER
SERVER_FIELDS = frozenset({"at_server", "last_server", "next_server"})


class MeetingsParams(NamedTuple):
    """What a network of meetings is given, traced.

    Attributes:
      pairs: rho in [0, 1], share of the clients that have a partner in a slot.
      known_next: whether clients know their next meeting, or expect it a mean gap after the last.
      numbers: of the pattern, of the class that it is registered with; None: its own.
      table: table: [N, K] int32 slots of each client's meetings, increasing, filled up with `NEVER` (`meeting_table`).
    """

    pairs: Any = 0.5
    known_next: Any = True
    numbers: Any = None
    table: Any = None


class Pattern(NamedTuple):
    """When clients meet the server.

    Attributes:
      following: (params, key, last [N], met [N]) -> [N] int32 slot of the meeting after ``last``, of which there were
        ``met`` so far; ``last`` is -1 before the first. The pattern's numbers are ``params.numbers``.
      mean: (params) -> mean gap in slots, or None where only what is observed tells.
    """

    following: Callable[[MeetingsParams, jax.Array, jax.Array, jax.Array], jax.Array]
    mean: Callable[[MeetingsParams], jax.Array] | None


def _fixed(params: MeetingsParams, key: jax.Array, last: jax.Array, met: jax.Array) -> jax.Array:
    """Client i at the slots i + interval * n (that are not negative: beyond ``interval`` clients, some share slots)."""
    first = jnp.arange(last.shape[0]) % params.numbers.interval
    return jnp.where(met == 0, first, last + params.numbers.interval)


def _random(params: MeetingsParams, key: jax.Array, last: jax.Array, met: jax.Array) -> jax.Array:
    """Client i first at i (modulo gap_max), then gaps of U{gap_min .. gap_max}."""
    first = jnp.arange(last.shape[0]) % params.numbers.gap_max
    gap = jax.random.randint(key, last.shape, params.numbers.gap_min, params.numbers.gap_max + 1)
    return jnp.where(met == 0, first, last + gap)


def _exponential(params: MeetingsParams, key: jax.Array, last: jax.Array, met: jax.Array) -> jax.Array:
    """Gaps of an exponential given that it is at most gap_limit, rounded up to slots; the first is one from the start.

    The inverse of the truncated distribution, -m log(1 - u (1 - exp(-limit / m))).
    """
    mean, limit = jnp.asarray(params.numbers.mean_gap, jnp.float32), jnp.asarray(params.numbers.gap_limit, jnp.int32)
    u = jax.random.uniform(key, last.shape, jnp.float32)
    gap = jnp.ceil(-mean * jnp.log1p(u * jnp.expm1(-limit / mean))).astype(jnp.int32)
    return last + jnp.clip(gap, 1, limit)


def _table(params: MeetingsParams, key: jax.Array, last: jax.Array, met: jax.Array) -> jax.Array:
    """The slots of a table, one after the other."""
    if params.table is None:
        raise UserError("the pattern table needs slots: give MeetingsParams.table, see networks.meetings.meeting_table")
    table = jnp.asarray(params.table)
    column = jnp.minimum(met, table.shape[1] - 1)[:, None]
    slot = jnp.take_along_axis(table, column, axis=1)[:, 0]
    return jnp.where(met < table.shape[1], slot, NEVER)


def _slots(default: int, doc: str) -> Any:
    return number(default, doc, at_least=1, at_most=SLOTS, unit="slots")


class FixedNumbers(Numbers):
    """Of fixed meetings."""

    interval: int = _slots(50, "slots between two meetings; client i meets the server at i + interval * n")

    def largest_gap(self) -> int | None:
        """The longest gap between two meetings, in slots; None where only a run tells."""
        return self.interval


class RandomNumbers(Numbers):
    """Of uniform gaps."""

    gap_min: int = _slots(30, "shortest gap between two meetings")
    gap_max: int = _slots(50, "longest gap")

    def check(self, setting: Setting) -> None:
        """Gaps in order."""
        if self.gap_min > self.gap_max:
            raise UserError(
                f"server.gap_min is {self.gap_min}; it must be at most server.gap_max, which is {self.gap_max}"
            )

    def largest_gap(self) -> int | None:
        """As of `FixedNumbers`."""
        return self.gap_max


class ExponentialNumbers(Numbers):
    """Of exponential gaps."""

    mean_gap: float = number(30.0, "mean of the gaps before they are truncated", above=0, at_most=SLOTS, unit="slots")
    gap_limit: int = _slots(80, "longest gap, at which the exponential is truncated")

    def largest_gap(self) -> int | None:
        """As of `FixedNumbers`."""
        return self.gap_limit


PATTERNS: Registry[Pattern] = Registry("server pattern")
PATTERNS.register("fixed", FixedNumbers, "Client i meets the server at the slots i + interval * n.")(
    Pattern(_fixed, lambda params: params.numbers.interval)
)
PATTERNS.register("random", RandomNumbers, "Gaps between meetings are uniform in gap_min .. gap_max.")(
    Pattern(_random, lambda params: (params.numbers.gap_min + params.numbers.gap_max) / 2)
)
PATTERNS.register("exponential", ExponentialNumbers, "Gaps are exponential, truncated at gap_limit.")(
    Pattern(_exponential, lambda params: params.numbers.mean_gap)
)
PATTERNS.register("table", doc="Meetings as a table of client, slot says.")(Pattern(_table, None))


def meeting_table(client: Any, slot: Any, num_clients: int) -> np.ndarray:
    """The table of the pattern of that name, from pairs in any order.

    Args:
      client: [n] whole numbers in 0..N-1.
      slot: [n] whole numbers from 0; one given twice counts once.
      num_clients: N.

    Returns:
      [N, K] int32 where K is the most meetings of a client, one at least.

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


class MeetingsState(NamedTuple):
    """The world between two slots.

    Attributes:
      last: [N] int32 slots of the last meetings, -1 before the first.
      following: [N] int32 slots of the next meetings, which may be the coming slot.
      met: [N] int32 meetings so far.
    """

    last: jax.Array
    following: jax.Array
    met: jax.Array


def meetings(num_clients: int, pattern: str = "fixed") -> Network:
    """A network whose clients meet the server by a pattern and each other in random pairs.

    A client's next meeting is drawn at the last one, so that a run may be of any length.

    Args:
      num_clients: N >= 1.
      pattern: a name of `PATTERNS`.

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
        links = pair_links(random_pairs(key_pairs, num_clients, params.pairs), at_server, last, told)
        return MeetingsState(last, following, met), links

    def places(state: MeetingsState) -> Places:
        world = on_circle(num_clients)
        return Places(world.start, jnp.zeros(num_clients), world.is_mobile)

    gives = frozenset({"adjacency", "mix", "partner", SYMMETRIC}) | SERVER_FIELDS
    return Network(num_clients, gives, init, step, places, lambda state: state.following < NEVER)
