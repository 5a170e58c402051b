"""The scripts of docs/compare.md: ours run, and the committed results are those of the scripts as they are."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks import peers, quoted_peers
from benchmarks.house import code_lines

ROWS = {(row["experiment"], row["tool"]): row for row in json.loads(peers.FILE.read_text())["rows"]}


def test_the_results_are_of_these_scripts():
    assert set(ROWS) == {(script.experiment, script.tool) for script in peers.RUNS}
    for script in peers.RUNS:
        row = ROWS[script.experiment, script.tool]
        assert row["lines"] == code_lines(script.path), script.path.name
        assert row.get("rounds", script.rounds) == script.rounds


def test_the_readme_has_a_line_of_proof():
    assert quoted_peers.proof() in " ".join((peers.ROOT / "README.md").read_text().split())


def test_the_same_work_was_done():
    ours, theirs = (ROWS["ring", tool]["result"] for tool in (peers.OURS, "decent_bench"))
    assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-5)
    ours, theirs = (ROWS["rules", tool]["result"] for tool in (peers.OURS, "byzfl"))
    assert ours == pytest.approx(theirs, rel=1e-6)


@pytest.mark.long
@pytest.mark.parametrize(
    "script", [script for script in peers.RUNS if script.tool == peers.OURS], ids=lambda script: script.experiment
)
def test_our_scripts_run(script, tmp_path):
    peers.write_arrays(tmp_path)
    run = peers.timed(Path(sys.executable), script.path, 2, 1, folder=tmp_path, cache=tmp_path / "cache")
    assert run["cpu"] > 0
    assert set(run["said"]) == set(ROWS[script.experiment, script.tool]["result"])
