"""The launchers as a user meets them: files, exit statuses, and one line on standard error for every mistake."""

import importlib.util
import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import pytest
from shell import ROOT, ended, start
from small import TINY

from mdfl_jax.cli import common, sweep

pytestmark = pytest.mark.filterwarnings("ignore:the load_module")  # ml_collections


@pytest.fixture
def tiny(tmp_path):
    path = tmp_path / "tiny.py"
    path.write_text(TINY)
    return path


# In this process.


@pytest.fixture
def told(mistake, tmp_path, monkeypatch):
    """Runs launch.sweep with arguments that are wrong; returns its line, checked to be all that it did."""
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("MDFL_DATA_DIR", raising=False)

    def call(*args):
        before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
        line = mistake(sweep, "--cache=", *args)
        assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.suffix != ".pyc"} == before
        return line

    return call


@pytest.fixture
def wrong(told, tiny, tmp_path):
    """`told` of the tiny study with one more argument, and a workdir that must not come to be."""
    return lambda *args: told(f"--config={tiny}", f"--workdir={tmp_path / 'run'}", *args)


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("--workdir=--overwrite", "--workdir=--overwrite: a value is missing"),
        ("--confg=x", "Unknown command line flag 'confg'. Did you mean: config ?"),
        ("--workdirr=x", "Did you mean: workdir ?"),
        ("--nope", "Unknown command line flag 'nope'"),
        ("extra", "unexpected argument 'extra'; settings are given as --name=value"),
        ("--overwrite=maybe", "flag --overwrite=maybe: it must be true or false"),
        ("--workdir", "Missing value for flag --workdir"),
        ("--flagfile=/nope", "Unable to open flagfile"),
        ("--config.nope=1", "unknown config key 'nope'; among the "),
        ("--config.=1", "unknown config key ''"),
        ("--config.radius=1", "(did you mean 'network.radius'?)"),
        ("--config.network=3", "network is a section; set its fields, as in network.FIELD=VALUE"),
        ("--config.cost=3", "cost is a section; set its fields, as in cost.FIELD=VALUE"),
        ("--config.network.radis=3", "unknown config key 'network.radis' (did you mean 'network.radius'?); among the "),
        ("--config.network.radius.x=3", "unknown config key 'network.radius.x'"),
        ("--config.network.radius=abc", "network.radius is 'abc'; it must be a number"),
        ("--config.network.radius=nan", "network.radius is nan; it must be at least 0"),
        ("--config.network.num_clients=2.5", "network.num_clients is '2.5'; it must be a whole number"),
        ("--config.seeds=true", "seeds is 'true'; it must be a whole number"),
        ("--config.seeds=", "seeds is ''; it must be a whole number"),
        ("--config.engine.record_positions=2", "engine.record_positions is '2'; it must be true or false"),
        ("--config.model.widths=a", "model.widths is 'a'; it must be whole numbers, as in 16x32"),
        (
            "--config.model.pretrained=w.npz",
            "model.pretrained is 'w.npz'; model.name is linear, and there are weights of resnet18, resnet50",
        ),
        ("--config.rounds=5", "rounds is 5; it must be a multiple of eval_every, which is 2"),
        (
            "--config.engine.client_devices=3",
            "engine.client_devices is 3; it must divide the 8 devices: 1, 2, 4 or 8",
        ),
        ("--config.engine.client_devices=16", "engine.client_devices is 16; it must divide the 8 devices:"),
        ("--config.network.num_mobile=7", "must be at most network.num_clients, which is 6"),
        (
            "--config.sweep=network.mobility=static,dcn",
            "unknown mobility 'dcn' (did you mean 'dcm'?); known:",
        ),
        ("--config.data.name=digts", "unknown data.name 'digts' (did you mean 'digits'?)"),
        ("--config.sweep=network.mobilty=dcm", "sweep: unknown config key 'network.mobilty' (did you mean"),
        ("--config.baseline=network.mobility=dcn", "baseline: network.mobility: unknown mobility 'dcn'"),
        ("--config.network.mobility=dam", "--config.network.mobility is given, and the sweep varies this field"),
    ],
)
def test_a_wrong_argument_is_one_line(wrong, argument, expected):
    assert expected in wrong(argument)


def test_a_value_may_stand_by_itself_and_be_missing(wrong):
    assert "seeds is 0; it must be at least 1" in wrong("--config.seeds", "0")
    assert "seeds is ''; it must be a whole number" in wrong("--config.seeds")


