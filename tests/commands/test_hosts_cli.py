"""Several processes at one study, as a user starts them: the same results, a clear end, and lines for mistakes."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from subprocess import PIPE
from types import SimpleNamespace

import numpy as np
import pytest
from absl import flags
from safetensors.numpy import load_file
from small import TINY

from mdfl_jax.commands import cluster, common, hosts, sweep
from mdfl_jax.errors import UserError
from mdfl_jax.experiments.processes.join import Rank, join, listen

pytestmark = pytest.mark.filterwarnings("ignore:the load_module")  # ml_collections
ROOT = Path(__file__).parents[2]
LONGER = """    config.seeds, config.rounds, config.eval_every = 4, 600, 40
    config.engine.checkpoint_minutes = 0.02
    return config
"""
LONG = "--config.rounds=360000"
SLURM = {"SLURM_JOB_ID": "0", "SLURM_STEP_NODELIST": "localhost", "SLURM_NTASKS": "2"}


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A folder with the config, and programs that are compiled once."""
    folder = tmp_path_factory.mktemp("hosts")
    (folder / "tiny.py").write_text(TINY.replace("    return config\n", LONGER))
    return folder


@pytest.fixture(scope="module")
def launch(here):
    """Starts launch.sweep on two host devices; whatever still runs at the end is killed."""
    started = []

    def start(*args, **environment):
        environment = os.environ | {"XLA_FLAGS": "", "JAX_NUM_CPU_DEVICES": "2"} | environment
        environment["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
        command = [sys.executable, "-m", "launch.sweep", f"--config={here / 'tiny.py'}", f"--cache={here / 'xla'}"]
        command += ["--noreport", *map(str, args)]
        started.append(subprocess.Popen(command, cwd=ROOT, env=environment, text=True, stdout=PIPE, stderr=PIPE))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def ended(process):
    """Exit status, standard output and standard error."""
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def pair(launch, here, name, *args):
    """Two processes of one study: 0, whose workdir has the name, and 1, whose workdir must not come to be."""
    shared = f"--coordinator=127.0.0.1:{free_port()}", "--num_processes=2", *args
    lead = launch(f"--workdir={here / name}", *shared, "--process_id=0")
    return lead, launch(f"--workdir={here / 'nobody'}", *shared, "--process_id=1")


def wait_for(condition, *processes):
    while not condition():
        for process in processes:
            assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def progress(workdir):
    path = workdir / "checkpoints" / "progress.json"
    return json.loads(path.read_text()) if path.exists() else {}


def assert_same(folder, expected):
    """Equal arrays, an equal summary, and the same lines in whatever order batches were."""
    with np.load(folder / "history.npz") as found, np.load(expected / "history.npz") as wanted:
        assert found.files == wanted.files
        for key in wanted.files:
            np.testing.assert_array_equal(found[key], wanted[key], err_msg=key)
    lines = [sorted((run / "metrics.jsonl").read_text().splitlines()) for run in (folder, expected)]
    assert len(lines[1]) == 2 * 4 * 16
    assert lines[0] == lines[1]
    points = [json.loads((run / "summary.json").read_text())["points"] for run in (folder, expected)]
    for of_one, of_other in zip(*points):
        assert [of_one[k] for k in of_one if "seconds" not in k] == [
            of_other[k] for k in of_other if "seconds" not in k
        ]
    assert json.loads((folder / "config.json").read_text())["status"] == "finished"
    assert not (folder / "checkpoints").exists()


@pytest.fixture(scope="module")
def alone(launch, here):
    """The study by one process, in batches as two would have: their program is compiled once."""
    status, _, err = ended(launch(f"--workdir={here / 'alone'}", "--config.engine.runs_per_batch=4"))
    assert (status, err) == (0, "")
    return here / "alone"


@pytest.mark.long
def test_two_processes_find_what_one_finds(launch, here, alone):
    lead, follower = pair(launch, here, "two")
    assert ended(follower) == (0, "", "")
    status, out, err = ended(lead)
    assert (status, err) == (0, "")
    assert "on 2 cpu devices in each of 2 processes" in out
    assert_same(here / "two", alone)
    manifest = json.loads((here / "two" / "config.json").read_text())
    assert manifest["runs_per_batch"] == [4]  # alone it is 8: one batch for two processes would leave one idle
    assert [len(process["devices"]) for process in manifest["processes"]] == [2, 2]
    assert not (here / "nobody").exists()


@pytest.mark.long
@pytest.mark.parametrize(("save", "files"), [("every:200", 3), ("best", 1)])
def test_two_processes_keep_the_models_that_one_keeps(launch, here, save, files):
    name = save.partition(":")[0]
    one, two = here / f"{name}_alone", here / f"{name}_two"
    assert ended(launch(f"--workdir={one}", "--config.engine.runs_per_batch=4", f"--config.save={save}"))[0] == 0
    lead, follower = pair(launch, here, two.name, f"--config.save={save}")
    assert [ended(process)[0] for process in (follower, lead)] == [0, 0]
    kept = [sorted(path.relative_to(run) for path in run.glob("models/*/*")) for run in (one, two)]
    assert kept[0] == kept[1]
    assert len(kept[0]) == 2 * 4 * files
    for path in kept[0]:
        wanted = load_file(one / path)
        for key, leaf in load_file(two / path).items():
            np.testing.assert_array_equal(leaf, wanted[key])


@pytest.mark.long
def test_two_processes_count_the_costs_that_one_counts(launch, here):
    """The simulated seconds come from process 1 besides those on the clock."""
    costs, runs = ("--config.cost.latency=0.5", "--config.rounds=80"), [here / "costs_alone", here / "costs_two"]
    assert ended(launch(f"--workdir={runs[0]}", "--config.engine.runs_per_batch=4", *costs))[0] == 0
    lead, follower = pair(launch, here, runs[1].name, *costs)
    assert [ended(process)[::2] for process in (follower, lead)] == [(0, ""), (0, "")]
    with np.load(runs[0] / "history.npz") as wanted, np.load(runs[1] / "history.npz") as found:
        assert found.files == wanted.files
        for key in wanted.files:
            np.testing.assert_array_equal(found[key], wanted[key], err_msg=key)
        assert all((wanted[f"{point}/seconds"][:, -1] > 0).all() for point in (0, 1))


@pytest.mark.long
def test_one_killed_ends_the_other_with_a_line_and_one_process_goes_on(launch, here, alone):
    workdir = here / "killed"
    lead, follower = pair(launch, here, "killed")
    assert "2 points x 4 seeds" in lead.stdout.readline()
    follower.send_signal(signal.SIGSTOP)  # so that it cannot be through before it is killed
    wait_for(lambda: progress(workdir), lead)
    follower.kill()
    killed = time.monotonic()
    status, _, err = ended(lead)
    assert time.monotonic() - killed < 30
    assert status == 1
    assert err.startswith(f"error: process 1 ({socket.gethostname()}) is gone: it has closed the connection; what was")
    assert err.count("\n") == 1
    assert "goes on from it" in err
    assert {json.loads(line)["point"] for line in (workdir / "metrics.jsonl").read_text().splitlines()}
    assert json.loads((workdir / "config.json").read_text())["status"] == "running"
    assert "batch-001" not in progress(workdir)["finished"]
    status, out, err = ended(launch(f"--workdir={workdir}"))
    assert (status, err) == (0, "")
    assert f"going on with the unfinished run in {workdir}" in out
    assert_same(workdir, alone)


@pytest.mark.long
def test_a_signal_to_any_process_saves_all_and_a_cluster_goes_on(launch, here, alone):
    """Gone on with under what SLURM sets, found by jax.distributed."""
    workdir = here / "stopped"
    lead, follower = pair(launch, here, "stopped")
    wait_for(
        lambda: (workdir / "metrics.jsonl").exists() and (workdir / "metrics.jsonl").stat().st_size, lead, follower
    )
    follower.terminate()
    assert ended(follower)[0] == 130
    status, _, err = ended(lead)
    assert status == 130
    assert err == f"stopped; the same command, without --overwrite, goes on where {workdir} was left\n"
    saved = progress(workdir)
    assert {name.split("-")[1] for name in [*saved["finished"], *saved["states"]]} == {"000", "001"}
    cluster = SLURM | {"JAX_COORDINATOR_PORT": str(free_port())}
    both = [
        launch(f"--workdir={workdir}", "--coordinator=auto", **cluster, SLURM_PROCID=k, SLURM_LOCALID=k) for k in "01"
    ]
    assert [ended(process)[0] for process in both] == [0, 0]
    assert_same(workdir, alone)


# In this process.


@pytest.fixture
def told(here, tmp_path, monkeypatch, capfd):
    """Runs launch.sweep with flags that are wrong; returns its line, checked to be all that it did."""
    monkeypatch.chdir(ROOT)

    def call(*args):
        argv = ["sweep", "--cache=", f"--config={here / 'tiny.py'}", f"--workdir={tmp_path / 'run'}", *args]
        sys.modules.pop("config_config", None)  # what ml_collections calls a config file
        monkeypatch.setattr(sys, "argv", argv)
        before = set(flags.FLAGS)
        capfd.readouterr()
        try:
            with pytest.raises(SystemExit) as ended:
                common.call(lambda: common.parse_flags(argv) and sweep.main())
        finally:
            for name in set(flags.FLAGS) - before:  # ml_collections defines a flag for each --config.KEY
                delattr(flags.FLAGS, name)
            flags.FLAGS.unparse_flags()
            for name in ("config", "workdir", "coordinator", "num_processes", "process_id", "start_timeout"):
                flags.FLAGS[name].unparse()
        out, err = capfd.readouterr()
        assert (ended.value.code, out) == (2, "")
        assert err.startswith("error: ")
        assert err.count("\n") == 1
        assert not (tmp_path / "run").exists()
        return err

    return call


@pytest.mark.long
def test_clashes_are_told_and_a_study_outlives_them_but_not_its_process_0(launch, here, told):
    port = free_port()
    shared = LONG, f"--coordinator=localhost:{port}", "--num_processes=2"
    lead = launch(f"--workdir={here / 'lost'}", *shared, "--process_id=0")
    follower = launch(*shared, "--process_id=1")
    wait_for(lambda: (here / "lost" / "metrics.jsonl").exists(), lead, follower)
    line = told(*shared, "--process_id=1")
    assert line == f"error: --process_id=1 is taken by a process on {socket.gethostname()}\n"
    line = told(*shared, "--process_id=0")
    assert (
        f"--coordinator=localhost:{port}: process 0 cannot take port {port} (Address already in use); is there" in line
    )
    assert lead.poll() is None
    lead.kill()
    status, out, err = ended(follower)
    assert (status, out) == (1, "")
    assert err.startswith("error: process 0 is gone: it has closed the connection; what was saved stays")
    assert err.count("\n") == 1


def test_processes_of_two_studies_are_told_apart(told):
    """Another study waits in a thread; both are told."""
    listener = listen(0, loopback=True)
    waiting = []

    def wait():
        with pytest.raises(UserError) as error:
            join(Rank(0, 2, [], listener), {"config": {"name": "tiny", "seeds": 5}}, 60.0, 30.0)
        waiting.append(str(error.value))

    thread = threading.Thread(target=wait)
    thread.start()
    address = f"127.0.0.1:{listener.getsockname()[1]}"
    line = told(f"--coordinator={address}", "--num_processes=2", "--process_id=1")
    assert "would run another study than process 0: config.seeds is 4 there and 5 here" in line
    thread.join(timeout=10)
    assert f"error: {waiting[0]}\n" == line


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--process_id=1"], "--process_id is 1, but --coordinator=HOST:PORT is missing"),
        (["--num_processes=2"], "--num_processes is 2, but --coordinator=HOST:PORT is missing"),
        (["--coordinator=h:1", "--num_processes=2"], "--coordinator=h:1 needs --process_id too"),
        (["--coordinator=h:1", "--process_id=0"], "--coordinator=h:1 needs --num_processes too"),
        (
            ["--coordinator=h:1", "--num_processes=2", "--process_id=2"],
            "--process_id is 2; it must be from 0 to 1, since --num_processes is 2",
        ),
        (["--coordinator=h:1", "--num_processes=2", "--process_id=-1"], "--process_id is -1; it must be from 0 to 1"),
        (["--coordinator=h:1", "--num_processes=0", "--process_id=0"], "--num_processes is 0; it must be at least 1"),
        (["--coordinator=auto", "--process_id=0"], "--process_id is 0; with --coordinator=auto it is the cluster that"),
        (["--coordinator=h:1", "--num_processes=two", "--process_id=0"], "--num_processes=two"),
        (["--start_timeout=0"], "--start_timeout=0"),
    ],
)
def test_wrong_flags_are_one_line(told, args, expected):
    assert expected in told(*args)


