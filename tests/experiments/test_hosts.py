"""What processes tell one another, over real sockets, with threads in place of processes."""

import os
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from mdfl_jax.errors import UserError
from mdfl_jax.experiments.processes import hosts
from mdfl_jax.experiments.processes.channel import Channel, Gone
from mdfl_jax.experiments.processes.follow import shares
from mdfl_jax.experiments.processes.hosts import Follower, HostLost, Lead
from mdfl_jax.experiments.processes.join import Rank, join, listen
from mdfl_jax.experiments.results.ordered_lines import OrderedLines

STUDY = {"config": {"seeds": 2, "network": {"radius": 1.0}}, "commit": None}


def ends(timeout=5.0):
    one, other = socket.socketpair()
    return Channel(one, timeout), Channel(other, timeout)


def test_arrays_and_trees_come_as_they_were_sent():
    here, there = ends()
    arrays = {
        "carry/0000": np.arange(6, dtype=np.uint32).reshape(2, 3),
        "position": np.zeros((2, 0, 5, 2), np.float32),
        "reached": np.array([[True, False]]),
        "large": np.random.default_rng(0).normal(size=(512, 1024)),
    }
    thread = threading.Thread(target=here.send, args=["result", {"number": 3, "sizes": [1, 2]}, arrays])
    thread.start()
    message = there.receive()
    thread.join()
    assert (message.kind, message.fields) == ("result", {"number": 3, "sizes": [1, 2]})
    assert message.arrays.keys() == arrays.keys()
    for name, array in arrays.items():
        assert message.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(message.arrays[name], array)


def test_an_end_that_closes_or_is_silent_or_speaks_otherwise_is_gone():
    here, there = ends()
    here.close()
    with pytest.raises(Gone, match="has closed the connection"):
        there.receive()
    here, there = ends(timeout=0.1)
    with pytest.raises(Gone, match=r"has given no sign of life for 0\.1 s"):
        there.receive()
    for words in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"mdfl_jax\0\0\0\2" + bytes(8) + b"[]"):
        raw, other = socket.socketpair()
        raw.sendall(words)
        with pytest.raises(Gone, match="has sent data that is no message of a study"):
            Channel(other, 1.0).receive()


def test_batches_are_dealt_in_turn():
    assert shares([0, 1, 2, 3, 4], [], 1) == [[0, 1, 2, 3, 4]]
    assert shares([0, 1, 2, 3, 4], [], 2) == [[0, 2, 4], [1, 3]]
    assert shares([0, 1, 2, 3, 4], [3, 4], 2) == [[0, 2, 3], [1, 4]]  # one under way each
    assert shares([7], [], 3) == [[7], [], []]


def test_lines_are_in_the_order_of_batches(tmp_path):
    with (tmp_path / "lines").open("w") as file:
        lines = OrderedLines(file)
        lines.write(2, "2a\n")
        lines.write(0, "0a\n")
        lines.end(2)
        lines.write(1, "1a\n")
        assert (tmp_path / "lines").read_text() == "0a\n"
        lines.write(0, "0b\n")
        lines.end(0)
        assert (tmp_path / "lines").read_text() == "0a\n0b\n1a\n"
        lines.write(1, "1b\n")
        lines.end(1)
    assert (tmp_path / "lines").read_text() == "0a\n0b\n1a\n1b\n2a\n"


# Coming together.


class Meeting:
    """Process 0 waiting in a thread, and what became of it."""

    def __init__(self, count, patience=10.0, timeout=5.0, study=STUDY):
        listener = listen(0, loopback=True)
        self.address = listener.getsockname()
        self.found = None

        def wait():
            try:
                self.found = join(Rank(0, count, [], listener, "token"), study, patience, timeout)
            except (UserError, HostLost) as error:
                self.found = error

        self.thread = threading.Thread(target=wait)
        self.thread.start()

    def join(self, process_id, count, study=STUDY, token="token", timeout=5.0):
        addresses = [("127.0.0.1", 1), self.address]  # nobody answers at the first
        return join(Rank(process_id, count, addresses, None, token), study, 5.0, timeout)

    def result(self):
        self.thread.join(timeout=10.0)
        assert not self.thread.is_alive()
        return self.found


@pytest.fixture
def abandoned(monkeypatch):
    """Lines with which processes would have ended at once."""
    lines = []
    monkeypatch.setattr(hosts, "abandon", lambda line, status=1: lines.append((line, status)))
    return lines


