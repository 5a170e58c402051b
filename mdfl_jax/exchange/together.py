"""What an algorithm does with all clients together, and may be done by several devices: draws, choices, steps.

Algorithms take these from here and know nothing of a mesh. On one device each is the plain operation; over a mesh each
keeps the devices in step (`mdfl_jax.sharding`) and leaves the rows that only fill up a device out of every draw
(`mdfl_jax.padding`).
"""

from collections.abc import Callable
from typing import Any

import jax

from mdfl_jax import padding, sharding
from mdfl_jax.types import Links


def draw_pairs(draw: Callable[[jax.Array], jax.Array], links: Links) -> jax.Array:
    """A draw over the pairs of clients that hear each other, the same on every device.

    Args:
      draw: (adjacency [N, N] bool) -> [N, N] bool, what is drawn of it.
      links: of the round.

    Returns:
      [rows, rows] bool; False where a row or a column is no client.
    """
    return padding.among_clients(draw, links)


def select(condition: jax.Array, yes: Callable[..., Any], no: Callable[..., Any], *args: Any) -> Any:
    """``yes(*args)`` where a condition holds, else ``no(*args)``; only one of them is computed, but over a mesh both.

    Args:
      condition: [] bool.
      yes, no: functions with results of one structure.
      *args: what they are given.
    """
    return sharding.choose(condition, yes, no, *args)


def take_steps(step: Callable[[Any, jax.Array], tuple[Any, Any]], start: Any, num_steps: int) -> tuple[Any, Any]:
    """``step(carry, index)`` so many times.

    Args:
      step: (carry, [] int32) -> (carry, output).
      start: the first carry.
      num_steps: how many, at least one.

    Returns:
      (the last carry, the first step's output).
    """
    return sharding.repeat(step, start, num_steps)


def on_each_device(function: Callable[..., Any], *args: Any) -> Any:
    """``function(*args)`` of small arrays, computed by every device for itself."""
    return sharding.everywhere(function, *args)
