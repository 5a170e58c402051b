"""What the fields of the algorithm must be together, for the algorithm in use."""

from typing import TYPE_CHECKING, Any

from mdfl_jax.algorithms.registry import ignored_by, numbers_of
from mdfl_jax.errors import UserError

if TYPE_CHECKING:
    from mdfl_jax.experiments.sections import AlgorithmConfig, Experiment

RESNETS = ("resnet9", "resnet18", "resnet20", "resnet50")
UNSET = {"compressor": "", "local_steps": 1, "momentum": 0.0, "optimizer": "sgd", "statistics": "mixed"}
WHY = {
    "compressor": "sends nothing compressed; it must be empty",
    "local_steps": "takes one gradient step a round; it must be 1",
    "momentum": "has its step in its recursion, which knows no momentum; it must be 0",
    "optimizer": "has its step in its recursion; it must be sgd",
    "statistics": "exchanges whole models; it must be mixed",
}


def check_algorithm(config: "AlgorithmConfig") -> None:
    """Checks what one field alone cannot tell.

    Raises:
      UserError: naming the fields and their values.
    """
    for field in sorted(ignored_by(config.name)):
        value = getattr(config, field)
        if value != UNSET[field]:
            shown = repr(value) if isinstance(value, str) else value
            raise UserError(f"algorithm.{field} is {shown}; {config.name} {WHY[field]}")
    low, high = _number(config, "period_min"), _number(config, "period_max")
    if low > high:
        own = "" if config.period_max else f" ({config.name}'s own)"
        raise UserError(f"algorithm.period_min is {low}; it must be at most algorithm.period_max, which is {high}{own}")


def _number(config: "AlgorithmConfig", name: str) -> Any:
    return getattr(config, name) or getattr(numbers_of(config.name), name)


def notes(experiment: "Experiment") -> list[str]:
    """What is allowed and yet hardly meant, a line each."""
    config = experiment.algorithm
    growth = _number(config, "penalty_growth")
    if config.name == "pame" and growth <= 1:
        return [f"algorithm.penalty_growth is {growth:g}; PaME asks for more than 1, or its steps do not shrink"]
    if config.statistics == "local" and not (experiment.model.name in RESNETS and experiment.model.norm == "batch"):
        return [f"algorithm.statistics is local; {experiment.model.name} has no batch statistics"]
    return []
