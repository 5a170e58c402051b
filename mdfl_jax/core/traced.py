"""What a traced program contains: inner programs, and the inputs that its outputs need."""

from collections.abc import Sequence
from typing import Any

from jax.extend.core import ClosedJaxpr, Jaxpr
from jax.interpreters.partial_eval import dce_jaxpr  # JAX has no other name for it


def live(jaxpr: Jaxpr, outputs: Sequence[bool] | None = None) -> tuple[Jaxpr, list[bool]]:
    """Return a program without the parts that its wanted outputs do not need. Bodies of ``while`` stay whole.

    Args:
      jaxpr: the program.
      outputs: whether each output is wanted; None: all are.

    Returns:
      (the program with the wanted outputs and the inputs that they depend on, whether each input is one of these).
    """
    return dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars) if outputs is None else list(outputs))


def sub_programs(params: dict[str, Any]) -> list[Jaxpr]:
    """Return the programs inside of an equation, such as the body of a loop, from the equation's parameters."""
    found = []
    for value in params.values():
        for item in value if isinstance(value, tuple | list) else (value,):
            if isinstance(item, Jaxpr | ClosedJaxpr):
                found.append(item.jaxpr if isinstance(item, ClosedJaxpr) else item)
    return found