def until(condition):
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_all_come_together_and_late_clashes_are_refused(abandoned):
    meeting = Meeting(3)
    two = meeting.join(2, 3)
    with pytest.raises(UserError, match="--process_id=2 is taken by a process on "):
        meeting.join(2, 3)
    with pytest.raises(UserError, match="belongs to another study"):
        meeting.join(1, 3, token="other")
    stray = socket.create_connection(meeting.address)
    stray.sendall(b"GET / HTTP/1.1\r\nHost: somebody who scans ports\r\n\r\n")
    one = meeting.join(1, 3)
    lead = meeting.result()
    assert isinstance(lead, Lead)
    assert lead.names.keys() == {1, 2}
    assert lead.lost is None
    with pytest.raises(UserError, match="--process_id=1 is taken by"):
        meeting.join(1, 3)
    lead.send(1, "plan", {"numbers": [4]})
    assert one.receive().fields == {"numbers": [4]}
    two.send("result", {"number": 0}, {"a": np.ones(2)})
    [(index, message)] = lead.messages(wait=5.0)
    assert (index, message.kind) == (2, "result")
    lead.close()
    assert (one.receive(), two.receive()) == (None, None)
    assert abandoned == []


@pytest.mark.parametrize(
    ("count", "study", "line"),
    [
        (3, STUDY, r"--num_processes is 3 at process 1 \(.*\) and 2 at process 0"),
        (
            2,
            STUDY | {"config": {"seeds": 2, "network": {"radius": 2.0}}},
            r"config\.network\.radius is 2\.0 there and 1",
        ),
        (2, STUDY | {"commit": "abc"}, "commit is 'abc' there and None here"),
        (2, STUDY | {"versions": {"jax": "1"}}, "versions is {'jax': '1'} there and None here"),
    ],
)
def test_who_would_run_another_study_is_refused_and_ends_it(count, study, line):
    meeting = Meeting(2)
    with pytest.raises(UserError, match=line):
        meeting.join(1, count, study)
    with pytest.raises(UserError, match=line):
        raise meeting.result()


def test_who_does_not_come_is_named_and_the_others_are_told(abandoned):
    meeting = Meeting(3, patience=0.5)
    meeting.join(1, 3)
    with pytest.raises(UserError, match=r"within 0\.5 s no process came with --process_id 2"):
        raise meeting.result()
    until(lambda: abandoned)
    assert abandoned == [
        ("error: process 0: --num_processes is 3; within 0.5 s no process came with --process_id 2", 2)
    ]


# Going.


def pair(timeout=5.0):
    meeting = Meeting(2, timeout=timeout)
    follower = meeting.join(1, 2, timeout=timeout)
    lead = meeting.result()
    assert isinstance(lead, Lead)
    assert isinstance(follower, Follower)
    return lead, follower


def test_a_follower_that_goes_with_an_error_is_lost_with_its_words(abandoned):
    lead, follower = pair()
    with pytest.raises(MemoryError), follower:
        raise MemoryError("no more")
    until(lambda: lead.lost)
    assert "is gone: it has ended: MemoryError: no more; what was saved stays" in str(lead.lost)
    assert lead.ending
    assert lead.resting()  # nobody is left to wait for
    lead.close(1, str(lead.lost))
    assert abandoned == []


def test_silence_counts_as_gone_and_a_process_that_cannot_leave_its_program_is_ended(abandoned):
    lead, follower = pair(timeout=0.5)
    follower.beat = lambda: None  # its machine is off: nothing more comes, and nothing closes
    until(lambda: lead.lost)
    assert "is gone: it has given no sign of life for 0.5 s" in str(lead.lost)
    until(lambda: len(abandoned) == 2)  # process 0 does not come to its next evaluation; process 1 hears nothing either
    assert {status for _, status in abandoned} == {1}
    assert f"error: {lead.lost}" in [line for line, _ in abandoned]
    lead.close()


def test_who_has_done_its_share_may_go(abandoned):
    lead, follower = pair()
    follower.send("rest")
    until(lead.resting)
    follower.close()
    until(lambda: not lead._channels)
    assert lead.lost is None
    assert not lead.ending
    lead.close()
    assert abandoned == []


def test_a_signal_reaches_everybody_and_the_end_has_its_status(abandoned):
    lead, follower = pair()
    assert not lead.ending
    follower.stopping = True
    until(lambda: lead.ending and follower.ending)
    assert not lead.resting()
    lead.close(130, "stopped")
    until(lambda: abandoned)
    assert abandoned == [("stopped", 130)]


def test_alone_there_is_nobody_to_wait_for():
    with join(Rank(0, 1, []), {}, 1.0, 1.0) as lead:
        assert lead.messages() == []
        assert lead.resting()
        assert not lead.ending


def test_a_message_to_a_process_that_is_gone_says_only_that_it_is():
    here, there = ends()
    with Lead(2, timeout=5.0) as lead:
        lead.add(1, "there", [], here)
        there.close()
        while lead.lost is None:
            time.sleep(0.01)
        lead.send(1, "plan", {"numbers": [1]})
    assert "process 1 (there) is gone" in str(lead.lost)


@pytest.mark.long
def test_a_process_that_gives_up_ends_also_where_nobody_reads_its_line():
    program = "import os; os.close(2); from mdfl_jax.experiments.processes.hosts import abandon; abandon('why', 3)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 3
    read, write = os.pipe()
    os.close(read)
    program = "from mdfl_jax.experiments.processes.hosts import abandon; abandon('why', 3)"
    assert subprocess.run([sys.executable, "-c", program], stderr=write, check=False).returncode == 3
    os.close(write)
