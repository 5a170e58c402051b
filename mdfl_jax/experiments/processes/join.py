"""Joins the processes of a study: followers send a hello to process 0, which accepts or refuses them."""

import contextlib
import queue
import socket
import threading
import time
from typing import Any, NamedTuple

from mdfl_jax.errors import UserError
from mdfl_jax.experiments.processes.channel import Channel, Gone, Message
from mdfl_jax.experiments.processes.hosts import Follower, Lead
from mdfl_jax.experiments.results.provenance import devices, difference

Address = tuple[str, int]
_GREETING = 10.0  # seconds in which a new process must send its hello


class Rank(NamedTuple):
    """The position of a process among the others.

    Attributes:
      process_id: The number of this process.
      num_processes: The number of all processes.
      addresses: The addresses at which process 0 may be reached, the most likely one first.
      listener: The socket on which process 0 accepts the others; None in the other processes.
      token: A text that only the processes of this study know; '' if they could not agree on one.
    """

    process_id: int
    num_processes: int
    addresses: list[Address]
    listener: socket.socket | None = None
    token: str = ""


def listen(port: int, loopback: bool) -> socket.socket:
    """Opens a listening socket. Port 0 means any free port; ``loopback`` accepts this machine only."""
    if loopback:
        return socket.create_server(("127.0.0.1", port))
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))


def join(rank: Rank, identity: dict[str, Any], patience: float, timeout: float) -> Lead | Follower:
    """Waits until all processes of the study have joined.

    Args:
      rank: The position of this process.
      identity: A JSON tree that describes what is run; it must be the same in all processes.
      patience: The seconds that joining may take.
      timeout: The seconds without a sign of life after which a process counts as gone.

    Returns:
      A `Lead` in process 0, a `Follower` in the others.

    Raises:
      UserError: If process 0 does not answer or refuses this process, or if another process does not come.
      HostLost: If a process that had joined is gone before all have joined.
    """
    if rank.process_id:
        return _follow(rank, identity, patience, timeout)
    lead = Lead(rank.num_processes, timeout)
    if rank.num_processes > 1:
        try:
            _gather(lead, rank, identity, patience)
        except BaseException as error:
            lead.__exit__(type(error), error, None)
            raise
    return lead


def _follow(rank: Rank, identity: dict[str, Any], patience: float, timeout: float) -> Follower:
    until, why = time.monotonic() + patience, "nobody there"
    hello = {
        "token": rank.token,
        "index": rank.process_id,
        "count": rank.num_processes,
        "machine": socket.gethostname(),
        "devices": devices(),
        "identity": identity,
    }
    while (left := until - time.monotonic()) > 0:
        for address in rank.addresses:
            answer = None
            try:
                channel = Channel(socket.create_connection(address, timeout=min(left, 5.0)), left)
                channel.send("hello", hello)
                answer = channel.receive()
            except (OSError, Gone) as error:
                why = (isinstance(error, OSError) and error.strerror) or str(error)
            if answer and answer.kind == "welcome":
                return Follower(rank.process_id, rank.num_processes, timeout, channel)
            if answer:
                raise UserError(answer.fields["line"])
        time.sleep(0.2)
    host, port = rank.addresses[0]
    raise UserError(f"process 0 has not answered at {host}:{port} within {patience:g} s ({why})")


def _gather(lead: Lead, rank: Rank, identity: dict[str, Any], patience: float) -> None:
    """Accepts followers until all are there. Processes that come later are refused."""
    wrong: queue.Queue[UserError] = queue.Queue()
    door, listener = threading.Lock(), rank.listener
    assert listener is not None

    def greet(connection: socket.socket) -> None:
        channel = Channel(connection, _GREETING)
        with contextlib.suppress(Gone, KeyError, TypeError):
            hello = channel.receive()
            with door:
                refusal, fatal = _refusal(lead, rank, identity, hello)
                if not refusal:
                    channel.send("welcome")
                    lead.add(hello.fields["index"], hello.fields["machine"], hello.fields["devices"], channel)
                    return
            channel.send("refused", {"line": refusal})
            if fatal:
                wrong.put(UserError(refusal))
        channel.close()

    def accept() -> None:
        with contextlib.suppress(OSError):  # the listener is closed when the process ends
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=greet, args=[connection], daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    until = time.monotonic() + patience
    while len(lead.names) < rank.num_processes - 1:
        with contextlib.suppress(queue.Empty):
            raise wrong.get(timeout=0.05)
        if lead.lost:
            raise lead.lost
        if time.monotonic() > until:
            missing = [str(k) for k in range(1, rank.num_processes) if k not in lead.names]
            raise UserError(
                f"--num_processes is {rank.num_processes}; within {patience:g} s no process came with --process_id "
                + ", ".join(missing)
            )


def _refusal(lead: Lead, rank: Rank, identity: dict[str, Any], hello: Message) -> tuple[str, bool]:
    """Returns why a new process is refused ('' if it is accepted), and whether process 0 must end too."""
    fields = hello.fields
    if hello.kind != "hello" or fields["token"] != rank.token:
        return "it belongs to another study", False
    who = f"process {fields['index']} ({fields['machine']})"
    if fields["count"] != rank.num_processes:
        return f"--num_processes is {fields['count']} at {who} and {rank.num_processes} at process 0", True
    if fields["index"] in lead.names:
        return f"--process_id={fields['index']} is taken by a process on {lead.names[fields['index']]}", False
    if found := difference(identity, fields["identity"]):
        return f"{who} would run another study than process 0: {found}", True
    return "", False
