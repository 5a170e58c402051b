"""The flag --shard, and the shard of a process that a cluster has started, from the variables that the cluster sets."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from absl import flags

from mdfl_jax.core.errors import UserError

if TYPE_CHECKING:
    from mdfl_jax.study.shards import Shard

_SHARD = flags.DEFINE_string(
    "shard", None, "K/N, such as 3/16: run only this part of the study, for launch.merge; auto: as the cluster says."
)


def wanted() -> "Shard | None":
    """Return the shard that the command line asks for, or None if it asks for the whole study.

    Raises:
      UserError: If it is no shard, or if it is auto and no cluster is found.
    """
    from mdfl_jax.study.shards import parse

    if _SHARD.value is None:
        return None
    return of_cluster(os.environ) if _SHARD.value == "auto" else parse(_SHARD.value)


def of_cluster(variables: Mapping[str, str]) -> "Shard":
    """Return the shard of a process of a cluster.

    The tasks of a SLURM array are shards, and so are the tasks of an srun within each of them. The other clusters are a
    TPU pod and Open MPI.

    Args:
      variables: The environment of the process.

    Raises:
      UserError: If the variables are of no known cluster, or if they do not tell a shard.
    """
    from mdfl_jax.study.shards import Shard

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
