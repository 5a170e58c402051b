"""What the fields of server and the search intervals must be together, and what is allowed but worth a line."""

import math
from typing import TYPE_CHECKING

from mdfl_jax.errors import UserError
from mdfl_jax.mobility.registry import MOBILITIES

if TYPE_CHECKING:
    from mdfl_jax.experiments.sections import AlgorithmConfig, Experiment

ON_TRACES = ("trace", "static_trace")


def parse_units(text: str) -> list[tuple[float, float]]:
    """The places of the road-side units of 'x,y; x,y; ...'.

    Raises:
      UserError: for a text that is not of that form, or without a unit.

    >>> parse_units("0,0; 10,2.5")
    [(0.0, 0.0), (10.0, 2.5)]
    """
    units = []
    for part in filter(None, (part.strip() for part in text.split(";"))):
        try:
            x, y = (float(number) for number in part.split(","))
        except ValueError:
            raise UserError(f"server.units: {part!r} is not of the form x,y") from None
        if not (math.isfinite(x) and math.isfinite(y)):
            raise UserError(f"server.units: {part!r} is not a place")
        units.append((x, y))
    if not units:
        raise UserError(f"server.units is {text!r}; server.pattern roadside needs a unit or more, 'x,y; x,y; ...'")
    return units


def _check_search(algorithm: "AlgorithmConfig") -> None:
    for low, high in (("upload_from", "upload_until"), ("download_from", "download_until")):
        begin, end = getattr(algorithm, low), getattr(algorithm, high)
        if begin > end:
            raise UserError(f"algorithm.{low} is {begin}; it must be at most algorithm.{high}, which is {end}")


def _check_units(experiment: "Experiment") -> None:
    rule = experiment.network.mobility
    world = MOBILITIES[rule]().world
    if world == "contacts":
        raise UserError("server.pattern is roadside; network.mobility contacts knows no places")
    units = parse_units(experiment.server.units)
    if rule in ON_TRACES:  # a trace has the area that it has
        return
    motion, size = experiment.motion, experiment.network.grid_size
    first, width, height = (1.0, size, size) if world == "grid" else (0.0, motion.width, motion.height)
    for x, y in units:
        if not (first <= x <= width and first <= y <= height):
            area = f"{first:g}..{width:g} x {first:g}..{height:g}"
            raise UserError(f"server.units: the unit {x:g},{y:g} is outside of the area {area}")


def check_server(experiment: "Experiment") -> None:
    """Checks what one field alone cannot tell.

    Raises:
      UserError: naming the fields and their values.
    """
    server = experiment.server
    _check_search(experiment.algorithm)
    if server.pattern and experiment.network.graph:
        raise UserError(
            f"server.pattern is {server.pattern}; network.graph is {experiment.network.graph!r}, and it must be empty"
        )
    if server.units and server.pattern != "roadside":
        raise UserError(f"server.units is {server.units!r}; server.pattern must be roadside, not {server.pattern!r}")
    if server.file and server.pattern != "table":
        raise UserError(f"server.file is {server.file!r}; server.pattern is {server.pattern!r}, and it must be 'table'")
    if server.pattern == "random" and server.gap_min > server.gap_max:
        raise UserError(
            f"server.gap_min is {server.gap_min}; it must be at most server.gap_max, which is {server.gap_max}"
        )
    if server.pattern == "table" and not server.file:
        raise UserError("server.file is ''; server.pattern table needs a file of lines client,slot")
    if server.pattern == "roadside":
        _check_units(experiment)
    elif server.pattern and (experiment.network.link_failure > 0 or experiment.network.link_fading > 0):
        raise UserError(
            f"network.link_failure and link_fading must be 0 under server.pattern {server.pattern}: pairs are drawn"
        )


def largest_gap(experiment: "Experiment") -> int | None:
    """The longest gap between two meetings that the pattern allows; None where only a run tells."""
    server = experiment.server
    return {"fixed": server.interval, "random": server.gap_max, "exponential": server.gap_limit}.get(server.pattern)


def notes(experiment: "Experiment") -> list[str]:
    """Lines about what is allowed and may not be meant: search intervals beyond the longest gap."""
    algorithm, gap = experiment.algorithm, largest_gap(experiment)
    if gap is None or algorithm.name not in RELAYING:
        return []
    return [
        f"algorithm.{name} is {getattr(algorithm, name)}, more than the longest gap between meetings, which is {gap}"
        for name in ("upload_until", "download_until")
        if getattr(algorithm, name) > gap
    ]


RELAYING = ("fedmobile", "fedmobile_u", "fedmobile_d", "fedmobile_local")
