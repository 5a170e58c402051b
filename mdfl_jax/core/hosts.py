"""The hosts that compute a study together by JAX's distributed runtime, and their messages to each other.

Each host is a process with devices of its own, and all hosts run the same command. The first host decides, writes and
prints. The others have the same study and the same compiled programs. The first host sends them the order in which to
call the functions of devices (`tell`, `hear`). These messages are a few words in the store of JAX's coordinator; arrays
go from device to device. A process that was not started with others is the first of one host: it sends no messages, and
puts and reads arrays as usual.

If a process is lost, JAX ends the others: at once if they communicate with it, else after `HEARTBEAT` seconds.
"""

import contextlib
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils

from mdfl_jax.core import stages
from mdfl_jax.core.errors import UserError

_T = TypeVar("_T")
PATIENCE = 120.0  # seconds for which the hosts wait for all hosts to start
HEARTBEAT = 60  # seconds after which a silent host counts as lost
FORM = "I/K@HOST:PORT, such as 2/4@10.0.0.1:8476 for the second of four hosts, where HOST is the first one, or auto"
_POLL = 500  # milliseconds for which a host waits for a message before it handles signals
_STATUS = re.compile(r"[A-Z_]+: ")  # how errors of JAX's runtime begin
_many, _index = 1, 0  # the number of hosts, and which of them this process is
_words = 0  # messages sent or received so far
_met = 0  # how often the hosts have met
_is_asked = False  # whether another host has received a signal to end


def many() -> int:
    """Return the number of hosts that compute together."""
    return _many


def is_first() -> bool:
    """Tell whether this process decides, writes and prints: the first of several hosts, or the only one."""
    return _index == 0


def start_hosts(given: str) -> None:
    """Start JAX's distributed runtime, before JAX looks for devices.

    Args:
      given: ``auto``, to ask SLURM, Open MPI, a TPU pod or Kubernetes; or `FORM`; '': this is the only host.

    Raises:
      UserError: If the text has another form, if no cluster is found, or if the runtime does not start.
    """
    global _many, _index
    if not given:
        return
    found = re.fullmatch(r"(\d{1,9})/(\d{1,9})@([^\s@]+:\d{1,5})", given, re.ASCII)
    if given != "auto" and not (found and 1 <= int(found[1]) <= int(found[2]) and int(found[3].split(":")[-1]) < 2**16):
        raise UserError(f"--hosts={given}: it must be {FORM}")
    own: dict[str, Any] = {"heartbeat_timeout_seconds": HEARTBEAT, "shutdown_timeout_seconds": HEARTBEAT}
    if found:
        own |= {"coordinator_address": found[3], "num_processes": int(found[2]), "process_id": int(found[1]) - 1}
        own["cluster_detection_method"] = "deactivate"
    jax.config.update("jax_enable_preemption_service", False)  # it takes SIGTERM, at which a study saves its state

    def give_up() -> None:  # in JAX's own time, its runtime would abort with the stack of its calls
        print(f"error: --hosts={given}: not all hosts have come within {PATIENCE:g} s", file=sys.stderr, flush=True)
        os._exit(2)

    timer = threading.Timer(PATIENCE, give_up)
    timer.start()
    try:
        jax.distributed.initialize(initialization_timeout=int(10 * PATIENCE) + 1, **own)
    except (ValueError, RuntimeError, OSError, KeyError) as error:
        if str(error).startswith("coordinator_address"):
            clusters = "SLURM step, Open MPI, TPU pod or Kubernetes job"
            raise UserError(f"--hosts=auto: no {clusters} has started this process; give {FORM}") from error
        raise UserError(f"--hosts={given}: {' '.join(str(error).split())[:300]}") from error
    finally:
        timer.cancel()
    _many, _index = jax.process_count(), jax.process_index()
    if _index:
        stages.hush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # also for the libraries of JAX


def _store() -> Any:
    from jax._src import distributed  # JAX has no public name for the store of its coordinator (jax 0.10.2)

    return distributed.global_state.client


def _read(name: str) -> Any:
    """Wait for a message of another host. Signals are handled meanwhile; a lost host ends this process."""
    while True:
        try:
            return json.loads(_store().blocking_key_value_get(f"mdfl_jax/{name}", _POLL))
        except jax.errors.JaxRuntimeError as error:
            if not str(error).startswith("DEADLINE_EXCEEDED"):
                raise


def _write(name: str, value: Any, again: bool = False) -> None:
    _store().key_value_set(f"mdfl_jax/{name}", json.dumps(value), allow_overwrite=again)


