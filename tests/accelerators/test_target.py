"""Targets by name, devices that are not here, and what is said where a name, a compiler or a program is not right."""

import json
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from mdfl_jax import UserError
from mdfl_jax.cli import ahead
from mdfl_jax.core import devices
from mdfl_jax.core.devices import KINDS, Target, parse
from mdfl_jax.study.ahead import accounts


@pytest.mark.parametrize(
    ("name", "kind", "chips", "bounds"),
    [
        ("tpu-v5e", "tpu-v5e", 1, "2x2"),
        ("tpu-v6e:1", "tpu-v6e", 1, "2x2"),
        ("tpu-v5e:2x4", "tpu-v5e", 8, "2x4"),
        ("tpu-v4:2x2x1", "tpu-v4", 4, "2x2x1"),
        ("tpu-v4:3", "tpu-v4", 3, "2x2x1"),
        ("h100", "h100", 1, ""),
        ("a100:4", "a100", 4, ""),
        ("cpu", "cpu", 1, ""),
    ],
)
def test_names(name, kind, chips, bounds):
    assert parse(name) == (name, kind, chips, bounds)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("tpu-v5", r"--target=tpu-v5: unknown target 'tpu-v5' \(did you mean 'tpu-v5[ep]'\?\); known: a100, cpu, h100"),
        ("H100", r"unknown target 'H100' \(did you mean 'h100'\?\)"),
        ("tpu-v5e:2by2", r"after the colon stands a number of chips, or a TPU's bounds such as 2x2"),
        ("tpu-v5e:0x2", r"after the colon"),
        ("tpu-v5e:", r"after the colon"),
        ("tpu-v5e:16", r"one host has 4 chips; give the bounds of more, such as tpu-v5e:2x2"),
        ("h100:2x2", r"h100 takes a number from 1 to 8"),
        ("h100:9", r"h100 takes a number from 1 to 8"),
        ("cpu:2", r"cpu stands alone"),
    ],
)
def test_names_that_are_wrong(name, says):
    with pytest.raises(UserError, match=says):
        parse(name)


def test_programs_are_made_for_a_target_inside_a_with_and_for_what_is_here_outside():
    here = devices.backend()
    aim = Target("tpu-v5e", "tpu", jax.local_devices()[:1], 2**34, KINDS["tpu-v5e"])
    with devices.aimed_at(aim):
        assert (devices.backend(), len(devices.devices()), devices.current().is_here) == ("tpu", 1, False)
        assert devices.compiler_options(effort="least") == {"exec_time_optimization_effort": -1.0}
        with devices.aimed_at(aim._replace(backend="gpu", kind=KINDS["h100"])):
            assert devices.backend() == "gpu"
        assert devices.backend() == "tpu"
    assert devices.backend() == here == jax.default_backend()
    assert devices.current().is_here
    assert devices.compiler_options() is None
    assert devices.devices() == jax.local_devices()


@pytest.mark.parametrize("name", ["tpu-v5e", "h100"])
def test_an_absent_compiler_is_told_with_how_to_install_it(name, monkeypatch):
    monkeypatch.setattr(accounts.importlib.util, "find_spec", lambda _: None)
    backend = KINDS[name].backend
    with pytest.raises(UserError, match=rf"--target={name}: .* not installed; pip install -e '\.\[aot-{backend}\]'"):
        accounts.check_installed(parse(name))
    accounts.check_installed(parse("cpu"))


def children(monkeypatch, *ends):
    """Stands for the processes of the programs: (exit status, standard error, what they wrote) of each."""
    left = list(ends)

    def run(command, env, **_):
        status, said, found = left.pop(0)
        if found is not None:
            Path(env[ahead.CHILD].split(":", 1)[1]).write_text(json.dumps(found))
        assert command[:4] == [sys.executable, "-m", "mdfl_jax.cli.entry", "sweep"]
        return subprocess.CompletedProcess(command, status, "", said)

    monkeypatch.setattr(ahead.subprocess, "run", run)
    monkeypatch.setattr(accounts, "check_installed", lambda wanted: None)


FOUND = {
    "count": 2,
    "plan": "the plan",
    "points": ["second"],
    "num_params": 10,
    "flops_per_round": 1e9,
    "compile_seconds": 1.0,
    "compile_cpu_seconds": 3.0,
    "effort": "full",
    "chips_per_run": 1,
    "runs": 1,
    "runs_on_a_device": 1,
    "runs_per_batch": 1,
    "bytes": {"data": 2**20, "state": 2**21, "temporary": 2**22},
    "limit": 2**23,
    "runs_that_fit": 1,
    "num_runs": 6,
    "rounds": 4,
    "eval_every": 2,
}


def test_a_compiler_that_aborts_is_reported_with_its_program_and_the_next_one_is_compiled(monkeypatch, capsys):
    begun = {"count": 2, "plan": "the plan", "points": ["first"]}
    said = "noise\nF0101 triton_tiling.cc:40] Check failed: a == b (1 vs. 2)\n*** stack\nframes\n"
    children(monkeypatch, (-6, said, begun), (0, "", FOUND))
    assert ahead.main(parse("h100")) == 1
    out = capsys.readouterr().out
    assert "first\n    does not compile: the compiler's process was ended by SIGABRT: F0101" in out
    assert "Check failed: a == b (1 vs. 2)" in out
    assert "second\n    compiles in 1 s (3 s of all cores together);" in out
    assert "runs that fit together: about 1; the study has 6" in out


@pytest.mark.parametrize(
    ("runs", "fit", "says"),
    [
        (1, 0, "does not fit: activations and gradients are the largest part: a smaller engine.tile"),
        (8, 7, "so many do not fit; about 7 do, and a study is split into such batches"),
    ],
)
def test_a_program_that_does_not_fit_tells_what_to_change_and_a_batch_is_split(runs, fit, says, monkeypatch, capsys):
    too_much = FOUND | {"count": 1, "bytes": FOUND["bytes"] | {"temporary": 2**25}}
    children(monkeypatch, (0, "", too_much | {"runs_on_a_device": runs, "runs_that_fit": fit}))
    assert ahead.main(parse("h100")) == (fit == 0)
    assert says in capsys.readouterr().out
