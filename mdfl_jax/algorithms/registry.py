"""The registry of algorithms: their names, and the classes of their numbers."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from mdfl_jax.algorithms.local import AlgorithmNumbers, CompressedNumbers, LocalNumbers, Settings
from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.core.numbers import Numbers, fields_of, from_values
from mdfl_jax.core.registry import Registry, caller
from mdfl_jax.core.types import Algorithm
from mdfl_jax.exchange.aggregation import AGGREGATIONS
from mdfl_jax.exchange.compressors import COMPRESSORS

Factory = Callable[[Settings], Algorithm]


class AlgorithmTraits(NamedTuple):
    """What an algorithm says of itself; the attributes are arguments of `register`."""

    ignores: frozenset[str] = frozenset()
    keeps_sum: bool = False


ALGORITHMS: Registry[Factory] = Registry(
    "algorithm", LocalNumbers, "mdfl_jax.algorithms", AlgorithmTraits(), contrib=("algorithms", "personal")
)
RECURSION = ("momentum", "optimizer", "local_steps", "statistics")
"""The settings ignored by an algorithm whose recursion contains one gradient step a round."""
IGNORABLE = ("aggregation", "compressor", "sends", *RECURSION)
"""The settings that an algorithm may declare to ignore."""


def register(
    name: str,
    numbers: type[AlgorithmNumbers] = LocalNumbers,
    ignores: Iterable[str] = IGNORABLE,
    *,
    keeps_sum: bool = False,
    formula: str = "",
    cite: str = "",
) -> Callable[[Factory], Factory]:
    """Return a decorator that lists an algorithm in `ALGORITHMS`, with the class of its numbers.

    Args:
      name: the algorithm's name in configs.
      numbers: the class of its numbers, whose defaults are those of its paper.
      ignores: the settings that the algorithm does not use, of aggregation, compressor, local_steps, momentum,
        optimizer, sends and statistics (local batch statistics); by default all. A config that sets one of them is
        refused. An algorithm that calls `Settings.aggregate` uses aggregation and sends; one that calls `Settings.sent`
        uses sends.
      keeps_sum: whether the sum of the clients' states must not change, as that of push-sum weights, or must follow the
        gradients. Newcomers that begin anew are then refused, and so are rules that do not keep the mean.
      formula, cite: as in `mdfl_jax.core.registry.Member`.

    Raises:
      UserError: if ``numbers`` is no subclass of `AlgorithmNumbers`, if ``ignores`` names no setting, or if the name is
        taken.
    """
    if not issubclass(numbers, AlgorithmNumbers):
        raise UserError(f"algorithm {name!r}: {numbers.__name__} must be a subclass of AlgorithmNumbers")
    ignored = frozenset(ignores)
    if unknown := sorted(ignored.difference(IGNORABLE)):
        raise UserError(f"algorithm {name!r}: ignores: {unknown_name('setting', unknown[0], IGNORABLE)}")
    traits = AlgorithmTraits(ignored, keeps_sum)
    return ALGORITHMS.register(name, numbers, origin=caller(), formula=formula, cite=cite, traits=traits)


def ignored_by(name: str) -> frozenset[str]:
    """Return the settings that an algorithm ignores; the empty set if it was not listed with `register`."""
    return ALGORITHMS.traits(name).ignores


def compressor_in_use(name: str, compressor: str = "") -> str:
    """Return the name of an algorithm's compressor: ``compressor`` if given, else its paper's; "" if it has none."""
    kind = ALGORITHMS.numbers(name)
    return (compressor or kind.own_compressor) if issubclass(kind, CompressedNumbers) else ""


def aggregation_in_use(name: str, aggregation: str) -> str:
    """Return the name of the rule by which an algorithm mixes whole models; "" if it mixes none."""
    return "" if "aggregation" in ignored_by(name) else aggregation


def resolved(name: str, compressor: str, values: dict[str, Any], aggregation: str = "mean") -> Any:
    """Return an algorithm's numbers with those of its compressor and of its aggregation. Other values are ignored."""
    found, used = from_values(ALGORITHMS.numbers(name), values), compressor_in_use(name, compressor)
    if rule := aggregation_in_use(name, aggregation):
        found = found.replace(aggregation=from_values(AGGREGATIONS.numbers(rule), values))
    return found.replace(compressor=from_values(COMPRESSORS.numbers(used), values)) if used else found


def numbers_of(name: str, compressor: str = "", aggregation: str = "mean", **values: Any) -> Any:
    """Return an algorithm's numbers with those of its compressor and of its aggregation, for studies in Python.

    Args:
      name: the name of the algorithm.
      compressor: a name of `COMPRESSORS`; "" uses the algorithm's own, if it has one.
      aggregation: a name of `AGGREGATIONS`.
      **values: numbers of the algorithm, the compressor or the aggregation, by name. A number that is left out or None
        has its default, the paper's value.

    Raises:
      UserError: for an unknown algorithm, compressor, aggregation or number.

    >>> numbers_of("pame", lr=0.5).lr, numbers_of("pame").period_max
    (0.5, 7)
    """
    found = resolved(name, compressor, values, aggregation)
    inside: list[Numbers] = [getattr(found, "compressor", Numbers()), found.aggregation]
    known = [field for numbers in (found, *inside) for field in fields_of(type(numbers))]
    if unknown := [value for value in values if value not in known]:
        raise UserError(unknown_name(f"number of {name}", unknown[0], known))
    return found
