"""What repeats to the bit: two processes, whatever the cache holds. Batches: tests/study/test_store.py."""

import pytest
from forked import Started

from tests.attack.harness import STUDY


def files(folder):
    """The arrays as bytes, and the lines of metrics.jsonl, which are in the order of the batches."""
    return (folder / "history.npz").read_bytes(), sorted((folder / "metrics.jsonl").read_text().splitlines())


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
