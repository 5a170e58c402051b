"""Learnt: a small policy that scores places, trained by evolution strategies on the accuracy of the models.

Reasoning: the other strategies are guesses at what makes a visit worth its way. This one is asked of the accuracy
itself: a linear function of eight features of a place, and beside it a layer of four hidden units, whose 48 weights
were changed at random, run after run, and kept where models became better. `benchmarks/policy.py` trains it, on the
digits with seeds 0 to 19, with which strategies are chosen; what it gains there is no judgement. It begins as
``waiting``, which is a linear function of two of the features.

It must know what the features need: the places, samples and labels of static clients, where the others are heading
and, with an oracle, when each of them last met any mobile client.
"""

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbers import number
from mdfl_jax.mobility.choosing import Sight, StrategyNumbers, best
from mdfl_jax.mobility.registry import strategy

FEATURES, HIDDEN = 8, 4
COUNT = FEATURES * (1 + HIDDEN) + 2 * HIDDEN
# As waiting: of the logarithm of the squared ages, and log 0.5 for each round of the way.
START = (0.0, 4.0, 0.0, 4 * float(np.log(0.5)), *[0.0] * (COUNT - 4))
# The best of the policies that training compared with waiting (benchmarks/results/policy.json).
_WEIGHTS = (
    "-0.262 2.694 0.395 -2.566 -0.370 -0.432 0.885 -0.090 "
    "-0.609 0.788 0.138 0.336 0.522 0.200 -0.707 0.120 "
    "-0.300 0.312 0.121 0.189 -0.147 1.356 -0.398 -0.599 "
    "0.704 -0.899 -0.026 0.485 -0.653 0.740 -0.240 0.287 "
    "-0.360 -0.608 -0.054 -0.421 -0.492 -0.771 -0.107 -0.200 "
    "-0.273 -0.669 0.066 0.128 -0.256 -0.777 0.157 -0.487"
)


def read_weights(text: str) -> np.ndarray:
    """Read the weights of a policy, `COUNT` numbers separated by spaces: [COUNT] float32."""
    try:
        weights = np.array([float(word) for word in text.split()], np.float32)
    except ValueError:
        weights = np.array([], np.float32)
    if weights.shape != (COUNT,) or not np.isfinite(weights).all():
        raise UserError(f"motion.weights is {text[:60]!r}; it must hold {COUNT} numbers, separated by spaces")
    return weights


class LearntNumbers(StrategyNumbers):
    """The numbers of ``learnt``."""

    weights: str = number(
        _WEIGHTS,
        f"{COUNT} weights: {FEATURES} of the features, {FEATURES} x {HIDDEN} into hidden units, offsets, out of them",
        read=read_weights,
    )


def features(sight: Sight) -> jax.Array:
    """Return what the policy sees of each candidate, [K, `FEATURES`], each of the order of one."""
    known = sight.known.astype(jnp.float32)
    latest = jnp.where(sight.known, jnp.min(sight.ages, axis=0), 0.0)
    columns = [
        jnp.log1p(sight.near(sight.age)) / 4,
        jnp.log1p(sight.near(jnp.square(sight.age))) / 4,
        jnp.log1p(sight.near(known)),
        sight.travel / 4,
        sight.distance,
        jnp.minimum(sight.rivals, 3.0),
        jnp.log1p(sight.near(sight.samples)) / 4,
        jnp.log1p(sight.near(latest)) / 4,
    ]
    return jnp.stack(columns, axis=1)


def _scores(weights: jax.Array, seen: jax.Array) -> jax.Array:
    """Return the policy's score of each candidate: [`COUNT`] and [K, `FEATURES`] -> [K]."""
    linear, into, offset, out = jnp.split(weights, np.cumsum([FEATURES, FEATURES * HIDDEN, HIDDEN]))
    hidden = jnp.tanh(seen @ into.reshape(FEATURES, HIDDEN) + offset)
    return seen @ linear + hidden @ out


@strategy(
    "learnt",
    LearntNumbers,
    formula="score(L) = u . f(L) + o . tanh(V f(L) + b), with eight features f of a place and 48 weights u, V, b, o",
    cite="salimans2017",
    everywhere=True,
    replans=True,
)
def learnt(key: jax.Array, sight: Sight) -> jax.Array:
    """Learnt: to the place that a small policy scores highest, which was trained on the accuracy of the models."""
    return best(key, _scores(sight.numbers.weights, features(sight)), sight)
