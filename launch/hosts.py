"""The flags of several processes: where this one stands, by what is given or by what the cluster says."""

import ipaddress
import os
import re
import secrets
import socket
from typing import TYPE_CHECKING

from absl import flags

from mdfl_jax.errors import UserError

if TYPE_CHECKING:
    from mdfl_jax.experiments.processes.join import Rank

_COORDINATOR = flags.DEFINE_string("coordinator", None, "HOST:PORT of process 0, or auto in a cluster that JAX knows.")
_NUM_PROCESSES = flags.DEFINE_integer("num_processes", None, "Processes that share the study.")
_PROCESS_ID = flags.DEFINE_integer("process_id", None, "Which of them this is, from 0; only process 0 writes.")
START_TIMEOUT = flags.DEFINE_float(
    "start_timeout", 60.0, "Seconds that all processes have to come together.", lower_bound=1.0, upper_bound=1e6
)
HOST_TIMEOUT = flags.DEFINE_float(
    "host_timeout",
    30.0,
    "Seconds without a sign of life after which a process is gone.",
    lower_bound=1.0,
    upper_bound=1e6,
)


def address_of(text: str) -> tuple[str, int]:
    """HOST and PORT.

    >>> address_of("10.0.0.1:1234"), address_of("[::1]:80")
    (('10.0.0.1', 1234), ('::1', 80))
    """
    found = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([^\s:\[\]/]+)):(\d{1,5})", text)
    if not found or not 0 < int(found.group(3)) < 2**16:
        raise UserError(f"--coordinator={text}: it must be HOST:PORT with a port from 1 to 65535, or auto")
    return found.group(1) or found.group(2), int(found.group(3))


def rank(meets: bool = True) -> "Rank":
    """Where this process stands; alone where no coordinator is given. Looks for no cluster unless told to.

    Args:
      meets: whether the others will be met; without that nothing is opened or looked for.

    Raises:
      UserError: for flags that do not fit together, or a port that cannot be taken.
    """
    from mdfl_jax.experiments.processes.join import Rank, listen

    count, index = _NUM_PROCESSES.value, _PROCESS_ID.value
    numbers = {"--num_processes": count, "--process_id": index}
    if _COORDINATOR.value is None:
        for flag, value in numbers.items():
            if value is not None:
                raise UserError(f"{flag} is {value}, but --coordinator=HOST:PORT is missing")
        return Rank(0, 1, [])
    if _COORDINATOR.value == "auto":
        for flag, value in numbers.items():
            if value is not None:
                raise UserError(f"{flag} is {value}; with --coordinator=auto it is the cluster that says it")
        return _of_cluster() if meets else Rank(0, 1, [])
    address = address_of(_COORDINATOR.value)
    if count is None or index is None:
        missing = next(flag for flag, value in numbers.items() if value is None)
        raise UserError(f"--coordinator={_COORDINATOR.value} needs {missing} too")
    if count < 1:
        raise UserError(f"--num_processes is {count}; it must be at least 1")
    if not 0 <= index < count:
        allowed = f"from 0 to {count - 1}" if count > 1 else "0"
        raise UserError(f"--process_id is {index}; it must be {allowed}, since --num_processes is {count}")
    listener = None
    if index == 0 and count > 1 and meets:
        try:
            listener = listen(address[1], _is_loopback(address[0]))
        except OSError as error:
            why = os.strerror(error.errno or 0)
            raise UserError(
                f"--coordinator={_COORDINATOR.value}: process 0 cannot take port {address[1]} ({why}); "
                "is there another process 0?"
            ) from error
    return Rank(index, count, [address], listener)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _of_cluster() -> "Rank":
    """What `jax.distributed` finds out on a TPU pod, under SLURM, Open MPI or Kubernetes.

    It is left as soon as everybody knows where process 0 listens: as long as it lasts, JAX aborts every process with a
    stack trace when one of them dies.
    """
    import jax
    import numpy as np
    from jax.experimental import multihost_utils

    from mdfl_jax.experiments.processes.join import Rank, listen

    try:
        jax.distributed.initialize(initialization_timeout=int(START_TIMEOUT.value))
    except ValueError as error:  # of a laptop
        raise UserError(
            f"--coordinator=auto: JAX finds no cluster here ({error}); give HOST:PORT, --num_processes and --process_id"
        ) from error
    index, count = jax.process_index(), jax.process_count()
    listener = listen(0, loopback=False) if index == 0 and count > 1 else None
    told = np.zeros(1024, np.uint8)
    if listener:
        port = listener.getsockname()[1]
        words = " ".join([secrets.token_hex(16), *(f"{host} {port}" for host in _own_addresses())]).encode()
        told[: len(words)] = np.frombuffer(words, np.uint8)
    told = np.asarray(multihost_utils.broadcast_one_to_all(told)) if count > 1 else told
    jax.distributed.shutdown()
    token, *found = bytes(told).rstrip(b"\0").decode().split() or [""]
    return Rank(index, count, list(zip(found[::2], map(int, found[1::2]))), listener, token)


def _own_addresses() -> list[str]:
    """What other machines may call this one, and at last what its own processes may."""
    name = socket.gethostname()
    found = [name]
    try:
        found += [str(info[4][0]) for info in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("192.0.2.1", 9))  # sends nothing: it asks which way out there is
            found.append(probe.getsockname()[0])
    except OSError:
        pass
    return list(dict.fromkeys([*found, "127.0.0.1"]))[:8]
