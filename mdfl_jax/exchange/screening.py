"""Metrics of what aggregation rules do with the models that clients receive."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.core.links import as_matrix
from mdfl_jax.core.metric import CLIENT_BYTES, CLIENTS, CURVE, NOTHING, ROUNDS, TABLE, UNKNOWN, Metric, record
from mdfl_jax.core.types import Extra


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Untrusted(Extra):
    """The attackers: clients that do not send what the algorithm computes.

    Attributes:
      are: [N] bool.
    """

    are: jax.Array


class Screened(NamedTuple):
    """What the aggregation rule has done with the models that clients received in a round.

    Attributes:
      alone: [N] bool, the clients that received models, but too few for the rule, and took the rule's fallback.
      judged: [N, K] bool, over the neighbour slots: the models that all other clients received.
      rejected: [N, K] bool, the judged models that the rule did not use.
    """

    alone: jax.Array
    judged: jax.Array
    rejected: jax.Array

    def joined(self, before: "Screened | None") -> "Screened":
        """Return what this exchange and those before it in the same round have done."""
        return self if before is None else Screened(*(one | other for one, other in zip(self, before)))


def _alone(view: Any) -> jax.Array:
    """Return [N] whether each client fell back, 0 or 1; NaN where the round reports nothing of it."""
    screened = view.stats.report.screened
    return jnp.full(view.stats.loss.shape, jnp.nan) if screened is None else screened.alone.astype(jnp.float32)


FELL_BACK = Metric(
    "fell_back",
    lambda at: at.mean_over_rounds("fell_back"),
    UNKNOWN,
    each_round=_alone,
    label="rounds with too few neighbours for the rule (%)",
    scale=0.01,
    shown={TABLE, CURVE},
    optional=True,
)
"""[N] float32, the share of the rounds since the last evaluation in which a client received models, but too few."""


def _rejections(name: str, of_attackers: bool, label: str) -> Metric:
    """Declare [2] float32: the share of judged messages to honest clients that the rule rejected, and their number."""

    def counted(view: Any) -> jax.Array:
        found, attackers, senders = view.stats.report.screened, view.links.get(Untrusted), view.links.senders
        if found is None:
            return jnp.full(2, jnp.nan)
        bad = jnp.zeros(found.alone.shape, bool) if attackers is None else attackers.are
        among = ~bad[:, None] & (senders.of(bad) == of_attackers)
        return jnp.stack([jnp.sum(which & among, dtype=jnp.float32) for which in (found.rejected, found.judged)])

    def measured(at: Any) -> jax.Array:
        rejected, judged = at.total(name)
        return jnp.where(judged > 0, jnp.stack([rejected / jnp.maximum(judged, 1), judged]), jnp.nan)

    share: Callable[[np.ndarray], Any] = lambda values: float(values[0])  # noqa: E731
    return Metric(
        name,
        measured,
        UNKNOWN,
        shape=(2,),
        each_round=counted,
        label=label,
        over_clients=share,
        scale=0.01,
        shown={TABLE, CURVE},
        optional=True,
    )


def _packed(view: Any) -> jax.Array:
    links, found = view.links, view.stats.report.screened
    rejected = jnp.zeros_like(links.adjacency) if found is None else found.rejected
    return jnp.packbits(as_matrix(rejected, links.senders), axis=1)


REJECTED = record("rejected", _packed, NOTHING, shape=(ROUNDS, CLIENTS, CLIENT_BYTES), dtype="uint8")
"""The record of the senders whose models each client rejected, as bits in the form of the record ``links``."""

DETECTIONS = (
    _rejections("true_rejections", True, "models of attackers that are rejected (%)"),
    _rejections("false_rejections", False, "models of honest clients that are rejected (%)"),
    REJECTED,
)
"""The metrics of rules that use some models and reject others. They count messages since the last evaluation."""
