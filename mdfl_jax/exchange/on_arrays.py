"""Aggregation as a function on arrays: a rule of `AGGREGATIONS` for stacked models, outside of any study."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.links import ALL_PAIRS, Senders
from mdfl_jax.core.numbers import Setting, checked
from mdfl_jax.core.types import Links, RoundContext
from mdfl_jax.exchange.aggregation import AGGREGATIONS, Heard
from mdfl_jax.exchange.aggregation import aggregate as aggregate_heard

_TOLERANCE = 1e-5  # of the row sums of given weights


def aggregate(
    rule: str,
    models: Any,
    hears: Any = None,
    loss: Callable[[Any], jax.Array] | None = None,
    progress: float = 0.0,
    **numbers: Any,
) -> Any:
    """Combine models by a rule of `AGGREGATIONS`. `jax.jit` can compile this function; the rule's name is static.

    Args:
      rule: the name of the rule, such as "krum".
      models: [N, ...], an array or a tree of arrays of floats: a row is the model of a client.
      hears: [N, N]. Bools: [i, j] says whether client i receives from client j. All models that i has, its own
        included, have equal weights. Floats: a mixing matrix, as `mdfl_jax.mixing_weights` makes; i receives from j
        where the weight is not zero. None: one receiver, which has the first model and receives all others.
      loss: (models [N, ...]) -> [N], the loss of each model on the samples of the client of its row, for rules that
        judge models.
      progress: the share of the run's rounds that are over, for rules that change with it.
      **numbers: the hyperparameters of the rule, by name. A rule with a memory begins anew in each call.

    Returns:
      The combined models of all clients [N, ...], or that of the one receiver [...].

    Raises:
      UserError: for an unknown rule or hyperparameter, an array of another shape, too few models for the rule, or a
        rule that judges models without ``loss``.

    >>> aggregate("median", jnp.array([[1.0, 2.0], [3.0, 4.0], [50.0, -9.0]])).tolist()
    [3.0, 2.0]
    """
    models = jax.tree.map(jnp.asarray, models)
    traits, made = AGGREGATIONS.traits(rule), checked(rule, AGGREGATIONS.numbers(rule), numbers, "algorithm.")
    size = _num_models(models)
    if not any(isinstance(value, jax.core.Tracer) for value in numbers.values()):
        made.check(Setting(rule, size))
    if traits.judges and loss is None:
        raise UserError(f"loss is not given; {rule} judges models by their losses")
    no_gradient = lambda *_: (jnp.zeros(size), models)  # noqa: E731  no rule takes one
    context = RoundContext(jax.random.key(0), no_gradient, progress, loss)
    whole = ~jnp.eye(size, dtype=bool) if hears is None else jnp.asarray(hears)
    links = _links(whole, size)
    own = models
    if hears is None and not (traits.judges or traits.memory):  # only the first row is computed
        own = jax.tree.map(lambda x: x[:1], models)
        places = jnp.arange(size, dtype=jnp.int32)[None]
        links = Links(links.adjacency[:1], links.mix[:1], Senders(places, jnp.zeros_like(places), jnp.int32(size)))
    found = aggregate_heard(rule, Heard(links, own, models, made.typed(), context=context)).models
    return jax.tree.map(lambda x: x[0], found) if hears is None else found


def _num_models(models: Any) -> int:
    """Return the number of rows of stacked models; check that all leaves have as many rows and are floats."""
    rows = {leaf.shape[:1] for leaf in jax.tree.leaves(models)}
    if len(rows) != 1 or rows == {()}:
        raise UserError(f"models has leaves of {sorted(map(list, rows))} rows; all must have one row for each client")
    for leaf in jax.tree.leaves(models):
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise UserError(f"models has a leaf of {leaf.dtype} {list(leaf.shape)}; allowed: floats")
    return int(next(iter(rows))[0])


def _links(hears: jax.Array, size: int) -> Links:
    """Return the links of a matrix of who receives from whom, or of a mixing matrix."""
    if hears.shape != (size, size):
        raise UserError(f"hears is {list(hears.shape)}; it must be [{size}, {size}], as there are {size} models")
    own = jnp.eye(size, dtype=bool)
    if hears.dtype == bool:
        closed = (hears | own).astype(jnp.float32)
        return Links(hears & ~own, closed / jnp.sum(closed, axis=1, keepdims=True), ALL_PAIRS)
    if not isinstance(hears, jax.core.Tracer) and not np.allclose(np.sum(hears, axis=1), 1, rtol=0, atol=_TOLERANCE):
        row = int(np.argmax(np.abs(np.sum(hears, axis=1) - 1)))
        raise UserError(f"the weights of client {row} in hears sum to {np.sum(hears[row]):g}; rows must sum to 1")
    return Links((hears != 0) & ~own, hears, ALL_PAIRS)
