"""A study that goes on with another number of devices: what is counted is exact, what is a mean may be rounded."""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from shell import ROOT, ended, start
from small import TINY

EXACT = {"messages", "bits_sent", "links", "rounds_done", "position", "is_mobile", "label_counts", "reached"}


@pytest.mark.long
def test_a_study_that_goes_on_with_other_devices_counts_the_same(tmp_path):
    """One command with two host devices, one that begins with one and goes on with three."""
    config = tmp_path / "tiny.py"
    config.write_text(TINY)
    arguments = [f"--config={config}", "--config.rounds=400", "--config.eval_every=4", "--noreport"]

    def begin(folder, devices):
        return start("sweep", *arguments, f"--workdir={tmp_path / folder}", JAX_NUM_CPU_DEVICES=str(devices))

    assert ended(begin("whole", 2))[0] == 0
    process, lines = begin("parts", 1), tmp_path / "parts" / "metrics.jsonl"
    until = time.monotonic() + 200
    while time.monotonic() < until and (not lines.exists() or lines.read_text().count("\n") < 40):
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    assert ended(process)[0] == 130
    assert ended(begin("parts", 3))[0] == 0
    devices = [len(json.loads((tmp_path / name / "config.json").read_text())["devices"]) for name in ("whole", "parts")]
    assert devices == [2, 3]
    whole, parts = (dict(np.load(tmp_path / name / "history.npz")) for name in ("whole", "parts"))
    assert whole.keys() == parts.keys()
    compared = set()
    for name, values in whole.items():
        if name.partition("/")[2] in EXACT:
            np.testing.assert_array_equal(parts[name], values, err_msg=name)
            compared.add(name.partition("/")[2])
        elif np.issubdtype(values.dtype, np.number):
            np.testing.assert_allclose(parts[name], values, rtol=1e-4, atol=1e-5, err_msg=name)
    assert compared == EXACT


CLOCK = """
import sys, time
real, begin, step = time.time, time.monotonic(), float(sys.argv[2])
time.time = lambda: real() + step * (1 + time.monotonic() - begin)  # a clock that jumps, and then runs away
sys.path.insert(0, "tests")
from pathlib import Path
from tiny import tiny_config
from mdfl_jax.study import make_study
from mdfl_jax.study.alone import alone
from mdfl_jax.study.run import run_or_resume
from mdfl_jax.study.runner import Runner
saves = []
write = Runner._write
Runner._write = lambda *args: (saves.append(1), write(*args))
study = make_study(tiny_config(**{"loggers": "tensorboard", "engine.checkpoint_minutes": 1000.0, "save": "final"}))
with alone(Path(sys.argv[1])):
    run_or_resume(study, Path(sys.argv[1]), progress=False)
print(len(saves))
"""


@pytest.mark.long
def test_nothing_depends_on_the_time_of_day(tmp_path):
    """The same files, and the same checkpoints, whatever the clock says and however it jumps."""
    found = []
    for step in ("0", "1e8", "-1e9"):
        folder = tmp_path / step
        command = [sys.executable, "-c", CLOCK, str(folder), step]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
        assert (done.stdout, done.returncode) == ("1\n", 0), done.stderr  # the one at the end
        names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        same = [name for name in names if name.endswith((".npz", ".jsonl", ".safetensors"))]
        assert len(same) >= 5
        found.append((names, [(folder / name).read_bytes() for name in same if not name.startswith("states")]))
    assert found[0] == found[1] == found[2]
