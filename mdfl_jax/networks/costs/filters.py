"""Contacts that are too short for a message, and clients that are too slow for a round: their links are removed."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mdfl_jax.core.links import Senders, carried, no_senders
from mdfl_jax.core.registry import Registry
from mdfl_jax.core.types import Clients
from mdfl_jax.networks.costs.numbers import MARGIN, CostParams, computing_seconds, sending_seconds
from mdfl_jax.networks.costs.work import Work
from mdfl_jax.networks.link_filter import LinkFilter, Seconds

IGNORE = "ignore"  # the value of cost.short_contact with which every contact carries messages, whatever it lasts


class ShortContact(NamedTuple):
    """A rule that says which contacts carry the messages of a round, from their durations.

    Attributes:
      init: (N, K) -> the state before the first round; K is 0 if links are matrices.
      step: (need [] seconds, state, contact [N, K] bool, seconds [N, K], senders) -> (carries [N, K] bool, state).
        ``need`` is what the messages of one link take, and ``seconds`` is the duration of each contact in the round.
        ``senders`` tells the clients for which the K places stand.
    """

    init: Callable[[int, int], Any]
    step: Callable[[jax.Array, Any, jax.Array, jax.Array, Senders], tuple[jax.Array, Any]]


SHORT_CONTACTS: Registry[ShortContact] = Registry("rule for short contacts", home="mdfl_jax.networks.costs")


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
    need: jax.Array, state: Lasted, contact: jax.Array, seconds: jax.Array, senders: Senders
) -> tuple[jax.Array, Lasted]:
    before = state.seconds if state.ids is None else carried(state.ids, state.seconds, senders)
    lasted = jnp.where(contact, before + seconds, 0)
    carries = contact & (lasted >= need * (1 - MARGIN))
    return carries, Lasted(jnp.where(carries, 0, lasted), senders.ids)


SHORT_CONTACTS.register("drop", doc="A contact carries the messages of a round if they fit its seconds in the round.")(
    ShortContact(lambda num_clients, places: None, _drop)
)
SHORT_CONTACTS.register("resume", doc="Messages go on in the next round of the same contact, and arrive late.")(
    ShortContact(_nothing_sent, _resume)
)


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
    return computing_seconds(params, work, key, num_samples) <= jnp.asarray(params.deadline, jnp.float32)


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
        num_samples = clients.num_samples
        fast = in_time(params, work, key, num_samples) if deadline else None
        return FilterState(fast, rule.init(num_samples.shape[0], places) if rule else None)

    def step(
        params: CostParams, state: FilterState, contact: jax.Array, seconds: Seconds | None, senders: Senders
    ) -> tuple[jax.Array, FilterState]:
        if state.in_time is not None:
            contact &= state.in_time[:, None] & senders.of(state.in_time)
        if rule is None or seconds is None:
            return contact, state
        need = sending_seconds(params, params.link_messages, params.link_bits)
        contact, contacts = rule.step(need, state.contacts, contact, seconds(), senders)
        return contact, state._replace(contacts=contacts)

    return LinkFilter(init, step, keeps_fixed=rule is None, needs_seconds=rule is not None)
