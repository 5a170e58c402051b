"""Which runs of a sweep point have diverged, by their lines of metrics.jsonl."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from mdfl_jax.core.outcomes import number
from mdfl_jax.metrics.builtin import DIVERGENCE


def diverged(by_seed: Mapping[int, Sequence[Mapping[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Return the entries of a sweep point in summary.json about its runs that have diverged.

    Args:
      by_seed: the lines of each seed, in the order of the evaluations.

    Returns:
      'diverged': the evaluated round that saw it, by seed; 'divergence': the 'round' in which the run diverged and its
      'norm' then.
    """
    in_round, norm = DIVERGENCE
    told = lambda line: not math.isnan(number(line.get(in_round)))  # noqa: E731
    lost = {str(seed): line for seed, lines in by_seed.items() if (line := next(filter(told, lines), None))}
    return {
        "diverged": {seed: line["round"] for seed, line in lost.items()},
        "divergence": {seed: {"round": int(line[in_round]), "norm": number(line[norm])} for seed, line in lost.items()},
    }
