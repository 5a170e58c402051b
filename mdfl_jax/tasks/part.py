"""A part of the test samples: how it is drawn, and the scores of models on it with what their error is made from.

The part is drawn systematically from the list of all test samples, in which those of one label follow each other in
random order. So each test sample is in the part with the same probability, and the number of samples of each label is
its proportional share, rounded up or down. A plain mean over the part is then an estimate without bias.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.core.types import ClientParams, Score
from mdfl_jax.tasks.evaluation import Evaluator, masked_sum, over_models
from mdfl_jax.tasks.losses import Loss

GROUPS = 20  # parts of the part; the error is estimated from the scores without each of them (jackknife)


class Part(NamedTuple):
    """How a task evaluates models on a part of its test samples (`mdfl_jax.core.types.Task`).

    Attributes:
      num_samples: the number of all test samples, T.
      evaluate: (data, clients, client_params [M, ...], key, count) -> (the `Score` of M models on ``count`` test
        samples that the key draws, [`GROUPS`, M] their accuracies on these samples without each group of them).
    """

    num_samples: int
    evaluate: Callable[[Any, Any, ClientParams, jax.Array, int], tuple[Score, jax.Array]]


def draw_part(key: jax.Array, stratum: jax.Array, count: int) -> jax.Array:
    """Draw some of the test samples, in proportion to the labels.

    Args:
      key: the key of the draw.
      stratum: [T] the label of each test sample; all equal where samples have no label.
      count: the samples to draw, M, at most T.

    Returns:
      [M] int32, different indices of test samples, in the order of their labels.
    """
    total = stratum.shape[0]
    key_order, key_start = jax.random.split(key)
    order = jax.random.permutation(key_order, total)
    order = order[jnp.argsort(stratum[order], stable=True)]
    start = jax.random.randint(key_start, (), 0, total)
    # Place (i T + start) // M of the list. The product may be beyond 32 bits, so its two parts are computed here.
    whole, rest = np.divmod(np.arange(count, dtype=np.int64) * total, count)
    places = jnp.asarray(whole, jnp.int32) + (jnp.asarray(rest, jnp.int32) + start) // count
    return order[places].astype(jnp.int32)


def score_of_part(
    evaluator: Evaluator, loss: Loss, numbers: Any, data: Any, client_params: ClientParams, sample: jax.Array
) -> tuple[Score, jax.Array]:
    """Compute the scores of M models on a part of the test samples, as a whole and without each group of it.

    Sample k of the part is in group k modulo `GROUPS`. Since the part is in the order of the labels, all groups have
    nearly the same labels.

    Args:
      evaluator, loss, numbers, data, client_params: as for `mdfl_jax.tasks.evaluation.score_of`.
      sample: [m] the indices of the part, from `draw_part`.

    Returns:
      (the accuracies and mean losses on the part, [M] each; [`GROUPS`, M] the accuracies without each group).
    """
    part = data._replace(x_test=data.x_test[sample], y_test=data.y_test[sample])
    group = jnp.arange(sample.shape[0]) % GROUPS
    groups = jnp.arange(GROUPS)

    def tally(y_test: jax.Array, outputs: jax.Array, place: jax.Array, mask: jax.Array) -> tuple[Any, jax.Array]:
        targets, mine = y_test[place], (group[place] == groups[:, None]) & mask  # [GROUPS, B]
        marks = loss.marks(outputs, targets)
        of_groups = jax.tree.map(lambda mark: jax.vmap(lambda of: masked_sum(mark, of[None]), 0, 1)(mine), marks)
        return of_groups, jnp.sum(jnp.where(mask, loss.losses(numbers, outputs, targets), 0.0), axis=1)

    by_group, losses = over_models(evaluator, part, client_params, tally, grouped=True)  # [M, GROUPS, ...], [M]
    total = jax.tree.map(lambda sums: jnp.sum(sums, axis=1), by_group)
    accuracy = loss.accuracy(total, part.y_test, None)

    def without(g: jax.Array) -> jax.Array:
        rest = jax.tree.map(lambda whole, sums: whole - sums[:, g], total, by_group)
        return loss.accuracy(rest, part.y_test, group != g)

    return Score(accuracy, losses / sample.shape[0]), jax.vmap(without)(groups)