@pytest.mark.parametrize("given", ["h", "h:", ":1", "h:0", "h:65536", "h:x", "http://h:1", "::1:80", ""])
def test_a_coordinator_that_is_no_address_is_one_line(told, given):
    line = told(f"--coordinator={given}", "--num_processes=2", "--process_id=1")
    assert f"--coordinator={given}: it must be HOST:PORT with a port from 1 to 65535, or auto" in line


def test_a_coordinator_that_does_not_answer_is_one_line(told):
    flags_of_1 = "--num_processes=2", "--process_id=1", "--start_timeout=1"
    port = free_port()
    line = told(f"--coordinator=127.0.0.1:{port}", *flags_of_1)
    assert f"process 0 has not answered at 127.0.0.1:{port} within 1 s (Connection refused)" in line
    with socket.create_server(("127.0.0.1", 0)) as mute:
        line = told(f"--coordinator=127.0.0.1:{mute.getsockname()[1]}", *flags_of_1)
    assert "within 1 s (has given no sign of life" in line


def test_a_process_that_does_not_come_is_one_line(told):
    args = f"--coordinator=127.0.0.1:{free_port()}", "--num_processes=3", "--process_id=0", "--start_timeout=1"
    assert "--num_processes is 3; within 1 s no process came with --process_id 1, 2" in told(*args)


def test_a_machine_outside_any_cluster_is_told(monkeypatch):
    for name in [name for name in os.environ if name.startswith(("SLURM_", "JAX_COORD", "OMPI_", "KUBERNETES_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(hosts, "START_TIMEOUT", SimpleNamespace(value=5.0))
    with pytest.raises(UserError, match="--coordinator=auto: JAX finds no cluster here"):
        hosts._of_cluster()


@pytest.mark.long
def test_a_cluster_whose_other_process_never_starts_is_told(monkeypatch):
    for name, value in (
        SLURM | {"JAX_COORDINATOR_PORT": str(free_port()), "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
    ).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match="its processes did not find one another within 3 s"):
        cluster.find("words", 3.0)
