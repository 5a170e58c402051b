"""`launch.sweep --shard=K/N` as a user starts it: shards that make up the whole study."""

import json
import signal
import time

import numpy as np
import pytest
from shell import ended, start
from small import TINY

pytestmark = pytest.mark.long
LONGER = """    config.rounds, config.eval_every, config.engine.checkpoint_minutes = 360000, 40, 0.001
    return config
"""


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A folder with two configs, one of seconds and one of hours, and with the programs, which are compiled once."""
    folder = tmp_path_factory.mktemp("shards")
    (folder / "tiny.py").write_text(TINY)
    (folder / "long.py").write_text(TINY.replace("    return config\n", LONGER))
    return folder


@pytest.fixture(scope="module")
def launch(here):
    """Starts a command on two host devices; whatever still runs at the end is killed."""
    started = []

    def begin(command, *args):
        words = ["--noreport", *args, *([f"--cache={here / 'xla'}"] if command == "sweep" else [])]
        started.append(start(command, *words, cwd=here))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def succeeded(process):
    """Standard output of a command that must succeed."""
    status, out, err = ended(process)
    assert status == 0, err
    return out


def test_three_shards_together_are_the_whole_study(launch, here):
    """Each has one or two runs, and computes them with a program of its own."""
    succeeded(launch("sweep", "--config=tiny.py", "--workdir=whole"))
    told = [succeeded(launch("sweep", "--config=tiny.py", "--workdir=parts", f"--shard={k}/3")) for k in (1, 2, 3)]
    assert [f"shard {k}/3: {n} of these runs" in told[k - 1] for k, n in ((1, 1), (2, 1), (3, 2))] == [True] * 3
    pattern = "parts/shard-*-of-03 --workdir=parts"
    assert f"shard 1/3 is there; with the others: python -m launch.merge {pattern}\n" in told[0]
    manifest = json.loads((here / "parts" / "shard-02-of-03" / "config.json").read_text())
    assert (manifest["shard"], manifest["status"]) == ("2/3", "finished")
    succeeded(launch("merge", *sorted((here / "parts").glob("shard-*")), "--workdir=parts"))
    with np.load(here / "parts" / "history.npz") as found, np.load(here / "whole" / "history.npz") as wanted:
        assert found.files == wanted.files
        assert [key for key in wanted.files if found[key].tobytes() != wanted[key].tobytes()] == []
    lines = [(here / name / "metrics.jsonl").read_text() for name in ("parts", "whole")]
    assert lines[0] == lines[1]
    again = succeeded(launch("sweep", "--config=tiny.py", "--workdir=parts"))
    assert "parts holds this study, finished" in again


def test_a_shard_beyond_the_runs_has_nothing_to_do(launch, here):
    out = succeeded(launch("sweep", "--config=tiny.py", "--workdir=many", "--shard=1/9"))
    assert out == "shard 1/9: nothing is left to do, since the study has 4 runs\n"
    assert not (here / "many").exists()


def test_a_stopped_shard_goes_on_under_the_same_command(launch, here):
    args, folder = ("--config=long.py", "--workdir=stopped", "--shard=2/2"), here / "stopped" / "shard-02-of-02"
    process = launch("sweep", *args)
    until = time.monotonic() + 200
    while not list(folder.glob("runs/*.state.safetensors")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=200)
    assert process.returncode == 130
    assert f"goes on where {folder.relative_to(here)} was left" in err
    process = launch("sweep", *args)
    line = ""
    while "going on with the unfinished study" not in line:
        line = process.stdout.readline()
        assert line, process.communicate()
    process.kill()
