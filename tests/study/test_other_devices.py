"""A study that goes on with another number of devices: what is counted is exact, what is a mean may be rounded."""

import functools
import json
import signal

import numpy as np
import pytest
from forked import Started, signal_at
from small import TINY

EXACT = {"messages", "bits_sent", "links", "rounds_done", "position", "is_mobile", "label_counts", "reached"}


@pytest.mark.long
@pytest.mark.parametrize(("in_one", "begins", "ends", "seeds"), [(2, 1, 3, 2), (1, 4, 1, 1)])
def test_a_study_that_goes_on_with_other_devices_counts_the_same(tmp_path, in_one, begins, ends, seeds):
    """One command with two devices and one that begins with one and goes on with three; from four that share a run.

    Of four devices two share the run of six clients.
    """
    config = tmp_path / "tiny.py"
    config.write_text(TINY)
    arguments = [f"--config={config}", "--config.rounds=24", "--config.eval_every=4", "--noreport"]
    arguments += [f"--config.seeds={seeds}"]

    def ended(folder, devices, patch=None):
        words = [*arguments, f"--workdir={tmp_path / folder}"]
        return Started(tmp_path / "said", "sweep", *words, devices=devices, patch=patch).ended().status

    assert ended("whole", in_one) == 0
    assert ended("parts", begins, functools.partial(signal_at, 3, signal.SIGTERM)) == 130
    assert ended("parts", ends) == 0
    devices = [len(json.loads((tmp_path / name / "config.json").read_text())["devices"]) for name in ("whole", "parts")]
    assert devices == [in_one, ends]
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


@pytest.mark.long
def test_many_runs_in_turns_over_devices_that_share_them_end(tmp_path):
    """CPU devices would wait for one another forever if the programs of all turns were started at once."""
    config = tmp_path / "tiny.py"
    config.write_text(TINY)
    words = [f"--config={config}", "--config.seeds=48", "--config.engine.runs_per_batch=48", "--config.rounds=2"]
    words += ["--config.eval_every=1", "--config.data.name=synthetic:linear", "--config.engine.client_devices=2"]
    words += ["--config.algorithm.aggregation=median", f"--workdir={tmp_path / 'run'}", "--noreport"]
    assert Started(tmp_path / "said", "sweep", *words, devices=2).ended().status == 0
