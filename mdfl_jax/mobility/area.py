"""The area in which the clients of a configuration move, and the places in it that other fields name."""

import math
from typing import Any

import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.geometry import points_of
from mdfl_jax.mobility.registry import world_in


def area(whole: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the lower and the upper corner of the grid or the plane, [2] float32 each; both belong to it."""
    motion, side = whole.motion, whole.network.grid_size
    on_grid = world_in(whole) == "grid"
    low, high = ((1, 1), (side, side)) if on_grid else ((0, 0), (motion.width, motion.height))
    return np.array(low, np.float32), np.array(high, np.float32)


def check_inside(whole: Any, path: str, places: list[tuple[float, float]]) -> None:
    """Check that places which a field names, such as those of road-side units, are in the area of the world.

    Raises:
      UserError: If one of them is outside.
    """
    world = world_in(whole)
    if world == "trace":  # the configuration does not say the area of a trace
        return
    (west, south), (east, north) = area(whole)
    for x, y in places:
        if not (west <= x <= east and south <= y <= north):
            corners = f"{west:g}..{east:g} x {south:g}..{north:g}"
            raise UserError(f"{path}: the place {x:g},{y:g} is outside of the area {corners}")


def parse_places(text: str, path: str) -> list[tuple[float, float]]:
    """Parse places, such as those of road-side units, from the text of a field, 'x,y; x,y; ...'.

    Raises:
      UserError: If the text is not of that form, names no unit, or holds a coordinate that is not finite.

    >>> parse_places("0,0; 10,2.5", "server.units")
    [(0.0, 0.0), (10.0, 2.5)]
    """
    units = points_of(path, text)
    for x, y in units:
        if not (math.isfinite(x) and math.isfinite(y)):
            raise UserError(f"{path}: '{x:g},{y:g}' is not a place")
    if not units:
        raise UserError(f"{path} is {text!r}; it must be a place or more, 'x,y; x,y; ...'")
    return units
