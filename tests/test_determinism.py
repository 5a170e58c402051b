"""What repeats to the bit: equal seeds in one process or several, in batches of any size, whatever the cache holds."""

import functools

import jax
import pytest
from forked import Started
from tiny import run_study, tiny_config

from mdfl_jax.study import make_study
from tests.faults.harness import STUDY

SWEEP = {"sweep": "network.mobility=static,dcm", "baseline": "network.mobility=static", "seeds": 6}


def go(folder, **changes):
    run_study(make_study(tiny_config(**SWEEP | changes)), folder)
    return files(folder)


def files(folder):
    """The arrays as bytes, and the lines of metrics.jsonl, which are in the order of the batches."""
    return (folder / "history.npz").read_bytes(), sorted((folder / "metrics.jsonl").read_text().splitlines())


@pytest.fixture(scope="module", autouse=True)
def _two_devices():
    """Two devices and not eight: fewer runs than devices would let devices share a run, which rounds otherwise."""
    with pytest.MonkeyPatch.context() as patch:
        devices = jax.local_devices()[:2]
        patch.setattr(jax, "local_devices", lambda *_, **__: devices)
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return functools.cache(lambda: go(tmp_path_factory.mktemp("whole") / "run"))


@pytest.mark.long
@pytest.mark.parametrize("size", [3, 12])
def test_batches_of_any_size(tmp_path, whole, size):
    assert go(tmp_path / "run", **{"engine.runs_per_batch": size}) == whole()


@pytest.mark.long
def test_a_cold_cache_and_a_warm_one(tmp_path):
    config, found = tmp_path / "study.py", []
    config.write_text(STUDY)
    for state in ("cold", "warm"):
        words = ("sweep", f"--config={config}", f"--workdir={tmp_path / state}", "--noreport")
        assert Started(tmp_path / "log", *words, f"--cache={tmp_path / 'cache'}").ended().status == 0
        found.append(files(tmp_path / state))
    assert found[0] == found[1]
    assert any((tmp_path / "cache").iterdir())
