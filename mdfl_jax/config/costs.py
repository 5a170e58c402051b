"""The section `cost` of a configuration, and its checks. With the defaults everything is free and not counted."""

import dataclasses
import math
import re
from pathlib import Path
from typing import Any

import numpy as np

from mdfl_jax.config.families import world_in
from mdfl_jax.config.sections import COUNTED_AXES, CostConfig, Experiment
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.numbers import single
from mdfl_jax.networks.costs.filters import IGNORE


def is_counted(experiment: Experiment) -> bool:
    """Whether a study counts seconds and joules: a field of `cost` is set, or the sweep varies one."""
    fields = dataclasses.fields(CostConfig)
    return _varies(experiment) or any(getattr(experiment.cost, each.name) != each.default for each in fields)


def _varies(experiment: Experiment) -> bool:
    return re.search(r"(^|[;+\s])cost\.", experiment.sweep) is not None


def has_deadline(experiment: Experiment) -> bool:
    """Whether slow clients are left out of the rounds."""
    return math.isfinite(experiment.cost.deadline)


def is_filtered(experiment: Experiment) -> bool:
    """Whether a link filter (`mdfl_jax.networks.costs.filters`) removes links."""
    return has_deadline(experiment) or experiment.cost.short_contact != IGNORE


def of_program(experiment: Experiment) -> dict[str, Any]:
    """Return values by path for the key of a point's compiled program, in place of the traced numbers of its costs.

    A program that counts costs, has a deadline or has given speeds differs from one that does not.
    """
    cost = experiment.cost
    marks: dict[str, Any] = {"cost.latency": 0.5} if is_counted(experiment) else {}
    marks |= {"cost.deadline": 0.5} if has_deadline(experiment) else {}
    return marks | ({"cost.speeds": "given"} if cost.speeds else {})


def read_speeds(file: str, num_clients: int) -> np.ndarray:
    """Read the relative speeds of the clients from a text file of N numbers.

    Returns:
      [N] float32 speeds.

    Raises:
      UserError: If the file cannot be read, or does not hold N finite numbers above 0.
    """
    given = f"cost.speeds {file!r}"
    try:
        words = Path(file).read_text().replace(",", " ").split()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{given} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    speeds = []
    for word in words:
        try:
            speeds.append(float(word))
        except ValueError:
            raise UserError(f"{given}: {word!r} is not a number") from None
        if not 0 < single(speeds[-1]) < math.inf:
            raise UserError(f"{given}: {word} is no speed; it must be greater than 0 and finite")
    if len(speeds) != num_clients:
        raise UserError(f"{given} holds {len(speeds)} numbers; network.num_clients is {num_clients}")
    return np.array(speeds, np.float32)


def check_cost(experiment: Experiment) -> None:
    """Check that the costs fit each other, the network and the x axis.

    Raises:
      UserError: If they do not. The message names the fields and their values.
    """
    cost, network, pattern = experiment.cost, experiment.network, experiment.server.pattern
    if experiment.x_axis in COUNTED_AXES and not is_counted(experiment):
        raise UserError(f"x_axis is {experiment.x_axis}, which needs a field of cost that is set, and none is")
    if cost.short_contact != IGNORE:
        where = f"network.graph {network.graph}" if network.graph else ""
        where = f"server.pattern {pattern}" if pattern else where
        if not where and world_in(experiment) == "contacts":
            where = f"network.mobility {network.mobility}"
        if where:
            raise UserError(
                f"cost.short_contact is {cost.short_contact}; with {where} it must be {IGNORE}: the durations of "
                "contacts are not known"
            )
    if pattern and has_deadline(experiment):
        raise UserError(f"cost.deadline is {cost.deadline:g}; with server.pattern {pattern} it must be inf")
    if pattern and cost.joules_per_bit_received > 0:
        raise UserError(
            f"cost.joules_per_bit_received is {cost.joules_per_bit_received:g}; with server.pattern {pattern} it must "
            "be 0: bits are not counted by receiver"
        )
    if cost.speeds:
        if cost.speed_spread > 0:
            raise UserError(f"cost.speed_spread is {cost.speed_spread:g}; it must be 0 where cost.speeds names a file")
        read_speeds(cost.speeds, network.num_clients)


def notes(experiment: Experiment) -> list[str]:
    """Return warnings about costs that are allowed but have no effect, one line for each.

    There are none where the sweep varies costs, since one of its points may well be free.
    """
    cost, found = experiment.cost, []
    if _varies(experiment):
        return []
    if not cost.seconds_per_sample:
        for name, is_set in (
            ("deadline", has_deadline(experiment)),
            ("speed_spread", cost.speed_spread > 0),
            ("speeds", bool(cost.speeds)),
        ):
            if is_set:
                found.append(f"cost.{name} is {getattr(cost, name)}; it has no effect: cost.seconds_per_sample is 0")
    if cost.short_contact != IGNORE and math.isinf(cost.bandwidth) and not cost.latency:
        found.append(f"cost.short_contact is {cost.short_contact}; it has no effect: messages take no time")
    return found
