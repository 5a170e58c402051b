"""How senders share one channel: they take turns, or they send at the same time and disturb each other."""

import jax
import jax.numpy as jnp

from mdfl_jax.contrib.radios.radio import SHARINGS, Sharing
from mdfl_jax.core.links import Senders
from mdfl_jax.core.numbers import Numbers, number


def turns(numbers: Numbers, heard: jax.Array, senders: Senders) -> jax.Array:
    """Return the share of the time in which each sender sends, [N, K], if clients take turns.

    Client k and those that it hears are 1 + d_k contenders. A sender has one turn in as many as contend where they are
    the most, at itself or at a client in its range. So the shares of all that a client hears, and its own, sum to at
    most one: whatever anybody can hear fits into the time.
    """
    contenders = 1 + jnp.sum(heard, axis=1)
    most = jnp.maximum(contenders, jnp.max(jnp.where(heard, senders.of(contenders), 0), axis=1))
    return jnp.broadcast_to(senders.of(1 / most.astype(jnp.float32)), heard.shape)


SHARINGS.register(
    "turns",
    doc="Time division: a sender has a turn in as many as contend where they are the most.",
    formula="rate_ij -> rate_ij / max over k in M_j of |M_k|,  M_k: client k and those in its range",
)(Sharing(turns))


class InterferenceNumbers(Numbers):
    """The numbers of ``interference``."""

    activity: float = number(0.1, "share of the time in which each client sends", above=0, at_most=1)


SHARINGS.register(
    "interference",
    InterferenceNumbers,
    doc="All send whenever they like, a share of the time, and those within the radius add to the noise.",
    formula="SNR -> P_ij / (noise + activity sum over k of P_ik, k not j), the smaller of both directions;  "
    "rate -> activity rate",
)(Sharing(lambda numbers, heard, senders: numbers.activity, lambda numbers: numbers.activity))
