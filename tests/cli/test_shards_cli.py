"""`launch.sweep --shard=K/N` as a user starts it: shards that make up the whole study."""

import functools
import json
import signal

import numpy as np
import pytest
from forked import Started, signal_at
from small import TINY

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A folder with the config file."""
    folder = tmp_path_factory.mktemp("shards")
    (folder / "tiny.py").write_text(TINY)
    return folder


def launch(here, command, *args, patch=None):
    """Start a command in the folder."""
    return Started(here / "said", command, "--noreport", *args, cwd=here, patch=patch)


def succeeded(here, *words):
    """Return the standard output of a command, which must succeed."""
    ended = launch(here, *words).ended()
    assert ended.status == 0, ended
    return ended.out


def test_three_shards_together_are_the_whole_study(here):
    """Each has one or two runs, and computes them with a program of its own."""
    succeeded(here, "sweep", "--config=tiny.py", "--workdir=whole")
    told = [succeeded(here, "sweep", "--config=tiny.py", "--workdir=parts", f"--shard={k}/3") for k in (1, 2, 3)]
    assert [f"shard {k}/3: {n} of these runs" in told[k - 1] for k, n in ((1, 1), (2, 1), (3, 2))] == [True] * 3
    pattern = "parts/shard-*-of-03 --workdir=parts"
    assert f"shard 1/3 is there; with the others: python -m launch.merge {pattern}\n" in told[0]
    manifest = json.loads((here / "parts" / "shard-02-of-03" / "config.json").read_text())
    assert (manifest["shard"], manifest["status"]) == ("2/3", "finished")
    succeeded(here, "merge", *sorted((here / "parts").glob("shard-*")), "--workdir=parts")
    with np.load(here / "parts" / "history.npz") as found, np.load(here / "whole" / "history.npz") as wanted:
        assert found.files == wanted.files
        assert [key for key in wanted.files if found[key].tobytes() != wanted[key].tobytes()] == []
    lines = [(here / name / "metrics.jsonl").read_text() for name in ("parts", "whole")]
    assert lines[0] == lines[1]
    again = succeeded(here, "sweep", "--config=tiny.py", "--workdir=parts")
    assert "parts holds this study, finished" in again


def test_a_shard_beyond_the_runs_has_nothing_to_do(here):
    out = succeeded(here, "sweep", "--config=tiny.py", "--workdir=many", "--shard=1/9")
    assert out == "shard 1/9: nothing is left to do, since the study has 4 runs\n"
    assert not (here / "many").exists()


def test_a_stopped_shard_goes_on_under_the_same_command(here):
    args = ("--config=tiny.py", "--config.rounds=8", "--workdir=stopped", "--shard=2/2")
    ended = launch(here, "sweep", *args, patch=functools.partial(signal_at, 2, signal.SIGTERM)).ended()
    assert ended.status == 130
    assert "goes on where stopped/shard-02-of-02 was left" in ended.err
    assert list(here.glob("stopped/shard-02-of-02/runs/*.state.safetensors"))
    assert "going on with the unfinished study" in succeeded(here, "sweep", *args)
