"""The records of the rounds of a network in space: where clients are heading, cluster centres, who is present."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from mdfl_jax.core.metric import CLIENTS, ROUNDS, UNKNOWN, Metric, record
from mdfl_jax.mobility.rule import Mobility


def _of_rule(view: Any, rules: Sequence[Mobility], seen: Callable[[Any, Any, int], Any], name: str) -> jax.Array:
    """Return what the mobility rule in use tells of its state, [N, 2] float32; NaN for a rule that tells nothing."""
    state, nothing = view.state, jnp.full_like(view.state.places.position, jnp.nan)

    def use(k: int) -> Callable[[Any], jax.Array]:
        tell = getattr(rules[k], name)
        return lambda states: tell(seen(view.params, state.world, k), states[k]) if tell else nothing

    return jax.lax.switch(view.params.mobility, [use(k) for k in range(len(rules))], state.rules)


PRESENT = record("present", lambda view: view.before.there, 1.0, dtype="bool")
"""The record of who could be in contact in each round."""


def space_records(rules: Sequence[Mobility], seen: Callable[[Any, Any, int], Any]) -> tuple[Metric, ...]:
    """Make the records of a network in space, as far as its mobility rules have them.

    Args:
      rules: the mobility rules.
      seen: (params, world, index of a rule) -> the world as this rule sees it.

    Returns:
      Metrics with one value a round: ``destination`` and ``centre`` [N, 2] after the movement of the round, and
      ``present`` [N] when the links of the round were made.
    """
    found = []
    for name, told in (("destination", "destination"), ("centre", "centres")):
        if any(getattr(rule, told) for rule in rules):
            each = partial(_of_rule, rules=rules, seen=seen, name=told)
            found.append(record(name, each, UNKNOWN, shape=(ROUNDS, CLIENTS, 2), optional=True))
    return (*found, PRESENT) if any(rule.presence for rule in rules) else tuple(found)
