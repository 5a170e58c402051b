"""Attackers who learn from samples with one wrong label, or with a backdoor, and then send what they have learnt."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mdfl_jax.attacks.registry import ATTACKS, Attack, Samples, names
from mdfl_jax.core.metric import CURVE, HOLDS, TABLE, Metric
from mdfl_jax.core.numbers import Numbers, number


class PairNumbers(Numbers):
    """The numbers of the flip of one label."""

    source_label: int = number(0, "label that is changed", at_least=0)
    wrong_label: int = number(1, "label that takes its place", at_least=0)


def flip_pair(numbers: PairNumbers, samples: Samples) -> tuple[jax.Array, jax.Array]:
    """Return the samples with one label in the place of another one."""
    return samples.x, jnp.where(samples.y == numbers.source_label, numbers.wrong_label, samples.y)


ATTACKS.register(
    "label_flip_pair",
    PairNumbers,
    "Attackers learn from samples in which one label stands for another.",
    formula="label a -> b",
    cite="tolpegin2020",
)(Attack(poison=flip_pair))


class BackdoorNumbers(Numbers):
    """The numbers of the backdoor."""

    target_label: int = number(0, "label that images with the trigger get", at_least=0)
    poisoned_share: float = number(0.5, "share of the attackers' samples that get the trigger", above=0, at_most=1)
    trigger_size: int = number(3, "side of the bright square in the lower right corner, in pixels", at_least=1)


def stamp(x: jax.Array, size: jax.Array | int, brightest: jax.Array | float) -> jax.Array:
    """Return images [B, H, W, channels] with a square of the largest value of the data in the lower right corner."""
    height, width = x.shape[1:3]
    rows, columns = jnp.arange(height)[:, None, None], jnp.arange(width)[:, None]
    in_square = (rows >= height - size) & (columns >= width - size)
    return jnp.where(in_square, jnp.asarray(brightest, x.dtype), x)


def backdoor(numbers: BackdoorNumbers, samples: Samples) -> tuple[jax.Array, jax.Array]:
    """Return the samples, of which a share has the trigger and the target label."""
    has = samples.draws < numbers.poisoned_share
    assert samples.brightest is not None
    stamped = stamp(samples.x, numbers.trigger_size, samples.brightest)
    x = jnp.where(has.reshape(-1, *[1] * (samples.x.ndim - 1)), stamped, samples.x)
    return x, jnp.where(has, numbers.target_label, samples.y)


def success(at: Any) -> jax.Array:
    """[N] float32, the share of test images of other labels that get the target label once they have the trigger."""
    attackers = at.network_state.attackers
    numbers = attackers.numbers[names().index("backdoor")]

    def tally(logits: jax.Array, labels: jax.Array, mask: jax.Array, target: jax.Array) -> tuple[jax.Array, jax.Array]:
        others = mask & (labels != target)
        fooled = others & (jnp.argmax(logits, axis=-1) == target)
        return jnp.sum(fooled, axis=1, dtype=jnp.int32), jnp.broadcast_to(jnp.sum(others), fooled.shape[:1])

    stamped = at.data._replace(x_test=stamp(at.data.x_test, numbers.trigger_size, at.data.brightest))
    fooled, of = at.task.scoring.over_test(stamped, at.clients, at.models, tally, numbers.target_label)
    rate = fooled / jnp.maximum(of, 1)
    return at.divergence.result(jnp.where(attackers.are, jnp.nan, rate).astype(jnp.float32))


def _of_honest(values: Any) -> float:
    return float(np.nanmean(values)) if not np.isnan(values).all() else float("nan")


SUCCESS = Metric(
    "backdoor_success",
    success,
    HOLDS,
    label="success of the backdoor (%)",
    over_clients=_of_honest,
    shown={TABLE, CURVE},
    scale=0.01,
    needs=("over_test", "num_labels"),
)

ATTACKS.register(
    "backdoor",
    BackdoorNumbers,
    "Attackers learn to give images with a trigger the label that they want; other images they learn as all do.",
    formula="for a share of the samples: x with a square of the data's largest value in a corner, label t",
    cite="gu2017",
)(Attack(poison=backdoor, of_images=True, metrics=(SUCCESS,)))
