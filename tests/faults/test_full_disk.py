"""A full disk: one line that names a file, and nothing that was finished is lost."""

import os
import shutil
import subprocess

import pytest
from forked import Started

from tests.faults.harness import verdict
from tests.faults.test_surroundings import words_of

pytestmark = [pytest.mark.faults, pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")]
FLAGS = ("--config.rounds=40", "--config.eval_every=2")


@pytest.fixture
def disk(tmp_path):
    """A function that makes an empty disk of so many KiB."""
    made = []

    def mounted(kib):
        folder = tmp_path / f"disk-{kib}"
        folder.mkdir()
        size = ["-o", f"size={kib}k"]
        if subprocess.run(["mount", "-t", "tmpfs", *size, "tmpfs", folder], capture_output=True).returncode:
            pytest.skip("a tmpfs cannot be mounted here")
        made.append(folder)
        return folder

    yield mounted
    for folder in made:
        subprocess.run(["umount", "-l", folder], check=True)


def size_of(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) // 1024


@pytest.mark.parametrize("part", [0.05, 0.3, 0.6, 0.9])
def test_a_disk_that_is_full_before_the_end(tally, study, undisturbed, tmp_path, disk, part):
    """The room is a part of what the finished study takes; then the same command goes on with room."""
    whole, reference = undisturbed(*FLAGS)
    small = disk(max(16, int(part * size_of(whole))))
    folder = small / "run"
    full = Started(tmp_path / "log", *words_of(study, folder, *FLAGS)).ended()
    assert full.status == 2, full
    said = full.said().splitlines()
    assert len([line for line in said if line.startswith("error: ")]) == 1, full
    assert str(folder) in said[-1]
    assert "Traceback" not in full.err
    subprocess.run(["mount", "-o", "remount,size=64m", small], check=True)
    ended = Started(tmp_path / "log", *words_of(study, folder, *FLAGS)).ended()
    tally.add("a full disk", verdict(ended, folder, reference), part)
    tally.check()


def test_a_disk_that_is_full_of_something_else(tally, study, undisturbed, tmp_path, disk):
    _, reference = undisturbed(*FLAGS)
    small = disk(4096)
    with (small / "other").open("wb") as file:
        file.write(bytes(4096 * 1024))
    folder = small / "run"
    full = Started(tmp_path / "log", *words_of(study, folder, *FLAGS)).ended()
    assert full.status == 2, full
    assert "Traceback" not in full.err
    (small / "other").unlink()
    ended = Started(tmp_path / "log", *words_of(study, folder, *FLAGS)).ended()
    tally.add("a full disk", verdict(ended, folder, reference), "full of something else")
    tally.check()
    shutil.rmtree(folder)
