"""The runs of a device, in the turns in which it computes them.

A program of one turn is smaller than one that goes through all runs: it neither reads each of its inputs from an array
of all runs nor writes its results to one, and the number of runs is not part of it.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mdfl_jax.engine.steps import Steps


class RunsInTurns(NamedTuple):
    """How the runs of D host devices, R on each, are divided into T turns.

    A turn has leaves [D, ...] where a device computes one run after another, and [D, R / T, ...] where it maps several.

    Attributes:
      steps: the steps of one turn on one device, without the axis D.
      split: arrays [D, R, ...] -> a list of T trees with the arrays of a turn, on their devices.
      join: a list of T trees with the arrays of a turn -> NumPy arrays [D, R, ...].
    """

    steps: Steps
    split: Callable[[Any], list[Any]]
    join: Callable[[list[Any]], Any]


def turns_of(steps: Steps, devices: list[jax.Device], per_device: int, at_once: int) -> RunsInTurns:
    """Divide the runs of each device into turns.

    Args:
      steps: the steps of one run.
      devices: the D devices.
      per_device: R, the runs of a device, a multiple of ``at_once``.
      at_once: the runs that are mapped together.
    """
    lies = NamedSharding(Mesh(np.array(devices), ("device",)), PartitionSpec("device"))
    # A single run of each device is mapped too: without the mapping, its values could differ in their last bits.
    mapped = at_once == per_device or at_once > 1
    parts = [slice(i, i + at_once) if mapped else i for i in range(0, per_device, at_once)]

    def over_runs(step: Any) -> Any:
        return jax.vmap(step) if mapped else step

    def over_data(step: Any) -> Any:
        return lambda data, *of_runs: over_runs(partial(step, data))(*of_runs)

    def split(tree: Any) -> list[Any]:
        return [jax.device_put(jax.tree.map(lambda x: x[:, part], tree), lies) for part in parts]  # noqa: B023

    def join(turns: list[Any]) -> Any:
        return jax.tree.map(whole, *turns)

    def whole(*leaves: jax.Array) -> np.ndarray:
        found = np.empty((len(devices), per_device, *leaves[0].shape[1 + mapped :]), leaves[0].dtype)
        for leaf, part in zip(leaves, parts, strict=True):
            for shard in leaf.addressable_shards:  # `np.asarray` of a leaf of several devices would leave a copy in it
                found[shard.index[0], part] = shard.data
        return found

    of_turn = Steps(
        draw=over_data(steps.draw),
        world=over_runs(steps.world),
        begin=over_runs(steps.begin),
        rounds=over_data(steps.rounds),
        evaluate=over_data(steps.evaluate),
    )
    return RunsInTurns(of_turn, split, join)
