"""The flags for a study on several processes, and the rank of this process from the flags or from the cluster."""

import ipaddress
import os
import re
import secrets
import socket
from typing import TYPE_CHECKING

from absl import flags

from mdfl_jax.commands import cluster
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
    """Parses HOST:PORT into the host and the port.

    Raises:
      UserError: if the text has another form, or if the port is not from 1 to 65535.

    >>> address_of("10.0.0.1:1234"), address_of("[::1]:80")
    (('10.0.0.1', 1234), ('::1', 80))
    """
    found = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([^\s:\[\]/]+)):(\d{1,5})", text)
    if not found or not 0 < int(found.group(3)) < 2**16:
        raise UserError(f"--coordinator={text}: it must be HOST:PORT with a port from 1 to 65535, or auto")
    return found.group(1) or found.group(2), int(found.group(3))


def rank(meets: bool = True) -> "Rank":
    """Returns the rank of this process. Without --coordinator it is the only process.

    JAX looks for a cluster only with --coordinator=auto.

    Args:
      meets: whether this process will connect to the others. If not, no port is opened and no cluster is searched.

    Raises:
      UserError: if the flags do not fit together, or if the port cannot be opened.
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
    """Returns the rank that JAX finds on a TPU pod, or under SLURM, Open MPI or Kubernetes.

    Every process opens a port, since none knows yet whether it is process 0.
    """
    import jax

    from mdfl_jax.experiments.processes.join import Rank, listen

    listener = listen(0, loopback=False)
    port = listener.getsockname()[1]
    words = " ".join([secrets.token_hex(16), *(f"{host} {port}" for host in _own_addresses())])
    try:
        found = cluster.find(words, START_TIMEOUT.value)
    except UserError:
        listener.close()
        raise
    for platform in ("cuda", "rocm"):
        jax.config.update(f"jax_{platform}_visible_devices", found.gpus)
    token, *places = found.words.split()
    addresses = list(zip(places[::2], map(int, places[1::2])))
    if found.number == 0 and found.count > 1:
        return Rank(found.number, found.count, addresses, listener, token)
    listener.close()
    return Rank(found.number, found.count, addresses, None, token)


def _own_addresses() -> list[str]:
    """Returns addresses of this machine that may work from other machines, and last the one for its own processes."""
    name = socket.gethostname()
    found = [name]
    try:
        found += [str(info[4][0]) for info in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("192.0.2.1", 9))  # sends nothing, but selects the outgoing interface
            found.append(probe.getsockname()[0])
    except OSError:
        pass
    return list(dict.fromkeys([*found, "127.0.0.1"]))[:8]
