"""Chooses the form of a study's links, matrices or neighbour lists, and the length of the lists."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax

from mdfl_jax.config.checks import wants_lists
from mdfl_jax.config.sections import Experiment
from mdfl_jax.config.vary import keys_of
from mdfl_jax.core import devices, stages
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.types import Hparams
from mdfl_jax.engine.simulation import Simulation

ONE = 1  # neighbours that a list holds where neighbours are only counted


def rounded(neighbours: int) -> int:
    """Round a number of neighbours up, with their client, to 2^k or 3 * 2^(k - 1) places, at least 8.

    Few programs then serve many seeds, and a study to which seeds are added mostly keeps its program.

    >>> [rounded(n) + 1 for n in (1, 7, 8, 12, 16, 30, 40)]
    [8, 8, 12, 16, 24, 32, 48]
    """
    power = max(neighbours.bit_length(), 3)
    return (3 * 2 ** (power - 2) if 8 <= neighbours < 3 * 2 ** (power - 2) else 2**power) - 1


def expected(experiment: Experiment) -> int:
    """Estimate the neighbours that lists must hold from the density, where the movement cannot be computed."""
    network, motion = experiment.network, experiment.motion
    of_grid = network.grid_size**2 if not motion.width else motion.width * motion.height
    mean = 2.5 * network.num_clients * math.pi * network.radius**2 / of_grid
    return min(math.ceil(mean + 6 * math.sqrt(mean) + 8), network.num_clients - 1)


def with_links(
    make: Callable[[int], Simulation],
    members: Sequence[Experiment],
    hparams_of: Callable[[Simulation], Sequence[Hparams]],
    seeds: Sequence[int],
) -> Simulation:
    """Build a simulation whose links have the form that the configuration wants.

    The movement, which does not depend on the models, is computed ahead, and the neighbours in all rounds of all runs
    are counted. Lists whose length is not given are made long enough for them.

    Args:
      make: (neighbours that a list can hold, or 0 for matrices) -> Simulation.
      members: The configurations of the group's points.
      hparams_of: (Simulation) -> the traced numbers of the group's points.
      seeds: The seeds of each point.

    Raises:
      UserError: If lists are asked for and cannot be made, or are given a length that is too short.
    """
    experiment = members[0]
    engine, most = experiment.engine, experiment.network.num_clients - 1
    if not wants_lists(experiment):
        return make(0)
    counting = make(ONE)
    if not counting.counts_places:
        return counting  # a graph, or pairs: the number of neighbours is known
    if not devices.current().is_here:
        return make(min(engine.max_neighbours or rounded(expected(experiment)), most))
    count: Any = jax.jit(counting.places_needed)
    with stages.stage("counting neighbours"):
        each = zip(hparams_of(counting), members, strict=True)
        runs = [(numbers, key) for numbers, member in each for key in keys_of(member, seeds)]
        needed = max(int(count(counting.data, numbers, key)) for numbers, key in runs)
    if engine.max_neighbours:
        check_lists(needed, engine.max_neighbours + 1)
    bound = engine.max_neighbours or rounded(needed - 1)
    if engine.links == "auto" and 4 * bound > experiment.network.num_clients:
        return make(0)
    return make(min(bound, most))


def check_lists(list_places: int, bound: int) -> None:
    """Check that the neighbour lists of a run have held all neighbours.

    Raises:
      UserError: If they have not.
    """
    if list_places > bound:
        least = list_places - 1
        raise UserError(f"engine.max_neighbours is {bound - 1}; a client has {least} neighbours, so {least} are needed")
