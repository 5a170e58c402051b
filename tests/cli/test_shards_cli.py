"""`launch.sweep --shard=K/N` as a user starts it: shards that make up the whole study."""

import functools
import signal

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
