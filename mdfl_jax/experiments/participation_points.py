"""What a study says of participation and period where the algorithm does not pick neighbours itself."""

from mdfl_jax.algorithms import ALGORITHMS
from mdfl_jax.algorithms.local import Settings
from mdfl_jax.algorithms.registry import numbers_of
from mdfl_jax.experiments.sections import AlgorithmConfig


def participation_of(config: AlgorithmConfig) -> tuple[float, int]:
    """The share of the neighbours that are picked, and the period in rounds: the middle of the two bounds.

    Where the configuration says 0 they are the algorithm's own, 1 as a rule.
    """
    own = numbers_of(config.name)
    low, high = config.period_min or own.period_min, config.period_max or own.period_max
    return config.participation or own.participation, (low + high) // 2


def is_thinned(config: AlgorithmConfig) -> bool:
    """Whether the network must be thinned for the algorithm: it does not participate itself, and not all takes part."""
    participation, period = participation_of(config)
    return (participation < 1 or period > 1) and not ALGORITHMS[config.name](Settings()).participates
