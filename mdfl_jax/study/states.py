"""The last states of a study's runs, in the folder `states` of its workdir, from which further rounds can begin.

There is a file for each run. It has the arrays of a checkpoint (`mdfl_jax.storage.checkpoint`) with the
metrics of the last evaluation only, since the earlier ones are in the results. Its name tells the run by its resolved
configuration and its seed, so that it stays the same if a study gets further sweep points.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

import jax
import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.storage.checksums import Arrays, read_state, write_state
from mdfl_jax.storage.study_files import STATES
from mdfl_jax.study.batch import Batch
from mdfl_jax.study.events import Ended, Event
from mdfl_jax.study.identity import state_names
from mdfl_jax.study.manifest import wanted
from mdfl_jax.study.study import Group, Run, Study

_SECONDS, _LEAF = "wall/seconds", "carry/"
_ROUND = "carry/0000"  # the round is the first field of a state (`mdfl_jax.core.parts.Carry`)
_UNREADABLE = "the last state of the run cannot be read, so that no rounds can be added to it"
_AT, _RULE = ".round", ".rules["  # in the names of leaves: the round itself, and those of a mobility rule
MIB = 2**20


def state_bytes(group: Group) -> int:
    """Return the bytes of the last state of a run, without the data of the clients, which are drawn again."""
    simulation = group.simulation
    carry = jax.eval_shape(simulation.first, simulation.data, group.hparams[0], jax.random.key(0))
    leaves = jax.tree.leaves(jax.eval_shape(simulation.kept, carry))
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves)


def states_mib(study: Study) -> float:
    """Return about how many MiB the last states of all runs of a study take, whichever of them are to be done."""
    return sum(len(group.points) * len(study.seeds) * state_bytes(group) for group in study.groups) / MIB


def are_kept(study: Study) -> bool:
    """Tell whether a study keeps the last states of its runs: whether they fit ``engine.states_mib``."""
    return states_mib(study) <= study.experiment.engine.states_mib


def notes(study: Study) -> list[str]:
    """Return a line for the plan if the last states are not kept, so that rounds cannot be added later."""
    size, most = states_mib(study), study.experiment.engine.states_mib
    if size <= most:
        return []
    return [f"  last states take {size:,.1f} MiB, and engine.states_mib is {most}: --extend cannot add rounds later"]


def leaf_names(group: Group) -> dict[str, jax.ShapeDtypeStruct]:
    """Return the shapes and types of the leaves of a run's last state by their name, in their order.

    A name is the path of the leaf, in which the mobility rules of the program have their names in place of an index. So
    a state can go on in a program with further rules: only the state of a run's own rule ever changes.
    """
    simulation = group.simulation
    carry = jax.eval_shape(simulation.first, simulation.data, group.hparams[0], jax.random.key(0))
    leaves = jax.tree_util.tree_leaves_with_path(jax.eval_shape(simulation.kept, carry))
    by_rule = lambda found: f".rules[{group.rules[int(found[1])]}]"  # noqa: E731
    return {re.sub(r"\.rules\[(\d+)\]", by_rule, jax.tree_util.keystr(path)): leaf for path, leaf in leaves}


def names(study: Study) -> list[str]:
    """Return the name that the files of each sweep point have before the seed. Those of the whole study are given."""
    return state_names(wanted(study._replace(runs=None)))


def path_of(workdir: Path, name: str, seed: int) -> Path:
    """Return the file of a run."""
    return workdir / STATES / f"{name}-{seed}.npz"


class StateFiles:
    """The sink that writes the last states of the runs of each batch, if the study keeps them."""

    def __init__(self, study: Study, workdir: Path):
        self.workdir, self.kept = workdir, are_kept(study)
        self.names = names(study) if self.kept else []

    def take(self, event: Event) -> None:
        """Write a file for each run of a batch that has ended."""
        if not isinstance(event, Ended) or event.state is None or not self.kept:
            return
        arrays = event.state()
        del arrays[_SECONDS]
        for name, values in event.result.metrics.items():
            arrays[name] = values[:, -1:]
        # Of a batch whose runs have all stopped, the host has counted the further rounds.
        arrays[_ROUND] = event.result.metrics.round[:, -1].astype(arrays[_ROUND].dtype)
        for i, name in enumerate(leaf_names(event.batch.group)):
            arrays[_LEAF + name] = arrays.pop(f"{_LEAF}{i:04d}")
        for i, run in enumerate(event.batch.runs):
            path = path_of(self.workdir, self.names[run.point], run.seed)
            write_state(path, {name: values[i] for name, values in arrays.items()})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass


def _misfit(found: Arrays, leaves: Mapping[str, jax.ShapeDtypeStruct], own_rule: str) -> str:
    """Name the first leaf of a state that does not fit a program, or returns '' if all fit.

    Only the leaves of mobility rules other than the run's own one may be in the program or in the state alone.
    """
    stored = {name.removeprefix(_LEAF): leaf for name, leaf in found.items() if name.startswith(_LEAF)}
    for name in dict.fromkeys([*leaves, *stored]):
        here, there = leaves.get(name), stored.get(name)
        if here is None or there is None:
            if _RULE not in name or f"{_RULE}{own_rule}]" in name:
                return name
        elif (here.shape, here.dtype) != (there.shape, there.dtype):
            return name
    return ""


def read_batch(workdir: Path, study: Study, study_names: Sequence[str], batch: Batch, rounds: int) -> Arrays:
    """Read the last states of runs as the arrays of a checkpoint, from which their batch goes on.

    Args:
      workdir: The folder of the study.
      study: The study.
      study_names: As `names` returns them.
      batch: The batch. Its program may have mobility rules that the earlier one did not have.
      rounds: The rounds that the runs have done.

    Raises:
      UserError: If a file is absent or damaged, or if a state is of another round or does not fit the program.
    """
    each, leaves = [], leaf_names(batch.group)
    for run in batch.runs:
        path = path_of(workdir, study_names[run.point], run.seed)
        found = read_state(path, _UNREADABLE)
        if wrong := _misfit(found, leaves, study.points[run.point].experiment.network.mobility):
            raise UserError(
                f"{path}: the last state does not fit the program ({wrong}), which is that of other sweep points or of "
                "another version; if sweep points are added too, add the rounds first, and then these"
            )
        if found[_LEAF + _AT] != rounds:
            raise UserError(f"{path}: the last state is that of round {found[_LEAF + _AT]}, not of {rounds}")
        each.append(found)
    shared = [name for name in each[0] if not name.startswith(_LEAF)]
    arrays = {name: np.stack([of_run[name] for of_run in each]) for name in shared}
    for i, (name, leaf) in enumerate(leaves.items()):
        rows = [of_run.get(_LEAF + name) for of_run in each]
        arrays[f"{_LEAF}{i:04d}"] = np.stack([np.zeros(leaf.shape, leaf.dtype) if row is None else row for row in rows])
        arrays[f"start/{i:04d}"] = np.array([row is None for row in rows])
    return arrays | {_SECONDS: np.zeros(2)}


def missing(workdir: Path, study_names: Sequence[str], runs: Iterable[Run], rounds: int) -> list[Run]:
    """Return the runs whose state after so many rounds is not there.

    Args:
      workdir: The folder of the study.
      study_names: As `names` returns them.
      runs: The runs.
      rounds: The rounds that they have done.

    Raises:
      UserError: If a file is damaged.
    """
    paths = {run: path_of(workdir, study_names[run.point], run.seed) for run in runs}
    at = _LEAF + _AT
    return [r for r, path in paths.items() if not path.is_file() or read_state(path, _UNREADABLE, [at])[at] != rounds]