def test_a_target_is_for_a_dry_run_and_known(wrong, told, tiny, monkeypatch):
    assert "--target=h100 is for --dry_run; a study runs on the devices that are there" in wrong("--target=h100")
    assert "--effort=full is for --dry_run --target" in wrong("--effort=full")
    wrong_target = lambda name: told(f"--config={tiny}", "--dry_run", f"--target={name}")  # noqa: E731
    assert "--target=h10: unknown target 'h10' (did you mean 'h100'?); known: a100, cpu, h100" in wrong_target("h10")
    assert "after the colon stands a number of chips" in wrong_target("tpu-v5e:x")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "the compiler of that device is not installed; pip install -e '.[aot-tpu]'" in wrong_target("tpu-v4:2x2x1")


@pytest.mark.parametrize("given", ["nope.py", "configs", "configs/digit.py"])
def test_an_absent_config_file_lists_the_known_ones(told, given):
    line = told(f"--config={given}")
    assert f"--config={given}: there is no such file; unknown study '{Path(given).stem}'" in line
    assert "known: arena, " in line
    assert ("did you mean 'digits'?" in line) == (given == "configs/digit.py")


def test_no_config_file_is_told(told, tmp_path):
    assert "--config=FILE is missing, for example --config=configs/digits.py" in told(f"--workdir={tmp_path / 'run'}")
    assert "--config=--overwrite: there is no such file" in told("--config", "--overwrite")
    assert "--config=: there is no such file" in told("--config=")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("def get_config(:", "bad.py:1: SyntaxError: invalid syntax"),
        ("\0", "SyntaxError: "),
        ("import nosuchmodule", "bad.py:1: ModuleNotFoundError: No module named 'nosuchmodule'"),
        ("x = 1", "it has no function get_config"),
        ("def get_config(a):\n    return 1", "TypeError: get_config() missing 1 required positional argument"),
        ("import sys\nsys.exit(3)", "bad.py:2: SystemExit: 3"),
        ("import sys\ndef get_config():\n    sys.exit('why')", "bad.py:3: SystemExit: why"),
        ("def get_config():\n    return None", "get_config() returned None; it must return a ConfigDict"),
        ("def get_config():\n    return 3", "get_config() returned 3; it must return a ConfigDict"),
        ("def get_config():\n    raise RuntimeError('two\\nlines')", "bad.py:2: RuntimeError: two lines"),
        ("def get_config():\n    return int('x')", "bad.py:2: ValueError: invalid literal"),
        ("import json\ndef get_config():\n    json.loads('x')", "bad.py:3: JSONDecodeError: Expecting value"),
        ("def get_config():\n    open('/nope/x')", "bad.py:2: FileNotFoundError: "),
        ("def get_config():\n    return {'network': 3}", "network is a section; set its fields"),
        ("def get_config():\n    return {'seeds': 0}", "seeds is 0; it must be at least 1"),
        (f"{TINY}\nget_config().network.radus = 3", 'Did you mean "radius" instead of "radus"?'),
        (f"{TINY}\nget_config().seeds = 'a'", "TypeError: Could not override field 'seeds'"),
    ],
)
def test_a_wrong_config_file_is_told_with_its_line(told, tmp_path, content, expected):
    path = tmp_path / "bad.py"
    path.write_text(content)
    assert expected in told(f"--config={path}", f"--workdir={tmp_path / 'run'}")


def test_an_argument_for_a_config_that_takes_none_is_told(told, tiny):
    assert "takes 0 positional arguments but 1 was given" in told(f"--config={tiny}:x")


@pytest.mark.usefixtures("unregistered")
def test_a_used_file_that_is_wrong_is_told_with_its_line(told, tiny, tmp_path):
    bad, by_config = tmp_path / "bad.py", tmp_path / "by_config.py"
    bad.write_text("\n1 / 0")
    by_config.write_text(TINY.replace("return config", f"config.use = {str(bad)!r}; return config"))
    workdir = f"--workdir={tmp_path / 'run'}"
    for flag in (f"--use={bad}", f"--config.use={tiny},{bad}"):
        assert "bad.py:2: ZeroDivisionError: division by zero" in told(f"--config={tiny}", flag, workdir)
    assert "bad.py:2: ZeroDivisionError: division by zero" in told(f"--config={by_config}", workdir)
    assert "use is 'nope.py': there is no such file" in told(f"--config={tiny}", "--use=nope.py", workdir)


