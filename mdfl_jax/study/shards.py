"""The parts of a study that commands on several machines run, each for itself: `launch.sweep --shard=3/16`.

A shard is a stretch of the study's runs in their order: group after group, and point after point. So a shard has few
programs to compile: all shards together compile at most (groups + shards - 1) programs. The division depends on the
study and on the number of shards only, not on devices or on what has been done.
"""

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from mdfl_jax.config.points import MOST_RUNS
from mdfl_jax.core.errors import UserError
from mdfl_jax.study.study import Run, Study


class Shard(NamedTuple):
    """One of several parts of a study: ``number`` from 1 to ``of``."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    @property
    def folder(self) -> str:
        """The name of the shard's folder, such as shard-03-of-16. The names sort in the order of the numbers."""
        return self.all_folders.replace("*", f"{self.number:0{self._width}}")

    @property
    def all_folders(self) -> str:
        """The pattern of the names of all shards' folders, such as shard-*-of-16."""
        return f"shard-*-of-{self.of:0{self._width}}"

    @property
    def _width(self) -> int:
        return max(2, len(str(self.of)))


def parse(text: str) -> Shard:
    """Read K/N, or auto for the shard of this process in a cluster (`of_cluster`).

    Raises:
      UserError: If the text has another form, if K is not from 1 to N, or if no cluster is found.

    >>> parse("3/16")
    Shard(number=3, of=16)
    """
    if text == "auto":
        return of_cluster(os.environ)
    found = re.fullmatch(r"(\d{1,20})/(\d{1,20})", text, re.ASCII)
    if not found:
        raise UserError(f"--shard={text}: it must be K/N, such as 3/16 for the third of sixteen shards, or auto")
    shard = Shard(int(found[1]), int(found[2]))
    if not 1 <= shard.number <= shard.of <= MOST_RUNS:
        raise UserError(f"--shard={text}: K in K/N must be from 1 to N, and N from 1 to {MOST_RUNS:,}")
    return shard


def runs_of(study: Study, shard: Shard) -> list[Run]:
    """Return the runs of a shard in the order of the study; [] if there are more shards than runs and none is left.

    The numbers of runs of any two shards differ by at most one.
    """
    runs = study.all_runs
    return runs[len(runs) * (shard.number - 1) // shard.of : len(runs) * shard.number // shard.of]


def part_of(study: Study, shard: Shard) -> Study:
    """Return the study of which only a shard is to be done, which may have no runs."""
    return study.part(runs_of(study, shard))._replace(shard=str(shard))


def of_cluster(variables: Mapping[str, str]) -> Shard:
    """Return the shard of a process of a cluster.

    The tasks of a SLURM array are shards, and so are the tasks of an srun within each of them. The other clusters are a
    TPU pod and Open MPI.

    Args:
      variables: The environment of the process.

    Raises:
      UserError: If the variables are of no known cluster, or if they do not tell a shard.
    """
    for find in (_slurm, _tpu_pod, _open_mpi):
        if found := find(variables):
            index, count = found
            if not 0 <= index < count:
                raise UserError(f"--shard=auto: the cluster gives process {index} of {count}; allowed: 0 to count - 1")
            return Shard(index + 1, count)
    raise UserError(
        "--shard=auto: no SLURM array or srun, TPU pod or Open MPI has started this process; give K/N, such as 3/16"
    )


def _number(variables: Mapping[str, str], name: str) -> int:
    """Return the whole number in a variable."""
    text = variables.get(name, "")
    if not text.isdecimal():
        raise UserError(f"--shard=auto: the variable {name} is {text!r}; it must be a whole number")
    return int(text)


def _slurm(variables: Mapping[str, str]) -> tuple[int, int] | None:
    """Return (index, count) of a task of an array, of an srun, or of an srun in a task of an array."""
    array = _slurm_array(variables) if "SLURM_ARRAY_TASK_ID" in variables else None
    if "SLURM_PROCID" not in variables:
        return array
    if array is not None and "SLURM_STEP_NUM_TASKS" not in variables:  # the script of the task itself, without srun
        return array
    index = _number(variables, "SLURM_PROCID")
    count = _number(variables, "SLURM_STEP_NUM_TASKS" if "SLURM_STEP_NUM_TASKS" in variables else "SLURM_NTASKS")
    return (array[0] * count + index, array[1] * count) if array else (index, count)


def _slurm_array(variables: Mapping[str, str]) -> tuple[int, int]:
    """Return (index, count) of a task of an array.

    Raises:
      UserError: If the array was submitted for some tasks only, such as 3,7 to repeat them. Its tasks would take these
        for all the shards, and divide the study in another way than before.
    """
    index, least, count = (_number(variables, f"SLURM_ARRAY_TASK_{name}") for name in ("ID", "MIN", "COUNT"))
    most = _number(variables, "SLURM_ARRAY_TASK_MAX") if "SLURM_ARRAY_TASK_MAX" in variables else least + count - 1
    if least not in (0, 1) or most != least + count - 1:
        raise UserError(
            f"--shard=auto: the array has {count} tasks from {least} to {most}, which are no whole numbering of shards "
            "from 0 or 1; give K/N, such as --shard=$SLURM_ARRAY_TASK_ID/16"
        )
    return index - least, count


def _tpu_pod(variables: Mapping[str, str]) -> tuple[int, int] | None:
    """Return (index, count) of a worker of a pod, whose hosts are listed with commas."""
    if "TPU_WORKER_ID" not in variables or "TPU_WORKER_HOSTNAMES" not in variables:
        return None
    return _number(variables, "TPU_WORKER_ID"), len(variables["TPU_WORKER_HOSTNAMES"].split(","))


def _open_mpi(variables: Mapping[str, str]) -> tuple[int, int] | None:
    """Return (index, count) of a process that mpirun has started."""
    if "OMPI_COMM_WORLD_RANK" not in variables:
        return None
    return _number(variables, "OMPI_COMM_WORLD_RANK"), _number(variables, "OMPI_COMM_WORLD_SIZE")
