"""A study that goes on with another number of devices: what is counted is exact, what is a mean may be rounded."""

import json
import signal
import time

import numpy as np
import pytest
from shell import ended, start
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