def agree(make: Callable[[], _T], about: Callable[[_T], Mapping[str, Any]]) -> _T:
    """Make the same object on all hosts, and check that the hosts agree.

    Args:
      make: Makes the object.
      about: Returns what must be equal on all hosts, as values of JSON by name.

    Raises:
      UserError: On all hosts, if ``make`` has raised one on any host, or if the hosts differ.
    """
    if _many == 1:
        return make()
    found: list[_T] = []
    try:
        found.append(make())
        own: dict[str, Any] = {"about": about(found[0])}
    except UserError as error:
        own = {"error": str(error)}
    _write(f"about/{_index}", own)
    of_first = _read("about/0")
    for host in range(_many):
        theirs = _read(f"about/{host}")
        if theirs == of_first:
            continue
        for one, number in ((theirs, host + 1), (of_first, 1)):
            if "error" in one:
                raise UserError(f"on host {number} of {_many}: {one['error']}")
        for name in sorted({*of_first["about"], *theirs["about"]}):
            values = [of["about"].get(name) for of in (of_first, theirs)]
            if values[0] != values[1]:
                raise UserError(f"{name} is {values[0]!r} on host 1 and {values[1]!r} on host {host + 1} of {_many}")
    if "error" in own:
        raise UserError(own["error"])
    return found[0]


def tell(*words: Any) -> None:
    """Send the other hosts the next message. On the other hosts, and on an only host, the function does nothing.

    If another host has received a signal to end (`ask_to_end`), the same signal is sent to this process.

    Args:
      *words: values of JSON.
    """
    global _words, _is_asked
    if _many == 1 or _index:
        return
    _write(f"word/{_words}", words)
    _words += 1
    if not _is_asked:
        with contextlib.suppress(jax.errors.JaxRuntimeError):  # no host has asked to end
            _store().key_value_try_get("mdfl_jax/end")
            _is_asked = True
            os.kill(os.getpid(), signal.SIGTERM)


def hear() -> list[Any]:
    """Return the next message of the first host."""
    global _words
    _words += 1
    return _read(f"word/{_words - 1}")


def meet() -> None:
    """Wait until all hosts have come here, without a limit: a collective of CPUs would give up after 30 seconds."""
    global _met
    if _many == 1:
        return
    _met += 1
    _write(f"met/{_met}/{_index}", True)
    for host in range(_many):
        _read(f"met/{_met}/{host}")


def ask_to_end() -> None:
    """Ask the first host to save the state of the study and to end it."""
    _write("end", True, again=True)


@contextlib.contextmanager
def together() -> Iterator[None]:
    """Compute with the other hosts in this context; at its end the first host sends the others the end of the work.

    An error of this host also ends the others, which would wait for it. A lost host is an error of JAX's runtime, which
    becomes one line. The process then ends at once with status 1, since the usual end would wait for the lost host.
    """
    if _many == 1:
        yield
        return
    try:
        yield
    except Exception as error:
        text = " ".join(str(error).split())[:300]
        if not _STATUS.match(text):
            tell("end")
            raise
        said = f"host {_index + 1} of {_many} has failed, or has lost another one: {text}"
        print(f"error: {said}; the same command goes on from the last state", file=sys.stderr, flush=True)
        os._exit(1)
    tell("end")


# Arrays over the devices of all hosts.


def put(leaf: Any, where: jax.sharding.Sharding) -> jax.Array:
    """Put an array on the devices of a sharding. Every host has the whole array and fills its own devices."""
    whole = leaf if isinstance(leaf, jax.Array) else np.asarray(leaf)
    return jax.make_array_from_callback(whole.shape, where, lambda index: whole[index])


def parts(leaf: jax.Array) -> Iterator[tuple[tuple[slice, ...], Any]]:
    """Yield (index, part) for the parts of an array, each part once.

    If a part is on no device of this host, all hosts must call this function: they then send each other their parts.
    """
    if leaf.is_fully_addressable:
        # `np.asarray` of a leaf of several devices would leave a copy in it.
        yield from ((shard.index, shard.data) for shard in leaf.addressable_shards if shard.replica_id == 0)
    elif leaf.is_fully_replicated:
        yield leaf.addressable_shards[0].index, leaf.addressable_data(0)
    else:
        yield (slice(None),) * leaf.ndim, multihost_utils.process_allgather(leaf, tiled=True)


def of_first(leaf: np.ndarray) -> np.ndarray:
    """Return the first host's array on all hosts, to the bit. Each host gives an array of the same shape and type."""
    if _many == 1 or not leaf.size:
        return leaf
    octets = np.ascontiguousarray(leaf).reshape(-1).view(np.uint8)
    return np.asarray(multihost_utils.broadcast_one_to_all(octets)).view(leaf.dtype).reshape(leaf.shape)
