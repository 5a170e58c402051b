"""The sentences at the top of the page of a study that lacks runs: a shard, a partial merge, one being extended."""

import json

import pytest

from mdfl_jax.report.compare import read_studies
from mdfl_jax.report.page import render
from mdfl_jax.report.read import read_workdir
from mdfl_jax.report.unfinished import describe_missing
from tests.report.conftest import write_workdir
from tests.report.made_report import unfinish

WHOLE = {"points": [{"id": name} for name in ("static", "dam", "dcm")], "seeds": [0, 1, 2]}


@pytest.fixture
def shard(tmp_path):
    """The first of three shards: static under seeds 0 and 1, and dam under seed 1."""
    folder = write_workdir(tmp_path / "shard", [{"network.mobility": name} for name in ("static", "dam")], seeds=2)
    manifest = json.loads((folder / "config.json").read_text()) | {"whole": WHOLE, "shard": "1/3"}
    (folder / "config.json").write_text(json.dumps(manifest))
    return folder


def test_a_shard_says_what_it_lacks(shard, tmp_path):
    said = "This is shard 1/3 of a study: 5 of its 9 runs are missing: static (seed 2); dam (seed 2); dcm."
    run = read_workdir(shard)
    assert run.remarks == (said,)
    assert said in render(run)
    other = write_workdir(tmp_path / "other", seeds=2)
    assert f"shard: {said}" in read_studies([shard, other], tmp_path).remarks
    assert read_workdir(other).remarks == ()
    unfinished = read_workdir(unfinish(shard, lambda row: row["round"] <= 20)).remarks
    assert unfinished[0].startswith("This study is unfinished")
    assert unfinished[-1] == said


def test_seeds_are_those_of_each_point_and_many_points_are_counted():
    points = [{"id": "static", "seeds": [0]}, {"id": "dam"}, {"id": "dcm"}]
    manifest = {"points": points, "seeds": [0, 1, 2], "whole": WHOLE}
    (said,) = describe_missing(manifest)
    assert said == "This is a part of a study: 2 of its 9 runs are missing: static (seeds 1, 2)."
    assert describe_missing(manifest | {"points": [*points[1:], {"id": "static"}]}) == ()
    many = {"points": [{"id": f"p{i}"} for i in range(9)], "seeds": [0]}
    (said,) = describe_missing({"points": [], "seeds": [0], "whole": many})
    assert said.endswith("9 of its 9 runs are missing: p0; p1; p2; p3; p4; p5 and 3 more.")


def test_a_study_that_is_being_extended_says_how_far_it_is(make_workdir):
    folder = make_workdir(positions=False)
    assert read_workdir(folder).remarks == ()
    for part, seed in (("rounds", 0), ("runs", 7)):
        (folder / "extension" / part).mkdir(parents=True)
        (said,) = read_workdir(folder).remarks
        lines = [json.dumps({"point": "dcm", "seed": seed, "round": r}) for r in (0, 20)]
        (folder / "extension" / part / "metrics.jsonl").write_text("\n".join(lines) + "\n")
        (said,) = read_workdir(folder).remarks
        assert said.endswith(f"The newest evaluation is that of dcm, seed {seed}, at round 20.")
    assert "This study is being extended" in render(read_workdir(folder))