@pytest.mark.usefixtures("unregistered")
def test_a_rule_that_returns_another_shape_is_told_before_anything_is_written(told, tiny, tmp_path):
    rule = tmp_path / "rule.py"
    rule.write_text(
        "from mdfl_jax.mobility import MOBILITIES, grid_mobility\n\n@MOBILITIES.register('flat')\ndef flat():\n"
        "    def move(key, client, world, plan):\n        return client._replace(location=world.grid[0])\n"
        "    return grid_mobility(move)\n"
    )
    flags = f"--use={rule}", "--config.sweep=", "--config.baseline=", "--config.network.mobility=flat"
    line = told(f"--config={tiny}", *flags, f"--workdir={tmp_path / 'run'}")
    assert "rule.py:5: move returned float32[6, 2] in .location; it must be int32[6]" in line


def test_a_workdir_that_cannot_be_is_told(told, tiny, tmp_path):
    assert f"{tiny} is not a directory" in told(f"--config={tiny}", f"--workdir={tiny}")
    assert f"{tiny} is not a directory" in told(f"--config={tiny}", f"--workdir={tiny / 'below'}", "--overwrite")
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine").touch()
    assert "it holds files of something else (mine)" in told(f"--config={tiny}", f"--workdir={other}")
    (other / "config.json").write_text('{"name": "first", "config": {"seeds": 3}}')
    assert f"{other / 'config.json'}: schema is None" in told(f"--config={tiny}", f"--workdir={other}")
    (other / "config.json").write_text('{"name": ')
    assert f"{other / 'config.json'}: not valid JSON" in told(f"--config={tiny}", f"--workdir={other}")


def test_a_used_file_that_ends_the_program_is_one_line(wrong, tmp_path):
    (tmp_path / "stop.py").write_text("import sys\nsys.exit(3)")
    assert "stop.py:2: SystemExit: 3" in wrong(f"--use={tmp_path / 'stop.py'}")


def test_a_cache_that_is_no_directory_is_told(tiny):
    with pytest.raises(ValueError, match=r"--cache=.* it is not a directory"):
        common.setup_jax(str(tiny))


def test_a_want_of_memory_is_one_line_and_other_errors_are_not_hidden(capfd):
    def fail(message):
        raise jax.errors.JaxRuntimeError(message)

    with pytest.raises(SystemExit) as ended:
        common.call(lambda: fail("RESOURCE_EXHAUSTED: Out of memory allocating 1048576 bytes.\nmore"))
    assert ended.value.code == 2
    err = capfd.readouterr().err
    assert err.startswith("error: not enough memory: 1.0 MiB were asked for; less is needed with fewer clients")
    assert err.count("\n") == 1
    with pytest.raises(jax.errors.JaxRuntimeError):
        common.call(lambda: fail("INTERNAL: a bug"))


def test_control_c_is_no_traceback(capfd):
    def interrupted():
        raise KeyboardInterrupt

    assert common.call(interrupted) == 130
    assert capfd.readouterr().err == "stopped\n"


# In processes of their own.


def launch(module, *args):
    """Starts a launcher on two host devices, with programs that compile fast."""
    return start(module, *args, JAX_DISABLE_MOST_OPTIMIZATIONS="1")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("xla")


@pytest.mark.long
def test_a_study_from_the_shell_and_its_report_made_again(tiny, tmp_path, cache):
    workdir = tmp_path / "run"
    status, out, err = ended(launch("sweep", f"--config={tiny}", f"--workdir={workdir}", f"--cache={cache}"))
    assert (status, err) == (0, "")
    assert out.startswith("tiny: 2 points x 2 seeds = 4 runs of 4 rounds, evaluated every 2; 1 compiled program")
    assert "vs baseline (pp)" in out
    assert out.rstrip().endswith(f"report: {workdir / 'report.html'}")
    assert (workdir / "figures").is_dir()
    assert f"launch.sweep --config={tiny}" in json.loads((workdir / "config.json").read_text())["command"]
    before = (workdir / "report.html").read_bytes()
    (workdir / "report.html").unlink()
    shutil.rmtree(workdir / "tables")
    assert ended(launch("report", f"--workdir={workdir}")) == (0, f"{workdir / 'report.html'}\n", "")
    assert (workdir / "report.html").read_bytes() == before
    assert ended(launch("report", f"--workdir={workdir}", "--x=round")) == (0, f"{workdir / 'report.html'}\n", "")
    assert (workdir / "report.html").read_bytes() == before
    assert (workdir / "tables" / "summary.csv").is_file()
    status, out, err = ended(launch("report", f"--workdir={tmp_path}"))
    assert (status, out) == (2, "")
    assert err == f"error: {tmp_path}: it holds no study: there is no config.json\n"


