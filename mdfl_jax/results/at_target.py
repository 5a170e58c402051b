"""What a point needed to reach the target accuracy: rounds, bits, and the metrics that are declared for it."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mdfl_jax.core.outcomes import at_first


def _first_round(rounds: np.ndarray, accuracy: np.ndarray, target: float) -> int | None:
    found = at_first(rounds, accuracy, target)
    return None if found is None else int(found)


def to_target(
    rounds: np.ndarray, accuracy: np.ndarray, bits: np.ndarray, shown: Mapping[str, np.ndarray], target: float
) -> dict[str, Any]:
    """Return the entries of summary.json about reaching the target: of the mean over the seeds, and of each seed.

    Args:
      rounds: [E] the evaluated rounds.
      accuracy: [S, E] the accuracy that is judged; NaN at all evaluations of a seed that is left out of the mean.
      bits: [S, E, N] the bits that each client has sent.
      shown: [S, E] by key, each metric that is shown at the target (`mdfl_jax.metrics.TARGET`), as in metrics.jsonl.
      target: the accuracy to reach.

    Returns:
      'rounds_to_target', 'bits_to_target' and 'KEY_to_target' for each metric in ``shown``, and the same with
      '_per_seed'. A value that is not reached is None. Values of clients are means over the clients, as in
      metrics.jsonl.
    """
    known = ~np.isnan(accuracy).all(axis=1)
    counted = known | ~known.any()  # without any, the mean is NaN and reaches nothing
    mean = accuracy[counted].mean(axis=0)
    found: dict[str, Any] = {
        "rounds_to_target": _first_round(rounds, mean, target),
        "rounds_to_target_per_seed": [_first_round(rounds, row, target) for row in accuracy],
        "bits_to_target": at_first(bits[counted].mean(axis=(0, 2)), mean, target),
        "bits_to_target_per_seed": [at_first(b.mean(axis=1), row, target) for b, row in zip(bits, accuracy)],
    }
    for key, numbers in shown.items():
        found[f"{key}_to_target"] = at_first(numbers[counted].mean(axis=0), mean, target)
        found[f"{key}_to_target_per_seed"] = [at_first(row, of_seed, target) for row, of_seed in zip(numbers, accuracy)]
    return found
