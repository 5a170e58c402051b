"""What the fields of network and motion must be together, for the mobility rule in use."""

import math
from typing import TYPE_CHECKING

from mdfl_jax.errors import UserError
from mdfl_jax.mobility.plane import MAX_EVENTS
from mdfl_jax.mobility.random_walk import MAX_BOUNCES
from mdfl_jax.mobility.registry import MOBILITIES

if TYPE_CHECKING:
    from mdfl_jax.experiments.sections import MotionConfig, NetworkConfig

DRAW_SPEEDS = ("random_waypoint", "random_direction", "levy_walk", "manhattan", "group", "patrol")


def parse_loop(text: str) -> list[tuple[float, float]]:
    """The waypoints of 'x,y; x,y; ...'.

    Raises:
      UserError: for a text that is not of that form, or fewer than two different waypoints.

    >>> parse_loop("0,0; 10,2.5")
    [(0.0, 0.0), (10.0, 2.5)]
    """
    points = []
    for part in filter(None, (part.strip() for part in text.split(";"))):
        try:
            x, y = (float(number) for number in part.split(","))
        except ValueError:
            raise UserError(f"motion.loop: {part!r} is not of the form x,y") from None
        points.append((x, y))
    if len(set(points)) < 2:
        raise UserError(f"motion.loop is {text!r}; it must hold two different waypoints or more, 'x,y; x,y; ...'")
    return points


def _ordered(motion: "MotionConfig", low: str, high: str) -> None:
    if getattr(motion, low) > getattr(motion, high):
        raise UserError(
            f"motion.{low} is {getattr(motion, low)}; it must be at most motion.{high}, which is "
            f"{getattr(motion, high)}"
        )


def _inside(motion: "MotionConfig") -> None:
    for x, y in parse_loop(motion.loop):
        if not (0 <= x <= motion.width and 0 <= y <= motion.height):  # NaN is in no interval
            raise UserError(
                f"motion.loop: the waypoint {x:g},{y:g} is outside of the {motion.width:g} x {motion.height:g} metres"
            )


def check_world(network: "NetworkConfig", motion: "MotionConfig") -> None:
    """Checks what one field alone cannot tell; of the models' fields only those of the rule in use.

    Raises:
      UserError: naming the fields and their values.
    """
    rule = network.mobility
    if MOBILITIES[rule]().world != "plane":
        return
    if rule == "random_walk":
        _check_random_walk(network, motion)
    if rule in DRAW_SPEEDS:
        _ordered(motion, "speed_min", "speed_max")
        _ordered(motion, "pause_min", "pause_max")
        if motion.speed_min == 0:
            raise UserError(f"motion.speed_min is 0.0; {rule} needs it greater than 0, or legs of speed 0 never end")
    if rule == "levy_walk":
        _ordered(motion, "flight_min", "flight_max")
        if motion.pause_max > 0 and motion.pause_min == 0:
            raise UserError("motion.pause_min is 0.0; with pauses, levy_walk needs it greater than 0")
    if rule == "manhattan":
        _check_streets(motion)
    if rule == "patrol":
        _inside(motion)


def _check_random_walk(network: "NetworkConfig", motion: "MotionConfig") -> None:
    directions = {name: getattr(motion, name) for name in ("up", "down", "left", "right")}
    total = sum(directions.values())
    if abs(total - 1) > 1e-6:
        each = ", ".join(f"{name} {value:g}" for name, value in directions.items())
        raise UserError(f"motion.up, down, left and right sum to {total:g} ({each}); probabilities must sum to 1")
    fastest = max(motion.speed_max, 2 * motion.beta * motion.speed_max if network.num_mobile else 0.0)
    walls = math.ceil(fastest * motion.dt / min(motion.width, motion.height))
    if walls > MAX_BOUNCES:
        raise UserError(
            f"motion.speed_max is {motion.speed_max:g}; the fastest client would meet {walls} walls a round, "
            f"and it must be at most {MAX_BOUNCES}"
        )


def _check_streets(motion: "MotionConfig") -> None:
    if motion.block > min(motion.width, motion.height):
        raise UserError(
            f"motion.block is {motion.block:g}; it must be at most motion.width and motion.height, "
            f"which are {motion.width:g} and {motion.height:g}"
        )
    crossings = math.ceil(motion.speed_max * motion.dt / motion.block)
    if crossings >= MAX_EVENTS:
        raise UserError(
            f"motion.speed_max is {motion.speed_max:g}; the fastest client would pass {crossings} crossings a round, "
            f"and it must be at most {MAX_EVENTS - 1}"
        )