@pytest.mark.long
def test_sigterm_ends_with_130_and_the_same_command_goes_on(tiny, tmp_path, cache):
    """That the result is the one of a run which nobody stopped is checked in tests/study."""
    stopped = tmp_path / "stopped"
    args = f"--config={tiny}", "--config.rounds=400", f"--cache={cache}", "--noreport", f"--workdir={stopped}"
    first = launch("sweep", *args)
    while not (stopped / "metrics.jsonl").exists() or (stopped / "metrics.jsonl").stat().st_size < 10_000:
        assert first.poll() is None
        time.sleep(0.02)
    first.send_signal(signal.SIGTERM)
    status, _, err = ended(first)
    assert status == 130
    assert err.splitlines() == [
        "stopping after this evaluation, and saving the state (once more: stop at once, without saving) ...",
        f"stopped; the same command, without --overwrite, goes on where {stopped} was left",
    ]
    assert not (stopped / "summary.json").exists()
    status, out, err = ended(launch("sweep", *args))
    assert (status, err) == (0, "")
    assert f"going on with the unfinished run in {stopped}" in out
    assert (stopped / "metrics.jsonl").read_text().count("\n") == 2 * 2 * 201
    assert not (stopped / "workers").exists()


@pytest.mark.long
def test_a_study_of_which_a_point_diverges_ends_with_a_warning_and_status_0(tiny, tmp_path, cache):
    args = f"--config={tiny}", f"--workdir={tmp_path / 'run'}", f"--cache={cache}", "--noreport"
    steps = "--config.sweep=algorithm.lr=0.1,1e30", "--config.baseline=", "--config.algorithm.weight_decay=0.01"
    status, out, err = ended(launch("sweep", *args, *steps))
    assert status == 0
    (line,) = err.splitlines()
    assert line.startswith("warning: lr=1e+30: diverged: seed 0 in round 1 with norm ")
    assert "; seed 1 in round 1 with norm " in line
    assert line.endswith(" (algorithm.lr is 1e+30; a smaller step may help)")
    assert "models DIVERGED, and are in no mean: lr=1e+30 (seeds 0 and 1)" in " ".join(out.split())
    assert ended(launch("sweep", *args, *steps))[::2] == (0, "")  # a finished study is not warned of again


def test_info_says_versions_and_devices():
    status, out, err = ended(launch("info"))
    assert (status, err) == (0, "")
    assert "\nmdfl_jax 0." in out
    assert out.count("\ndevice cpu:") == 2
    assert "\ncompilation cache " in out


def test_mistakes_from_the_shell(tmp_path):
    """What stands before the flags are parsed: absl's own start, and files of flags."""
    wrong = {"--flagfile=/nope": "Unable to open flagfile", "--confg=x": "Did you mean: config ?"}
    for argument, expected in wrong.items():
        status, out, err = ended(launch("sweep", argument, f"--workdir={tmp_path / 'run'}"))
        assert (status, out) == (2, "")
        assert err.startswith("error: ")
        assert err.count("\n") == 1
        assert expected in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_a_dry_run_tells_the_plan_and_writes_nothing(tiny, tmp_path):
    command = [sys.executable, "-m", "launch.sweep", f"--config={tiny}", f"--workdir={tmp_path / 'run'}", "--dry_run"]
    done = subprocess.run([*command, f"--cache={tmp_path / 'cache'}"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "GFLOP a round" in done.stdout
    assert "seeds (runs) that fit together" in done.stdout
    assert not (tmp_path / "run").exists()


@pytest.mark.long
@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("--suite=mnist", "unknown suite 'mnist' (did you mean 'mnist_round'?); known: "),
        ("--suite=digits_round --vs=tensorflow", "unknown rival 'tensorflow'; known: torch"),
        ("--suite=digits_round --precision=half", "unknown precision 'half'; known: bfloat16, float32, tensorfloat32"),
    ],
)
def test_a_wrong_benchmark_is_one_line_that_lists_the_known(argument, expected):
    command = [sys.executable, "-m", "benchmarks.throughput", *argument.split()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert expected in done.stderr
    assert done.stderr.count("\n") == 1
