"""How many runs a batch has: runs that are on the devices together."""

from mdfl_jax.config.sections import Experiment
from mdfl_jax.core import devices
from mdfl_jax.core.sharding import SEED
from mdfl_jax.engine.placement import in_turns
from mdfl_jax.engine.simulation import Simulation


def evenly(num_runs: int, at_most: int) -> int:
    """Return the number of runs in a batch, such that the batches are of similar size and as few as possible.

    >>> [evenly(9, at_most=8), evenly(16, at_most=8), evenly(3, at_most=8), evenly(0, at_most=8)]
    [5, 8, 3, 1]
    """
    return -(-num_runs // -(-num_runs // at_most)) if num_runs else 1


def part_size(experiment: Experiment, simulation: Simulation, whole: int, num_runs: int, beside: int = 0) -> int:
    """Return the number of runs in a batch of a part of a study, which has only some of the runs of a group.

    Where a device computes its runs one after another, the compiler unrolls a loop of a single run, and then rounds in
    another way. So if a device has several runs of a batch of the whole study, it also has several runs of a part, and
    one if it has one. Where runs are mapped together, the batch stays as it is, and its last run is repeated until it
    is full.

    Args:
      experiment: The configuration of the study.
      simulation: The simulation of the group.
      whole: The number of runs in a batch of the whole study.
      num_runs: The number of runs of the group in the part.
      beside: The number of devices that a process would have which computes the whole study; 0: as many as this one.
    """
    if not in_turns(simulation, experiment.engine.runs_at_once):
        return whole
    here = simulation.mesh.shape[SEED] if simulation.mesh else len(devices.devices())
    if whole > (here if simulation.mesh else beside or here):
        return max(evenly(num_runs, whole), here + 1)
    return min(evenly(num_runs, whole), here)
