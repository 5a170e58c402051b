"""Finds the processes of a cluster with `jax.distributed`, in a process that ends as soon as they know one another.

A process of its own, since JAX keeps what it made meanwhile: its CPU and GPU clients go on using the connections to the
others after `jax.distributed.shutdown`, so a copy between two devices of one machine could wait for ever. And while
`jax.distributed` is active, JAX aborts every process with a stack trace when one of them dies.
"""

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass

from mdfl_jax.errors import UserError

_LIMIT = 1024  # bytes of a text
_NO_CLUSTER = 2  # exit status


@dataclass(frozen=True)
class Found:
    """A process's place in its cluster.

    Attributes:
      number: the number of this process, from 0.
      count: the number of processes.
      gpus: the GPUs of its machine that are this process's own, "0" or "0,1", or "all".
      words: the text that process 0 gave.
    """

    number: int
    count: int
    gpus: str
    words: str


def find(words: str, timeout: float) -> Found:
    """Finds the place of this process on a TPU pod, or under SLURM, Open MPI or Kubernetes.

    Args:
      words: a text, which all processes will have if this is process 0.
      timeout: the seconds that the processes have to find one another.

    Raises:
      UserError: if JAX finds no cluster here, or not all of its processes within the time.
    """
    # One CPU device is enough for it, and a TPU or a GPU stays free for the study.
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "1", "XLA_FLAGS": ""}
    command = [sys.executable, "-m", "mdfl_jax.commands.cluster", words, str(int(timeout))]
    why = f"its processes did not find one another within {timeout:g} s"
    try:
        child = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=2 * timeout + 60)
    except subprocess.TimeoutExpired:
        raise UserError(f"--coordinator=auto: {why}") from None
    lines = child.stdout.splitlines()
    if child.returncode == _NO_CLUSTER:
        raise UserError(
            f"--coordinator=auto: JAX finds no cluster here ({lines[-1] if lines else 'no reason given'}); "
            "give HOST:PORT, --num_processes and --process_id"
        )
    if child.returncode:
        raise UserError(f"--coordinator=auto: {why}: {(child.stderr.splitlines() or ['no reason given'])[-1]}")
    return Found(**json.loads(lines[-1]))


def _main(words: str, timeout: str) -> int:
    """Prints a `Found` as JSON on the last line; what else is printed there is the libraries'."""
    import jax
    import numpy as np
    from jax.experimental import multihost_utils

    try:
        jax.distributed.initialize(initialization_timeout=int(timeout))
    except ValueError as error:  # raised on a machine without a cluster
        print(error)
        return _NO_CLUSTER
    told = np.zeros(_LIMIT, np.uint8)
    if jax.process_index() == 0:
        told[: len(words.encode())] = np.frombuffer(words.encode(), np.uint8)
    if jax.process_count() > 1:
        told = np.asarray(multihost_utils.broadcast_one_to_all(told))
    words = bytes(told).rstrip(b"\0").decode()
    found = Found(jax.process_index(), jax.process_count(), jax.config.values["jax_cuda_visible_devices"], words)
    jax.distributed.shutdown()
    print(json.dumps(asdict(found)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
