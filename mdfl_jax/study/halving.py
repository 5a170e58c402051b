"""Makes the batches of a study smaller where the memory was not enough, without losing what is finished.

The saved results and states of a program are cut into those of batches of half as many runs, in a folder beside the
checkpoints that takes their place when it is complete. A kill at any instant leaves the old batches or the new ones,
with the sizes in config.json that belong to them.
"""

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from mdfl_jax.core.errors import SHRINK, UserError
from mdfl_jax.storage import disk
from mdfl_jax.storage.checkpoint import Checkpoints, number_of
from mdfl_jax.storage.checksums import Arrays
from mdfl_jax.storage.disk import write_json
from mdfl_jax.storage.study_files import CHECKPOINTS, HALVED
from mdfl_jax.study.batch import Batch, batches_of, seconds_in
from mdfl_jax.study.study import Group, Study
from mdfl_jax.study.workdir import read_manifest

_SIZES = "runs_per_batch.json"  # in the folder of the new checkpoints


class OutOfMemoryError(Exception):
    """The memory was not enough for a batch of runs. What was finished before is saved.

    Attributes:
      group: The group of the batch.
      asked: What was asked for, in words; '' if it is not known.
    """

    def __init__(self, group: Group, asked: str):
        super().__init__(asked)
        self.group, self.asked = group, asked


def halved(study: Study, error: OutOfMemoryError, workdir: Path, log: Callable[[str], None]) -> Study:
    """Return the study with half as many runs in a batch of the group whose batch did not fit.

    If anything is saved of the group, the new size divides the old one, so that each new batch is a part of an old one.

    Args:
      study: The study.
      error: The error that the memory was not enough.
      workdir: Its workdir, whose checkpoints are cut.
      log: A function that takes a line for the user.

    Raises:
      UserError: If the batch has one run only.
    """
    group, asked = error.group, f" ({error.asked} asked for)" if error.asked else ""
    size = min(group.runs_per_batch, len(study.to_do(group)))
    if size == 1:
        names = "; ".join(study.points[p].id for p in group.points)
        clients = study.points[group.points[0]].experiment.network.num_clients
        raise UserError(
            f"not enough memory for one run at a time{asked}: {names}: {clients} clients of "
            f"{group.simulation.num_params:,} parameters; {SHRINK}"
        )
    checkpoints = Checkpoints(workdir / CHECKPOINTS, log)
    finished, states = checkpoints.finished(), _states(checkpoints)
    saved = {batch.number for batch in batches_of(study) if batch.group is group} & {*finished, *states}
    half = max(part for part in range(1, size // 2 + 1) if not saved or group.runs_per_batch % part == 0)
    smaller = study._replace(
        groups=[other._replace(runs_per_batch=half) if other is group else other for other in study.groups]
    )
    made = workdir / (HALVED + disk.PART)
    shutil.rmtree(made, ignore_errors=True)
    parts = _parts(batches_of(study), batches_of(smaller))
    new = Checkpoints(made, log)
    new.save(
        {n: _rows(finished[old], rows) for n, old, rows in parts if old in finished},
        {n: (states[old][0], _rows(states[old][1], rows)) for n, old, rows in parts if old in states},
        begun=checkpoints.progress().begun,
    )
    write_json(made / _SIZES, [other.runs_per_batch for other in smaller.groups])
    disk.attempt(workdir / HALVED, partial(made.replace, workdir / HALVED))  # from here on, the new sizes hold
    adopt(workdir)
    log(f"not enough memory for {size} runs at once{asked}: split into batches of {half}")
    return smaller


def adopt(workdir: Path) -> None:
    """Put cut checkpoints in the place of the old ones, if there are any, and their sizes into config.json.

    If this is interrupted, the next call goes on.

    Raises:
      DiskError: If the files cannot be moved.
    """
    new, old = workdir / HALVED, workdir / CHECKPOINTS
    if not new.is_dir():
        return

    def take_the_place() -> None:
        shutil.rmtree(old, ignore_errors=True)
        new.replace(old)

    sizes = json.loads((new / _SIZES).read_text())
    write_json(workdir / "config.json", (read_manifest(workdir) or {}) | {"runs_per_batch": sizes})
    disk.attempt(old, take_the_place)


def _states(checkpoints: Checkpoints) -> dict[int, tuple[int, Arrays]]:
    """Return the evaluations and the state of each batch under way, by number."""
    found = {}
    for name, evaluations in checkpoints.progress().states.items():
        done, arrays = checkpoints.state(number_of(name), evaluations)
        if arrays is not None:
            found[number_of(name)] = (done, arrays)
    return found


def _parts(old: list[Batch], new: list[Batch]) -> list[tuple[int, int, slice]]:
    """Return (number, number of the old batch of which it is a part, which rows of it) for each new batch."""
    place = {run: (batch.number, i) for batch in old for i, run in enumerate(batch.runs)}
    first = [(batch, *place[batch.runs[0]]) for batch in new]
    return [(batch.number, number, slice(i, i + len(batch.runs))) for batch, number, i in first]


def _rows(arrays: Arrays, rows: slice) -> Arrays:
    """Return some rows of saved arrays, [runs, ...], with their share of the seconds of running."""
    seconds, num_runs = seconds_in(arrays), len(arrays["round"])
    found = {name: values[rows] for name, values in arrays.items() if name != seconds}
    share = len(range(num_runs)[rows]) / num_runs
    return found | {seconds: arrays[seconds] * np.array([0.0 if rows.start else 1.0, share])}
