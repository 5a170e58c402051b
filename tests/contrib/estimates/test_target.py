"""Targets by name, devices that are not here, and what is said where a name, a compiler or a program is not right."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mdfl_jax import UserError
from mdfl_jax.contrib.estimates import accounts, dry_run
from mdfl_jax.core.devices import parse


def test_names():
    assert parse("tpu-v5e") == ("tpu-v5e", "tpu-v5e", 1, "2x2")
    assert parse("tpu-v4:3") == ("tpu-v4:3", "tpu-v4", 3, "2x2x1")
    assert parse("tpu-v5e:2x4") == ("tpu-v5e:2x4", "tpu-v5e", 8, "2x4")
    assert parse("a100:4") == ("a100:4", "a100", 4, "")
    for name, says in (
        ("tpu-v5", r"--target=tpu-v5: unknown target 'tpu-v5' \(did you mean 'tpu-v5[ep]'\?\); known: a100, cpu, h100"),
        ("tpu-v5e:0x2", r"after the colon stands a number of chips, or a TPU's bounds such as 2x2"),
        ("tpu-v5e:16", r"one host has 4 chips; give the bounds of more, such as tpu-v5e:2x2"),
        ("h100:9", r"h100 takes a number from 1 to 8"),
        ("cpu:2", r"cpu stands alone"),
    ):
        with pytest.raises(UserError, match=says):
            parse(name)


def children(monkeypatch, *ends):
    """Stands for the processes of the programs: (exit status, standard error, what they wrote) of each."""
    left = list(ends)

    def run(command, env, **_):
        status, said, found = left.pop(0)
        if found is not None:
            Path(env[dry_run.CHILD].split(":", 1)[1]).write_text(json.dumps(found))
        assert command[:4] == [sys.executable, "-m", "mdfl_jax.cli.entry", "sweep"]
        return subprocess.CompletedProcess(command, status, "", said)

    monkeypatch.setattr(dry_run.subprocess, "run", run)
    monkeypatch.setattr(accounts, "check_installed", lambda wanted: None)


FOUND = {
    **{"count": 2, "plan": "the plan", "points": ["second"], "num_params": 10, "flops_per_round": 1e9},
    **{"effort": "full", "compile_seconds": 1.0, "compile_cpu_seconds": 3.0, "chips_per_run": 1, "runs": 1},
    **{"runs_on_a_device": 1, "runs_per_batch": 1, "limit": 2**23, "runs_that_fit": 1, "num_runs": 6},
    **{"rounds": 4, "eval_every": 2, "bytes": {"data": 2**20, "state": 2**21, "temporary": 2**22}},
}


def test_a_compiler_that_aborts_is_reported_with_its_program_and_the_next_one_is_compiled(monkeypatch, capsys):
    begun = {"count": 2, "plan": "the plan", "points": ["first"]}
    said = "noise\nF0101 triton_tiling.cc:40] Check failed: a == b (1 vs. 2)\n*** stack\nframes\n"
    children(monkeypatch, (-6, said, begun), (0, "", FOUND))
    assert dry_run.main(parse("h100")) == 1
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
    assert dry_run.main(parse("h100")) == (fit == 0)
    assert says in capsys.readouterr().out
