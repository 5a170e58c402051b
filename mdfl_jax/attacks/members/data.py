"""Attackers who learn from changed samples, and then send what they have learnt."""

import jax

from mdfl_jax.attacks.registry import ATTACKS, Attack, Samples
from mdfl_jax.core.numbers import Numbers


def flip(numbers: Numbers, samples: Samples) -> tuple[jax.Array, jax.Array]:
    """Return the samples with the labels in the opposite order."""
    return samples.x, samples.num_classes - 1 - samples.y


ATTACKS.register(
    "label_flip",
    doc="Attackers learn from samples with the labels in the opposite order.",
    formula="label c -> C - 1 - c",
    cite="he2022: label flipping",
)(Attack(poison=flip))
