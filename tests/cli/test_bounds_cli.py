"""Numbers and paths beyond all bounds, and config files that raise whatever they like: one line at once."""

import signal
import subprocess
import sys
import time

import pytest
from shell import ROOT, heed_interrupts, without_stages
from small import TINY

from mdfl_jax.cli import common, sweep

pytestmark = pytest.mark.filterwarnings("ignore:the load_module")  # ml_collections
LONG = "a" * 5000
HUGE = ",".join(map(str, range(100_000)))


@pytest.fixture
def wrong(mistake, tmp_path):
    """Runs launch.sweep on the tiny study with one more argument; its line, when nothing was written."""
    path = tmp_path / "tiny.py"
    path.write_text(TINY)

    def told(*args):
        line = mistake(sweep, "--cache=", f"--config={path}", f"--workdir={tmp_path / 'run'}", *args)
        assert not (tmp_path / "run").exists()
        return line

    return told


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            [f"--config.sweep=network.radius={HUGE}", "--config.baseline="],
            "sweep has 100,000 points; at most 10,000 are",
        ),
        ([f"--config.sweep=data.alpha=1,2;network.radius={HUGE}"], "sweep has 200,000 points; at most 10,000 are"),
        (["--config.seeds=1000000000"], "seeds is 1000000000; it must be at least 1 and at most 1000000"),
        (["--config.seeds=1000000"], "seeds is 1,000,000, which makes 2,000,000 runs of the 2 points of the sweep; at"),
        (["--config.rounds=1000000000000"], "rounds is 1000000000000; it must be at least 1 and at most 100000000"),
        (["--config.rounds=100000000"], "which makes 50,000,000 evaluations; at most 1,000,000 are allowed"),
        (
            ["--config.network.num_clients=1000000000"],
            "num_clients is 1000000000; it must be at least 1 and at most 10",
        ),
        (
            ["--config.network.grid_size=1000000000"],
            "network.grid_size is 1000000000; it must be at least 1 and at most",
        ),
        (["--shard=1/1000000000"], "--shard=1/1000000000: K in K/N must be from 1 to N, and N from 1 to 1,000,000"),
        (["--shard=1/" + "9" * 40], "it must be K/N, such as 3/16"),
    ],
)
def test_a_number_beyond_its_bound_is_told_at_once(wrong, arguments, expected):
    """The time allowed is wide, since the machine may be busy; without the bounds it is minutes."""
    start = time.monotonic()
    assert expected in wrong(*arguments)
    assert time.monotonic() - start < 60


def test_a_sweep_of_some_thousand_points_is_ready_soon():
    from tiny import tiny_config

    from mdfl_jax.config.points import group_points, points
    from mdfl_jax.config.resolve import resolve

    experiment = resolve(tiny_config(sweep="network.radius=" + ",".join(map(str, range(500)))))
    start = time.process_time()
    assert len(group_points(points(experiment))) == 1
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    "arguments",
    [
        ["--config.model.pretrained={}.npz", "--config.model.name=resnet18", "--config.model.norm=batch"],
        ["--config.graph.file={}", "--config.network.graph=file", "--config.sweep=", "--config.baseline="],
        ["--config.trace.file={}", "--config.network.mobility=trace", "--config.sweep=", "--config.baseline="],
        ["--config.server.file={}", "--config.server.pattern=table"],
        ["--config.data.dir={}", "--config.data.name=mine"],
        ["--config.data.name={}"],
        ["--config.use={}"],
        ["--use={}"],
        ["--workdir={}"],
        ["--cache={}"],
        ["--config={}"],
        ["--config.name={}"],
        ["--flagfile={}"],
    ],
)
@pytest.mark.parametrize("path", [LONG, f"/tmp/{LONG}", "two\nlines"], ids=["long", "long_below", "newline"])
def test_a_path_that_cannot_be_is_one_short_line(wrong, arguments, path, monkeypatch, tmp_path):
    if path == "two\nlines" and any(of in arguments[0] for of in ("--workdir", "--cache", "name")):
        return  # a folder may be called so
    monkeypatch.chdir(tmp_path)
    assert len(wrong(*(argument.format(path) for argument in arguments))) < 1500


RAISED = ("SystemExit", "RecursionError", "MemoryError", "GeneratorExit", "BaseException")


@pytest.mark.parametrize("name", RAISED)
@pytest.mark.parametrize("where", ["config", "in get_config", "used"])
@pytest.mark.usefixtures("unregistered")
def test_whatever_a_file_raises_is_told_with_its_line(wrong, mistake, tmp_path, name, where):
    bad = tmp_path / "bad.py"
    bad.write_text(f"\ndef get_config():\n    raise {name}\n" + "get_config()\n" * (where != "in get_config"))
    line = wrong(f"--use={bad}") if where == "used" else mistake(sweep, f"--config={bad}", "--cache=")
    assert line.rstrip().endswith(f"bad.py:3: {name}")


def test_an_endless_recursion_is_told_with_its_line(mistake, tmp_path):
    bad = tmp_path / "bad.py"
    bad.write_text("def get_config():\n    return get_config()\n")
    assert "bad.py:2: RecursionError: maximum recursion depth exceeded" in mistake(sweep, f"--config={bad}", "--cache=")


def test_what_is_no_text_is_one_line(mistake, tmp_path):
    (tmp_path / "binary.py").write_bytes(bytes(range(256)))
    assert "SyntaxError" in mistake(sweep, f"--config={tmp_path / 'binary.py'}", "--cache=")
    (tmp_path / "folder.py").mkdir()
    assert "there is no such file" in mistake(sweep, f"--config={tmp_path / 'folder.py'}", "--cache=")


@pytest.mark.long
def test_ctrl_c_while_a_config_file_is_read_is_no_mistake(tmp_path):
    """It comes from outside, wherever the file is just then."""
    slow, ready = tmp_path / "slow.py", tmp_path / "ready"
    slow.write_text(f"import time\nopen({str(ready)!r}, 'w').close()\ntime.sleep(60)\n")
    command = [sys.executable, "-m", "launch.sweep", f"--config={slow}"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, cwd=ROOT, preexec_fn=heed_interrupts, **pipes)
    while not ready.exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, without_stages(err)) == (130, "", "stopped\n")


def test_a_long_word_of_an_error_is_shortened(capfd):
    with pytest.raises(SystemExit):
        common.fail(f"it is {LONG} long")
    assert capfd.readouterr().err == f"error: it is {'a' * 100}...{'a' * 100} long\n"
