"""One study over the devices of several processes: the results of one process, whoever is lost or disagrees."""

import functools
import signal
import socket
import time

import pytest
from forked import Started, signal_at
from small import TINY
from studies import assert_same

from mdfl_jax.core import hosts
from mdfl_jax.engine.programs import Programs
from mdfl_jax.study.runner import Program

BOUND = 10  # seconds after which hosts are to notice that another one is lost
STUDY = TINY.replace("    return config\n", "    config.save = 'final'\n    return config\n")


@pytest.fixture
def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def soon(**seconds):
    """As a patch: hosts wait for each other, or for a silent one, so many seconds."""
    for name, value in seconds.items():
        setattr(hosts, name, value)


def begin(folder, port, count, *words, devices=1, patches=None, own=None):
    """Start the same command on so many hosts, with patches and further words of single ones by number from 1."""
    (folder / "study.py").write_text(STUDY)
    same = [f"--config={folder / 'study.py'}", f"--workdir={folder / 'run'}", "--noreport", *words]
    begun = []
    for i in range(1, count + 1):
        whole = f"--hosts={i}/{count}@127.0.0.1:{port}", *same, *(own or {}).get(i, ())
        begun.append(Started(folder / f"host{i}", "sweep", *whole, devices=devices, patch=(patches or {}).get(i)))
    return begun


def ended(started, timeout=120):
    return [each.ended(timeout) for each in started]


def one_process(folder, devices, *words):
    """Run the study in one process, of which all devices share each run."""
    (folder / "study.py").write_text(STUDY)
    words = [f"--config={folder / 'study.py'}", f"--workdir={folder / 'alone'}", "--noreport", *words]
    assert Started(folder / "said", "sweep", *words, devices=devices).ended().status == 0
    return folder / "alone"


@pytest.mark.long
@pytest.mark.parametrize("devices", [1, 2])
def test_hosts_compute_what_one_process_computes_and_the_first_one_writes(tmp_path, port, devices):
    """Two hosts share each run, or each run is that of the devices of one, and the first gets what others computed."""
    words = ["--config.engine.client_devices=2", "--config.network.num_clients=8"]
    found = ended(begin(tmp_path, port, 2, *words, devices=devices))
    assert [each.status for each in found] == [0, 0]
    assert (found[1].out, found[1].said()) == ("", "")
    assert f"{2 * devices} cpu devices of 2 hosts, of which 2 share a run" in found[0].out
    assert_same(tmp_path / "run", one_process(tmp_path, 2 * devices, *words))


def killed():
    """As a patch: this host is killed when it goes on to its fourth evaluation."""
    soon(HEARTBEAT=BOUND)
    signal_at(4, signal.SIGKILL)


@pytest.mark.long
@pytest.mark.parametrize("lost", [1, 2])
def test_a_killed_host_ends_the_others_and_the_same_command_goes_on(tmp_path, port, lost):
    """Host 1 or 2 is killed before its third call of the devices' rounds, when the state of two is saved."""
    words = ["--config.rounds=24", "--config.engine.checkpoint_minutes=1e-9", "--config.engine.client_devices=2"]
    notices = functools.partial(soon, HEARTBEAT=BOUND)  # both: who beats more rarely counts as lost on a busy machine
    first = begin(tmp_path, port, 2, *words, patches={lost: killed, 3 - lost: notices})
    assert first[lost - 1].wait(120)
    since = time.monotonic()
    found = ended(first)
    assert time.monotonic() - since < 3 * BOUND
    assert found[lost - 1].status == -signal.SIGKILL
    assert found[2 - lost].status not in (0, -signal.SIGKILL)
    run = tmp_path / "run"
    assert not list((run / "runs").glob("*.npz.part"))
    again = ended(begin(tmp_path, port, 2, *words))
    assert [each.status for each in again] == [0, 0], again
    assert "going on with the unfinished study" in again[0].out
    assert_same(run, one_process(tmp_path, 2, *words))


@pytest.mark.long
def test_a_signal_to_any_host_saves_the_state_and_ends_all(tmp_path, port):
    words = ["--config.rounds=24"]
    stop = functools.partial(signal_at, 2, signal.SIGTERM)
    found = ended(begin(tmp_path, port, 2, *words, patches={2: stop}))
    assert (found[0].status, found[1].status) == (130, 0), found
    assert list((tmp_path / "run" / "runs").glob("*state*"))


def compiles(folder, first):
    """As a patch: a host compiles for a second longer than the first one, which computes only when both are ready."""
    soon(HEARTBEAT=BOUND)
    real, init = Program.compile, Programs.init

    def compile(*args):
        real(*args)
        while not first and not (folder / "True").exists():
            time.sleep(0.05)
        time.sleep(0 if first else 1)
        (folder / str(first)).touch()

    def start(*args):
        assert (folder / "False").exists(), "the other host still compiles"
        return init(*args)

    Program.compile, Programs.init = compile, start


@pytest.mark.long
def test_hosts_wait_for_one_that_compiles_longer(tmp_path, port):
    """However long: the first collective would wait for 30 seconds."""
    patches = {host: functools.partial(compiles, tmp_path, host == 1) for host in (1, 2)}
    found = ended(begin(tmp_path, port, 2, patches=patches))
    assert [each.status for each in found] == [0, 0], found


def test_a_host_that_does_not_come_is_one_line_after_a_while(tmp_path, port):
    """The first one does not come, or the second one."""
    (tmp_path / "study.py").write_text(STUDY)
    words = [f"--config={tmp_path / 'study.py'}", f"--workdir={tmp_path / 'run'}"]
    flags = [f"--hosts={i}/2@127.0.0.1:{port + i}" for i in (1, 2)]  # another port: they do not find one another
    patch = functools.partial(soon, PATIENCE=2)
    begun = [Started(tmp_path / flag[-5:], "sweep", flag, *words, patch=patch) for flag in flags]
    for given, found in zip(flags, ended(begun, 60)):
        line = f"error: {given}: not all hosts have come within 2 s\n"
        assert (found.status, found.out, found.said()) == (2, "", line)
    assert not (tmp_path / "run").exists()


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("words", "own", "line"),
    [
        ("", "--config.algorithm.lr=0.2", "algorithm.lr is 0.1 on host 1 and 0.2 on host 2 of 2"),
        ("", "--config.rounds=5", "on host 2 of 2: "),
        (
            "--config.network.num_clients=3",
            "",
            "network.num_clients is 3; with --hosts devices share each run, and ",
        ),
    ],
)
def test_hosts_that_do_not_agree_all_end_with_the_same_line(tmp_path, port, words, own, line):
    one, other = ended(begin(tmp_path, port, 2, *words.split(), devices=2, own={2: own.split()}))
    assert (one.status, one.out, one.said()) == (2, "", other.said())
    assert (other.status, other.out) == (2, "")
    assert one.said().startswith("error: " + line)
    assert one.said().count("\n") == 1
    assert not (tmp_path / "run").exists()
