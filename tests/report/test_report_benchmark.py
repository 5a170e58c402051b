"""The study and the row of `benchmarks.report`, without the seconds that it takes in full."""

import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import measure, report
from mdfl_jax.report.read import read_workdir

TINY = report.Size(radii=(2,), seeds=2, rounds=8, eval_every=4, clients=10)


@pytest.fixture(scope="module")
def workdirs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    for k, variant in enumerate(report.RULES):
        report.write(folder / str(k), variant, TINY)
    return [folder / str(k) for k in range(len(report.RULES))]


def test_the_report_reads_the_synthetic_studies(workdirs):
    for workdir, moving in zip(workdirs, (2, 10)):
        run = read_workdir(workdir)
        assert (len(run.points), run.config["network"]["num_mobile"]) == (4, moving)
        places, links = run.history(1, "position"), run.history(1, "links")
        assert places.shape == (2, 9, 10, 2)
        assert ((np.diff(places, axis=1) != 0).any(axis=(0, 1, 3)).sum(), places.min() >= 0) == (moving, True)
        distances = np.linalg.norm(places[0, 3, :, None] - places[0, 3], axis=-1)
        heard = np.unpackbits(links[0, 3], axis=-1, count=10).astype(bool)
        np.testing.assert_array_equal(heard, (distances <= 2) & ~np.eye(10, dtype=bool))
    on_grid = read_workdir(workdirs[0])
    assert not np.diff(on_grid.history(0, "position"), axis=1).any()  # the rule static
    assert set(np.unique(on_grid.history(1, "position"))) <= set(range(1, 21))


def test_a_row_has_the_seconds_of_the_command_and_the_size_of_the_page(workdirs, monkeypatch):
    taken = iter([(5.0, 300.0), (3.0, 200.0), (4.0, 100.0)])

    def process(command):
        assert command[:4] == [sys.executable, "-m", "launch.report", str(workdirs[0])]
        folder = Path(command[4].removeprefix("--out="))
        (folder / "report.html").write_bytes(bytes(1_500_000))
        return next(taken)

    monkeypatch.setattr(measure, "process", process)
    assert report.row(workdirs[0], "small", 3) == {
        "variant": "small",
        "runs": 8,
        "seconds": {"median": 4.0, "min": 3.0, "max": 5.0},
        "peak_resident_mib": 300.0,
        "page_mb": 1.5,
    }


def test_a_process_is_timed_and_a_failure_is_told(capfd):
    seconds, mib = measure.process([sys.executable, "-c", "import time; print('silent'); time.sleep(0.2)"])
    assert 0.2 <= seconds < 60
    assert mib > 1
    assert capfd.readouterr().out == ""
    with pytest.raises(SystemExit, match="failed with status 3"):
        measure.process([sys.executable, "-c", "raise SystemExit(3)"])
