"""Workdirs put together: parts of a study give the study, and what does not fit together is told in a line."""

import itertools
import json
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_study import made

from mdfl_jax.core.errors import UserError
from mdfl_jax.results.records import read_records, write_record
from mdfl_jax.storage.study_files import VIEWS
from mdfl_jax.study.merge import merge

SWEEP = {
    "sweep": "network.mobility=static,dcm; network.radius=2,inf",
    "baseline": "network.mobility=static",
    "seeds": 3,
}
RUNS = list(itertools.product(range(4), range(3)))


def assert_same(found, expected):
    """Byte-equal arrays and lines, and an equal summary; each part has its own seconds of compiling."""
    for name in ("history.npz", "metrics.jsonl"):
        assert (found / name).read_bytes() == (expected / name).read_bytes(), name
    ours, theirs = (json.loads((folder / "summary.json").read_text()) for folder in (found, expected))
    for point in (*ours["points"], *theirs["points"]):
        del point["compile_seconds"]
    assert ours == theirs


def read(folder):
    """The records of each point."""
    return read_records(folder, manifest(folder))


def manifest(folder):
    return json.loads((folder / "config.json").read_text())


@pytest.mark.long
@settings(max_examples=4, deadline=None)
@given(st.lists(st.integers(0, 2), min_size=12, max_size=12), st.permutations(range(3)))
def test_parts_of_any_kind_in_any_order_give_the_study(tmp_path_factory, owner, order):
    folder = tmp_path_factory.mktemp("parts")
    made(folder / "whole", **SWEEP)
    parts = {k: [run for run, own in zip(RUNS, owner) if own == k] for k in order}
    for k, runs in parts.items():
        if runs:
            made(folder / str(k), runs, **SWEEP)
    merge([folder / str(k) for k, runs in parts.items() if runs], folder / "merged")
    assert_same(folder / "merged", folder / "whole")
    assert "whole" not in manifest(folder / "merged")


def test_other_seeds_and_other_points_give_the_study_of_all(tmp_path):
    whole = {"sweep": "network.mobility=static,dcm,dam", "seeds": 4, "baseline": "network.mobility=static"}
    made(tmp_path / "whole", **whole)
    two = whole | {"sweep": "network.mobility=static,dcm", "seeds": 2}
    made(tmp_path / "a", **two)
    made(tmp_path / "b", **two, first_seed=2)
    alone = {"seeds": 4, "baseline": "network.mobility=static", "network.mobility": "dam"}
    made(tmp_path / "c", **alone)
    for name in VIEWS:  # they are merged from the records: views of another part change no number
        (tmp_path / "a" / name).rename(tmp_path / name)
        (tmp_path / "b" / name).rename(tmp_path / "a" / name)
        (tmp_path / name).rename(tmp_path / "b" / name)
    merge([tmp_path / name for name in "bac"], tmp_path / "merged")
    config = manifest(tmp_path / "merged")["config"]
    assert (config["sweep"], config["seeds"], config["first_seed"]) == (whole["sweep"], 4, 0)
    assert [p["id"] for p in manifest(tmp_path / "merged")["points"]] == ["static", "dcm", "dam"]
    found = {record.seed: record for record in read(tmp_path / "merged")[2]}
    expected = {record.seed: record for record in read(tmp_path / "c")[0]}
    assert not any(found[seed].difference(record) for seed, record in expected.items())
    lines = [json.loads(line) for line in (tmp_path / "merged" / "metrics.jsonl").read_text().splitlines()]
    assert [line["point"] for line in lines] == [name for name in ("static", "dcm", "dam") for _ in range(12)]
    assert sorted(manifest(tmp_path / "merged")["devices"]) == ["device of a", "device of b", "device of c"]


def test_missing_runs_are_listed_and_may_be_left_out(tmp_path):
    made(tmp_path / "a", RUNS[:5], **SWEEP)
    made(tmp_path / "b", RUNS[7:], **SWEEP)
    parts, out, told = [tmp_path / "a", tmp_path / "b"], tmp_path / "out", []
    with pytest.raises(UserError) as caught:
        merge(parts, out)
    words = "2 of 12 runs are missing: point 'static, radius=inf', seeds 2; point 'dcm, radius=2', seeds 0"
    assert str(caught.value) == f"{words}; add their workdirs, or --partial to write what is there"
    assert not out.exists()
    merge(parts, out, partial=True, log=told.append)
    assert told == [words]
    made(tmp_path / "c", RUNS[5:7], **SWEEP)
    made(tmp_path / "whole", **SWEEP)
    merge([out, tmp_path / "c"], out, overwrite=True)
    assert_same(out, tmp_path / "whole")


def test_runs_in_two_parts_must_agree(tmp_path):
    made(tmp_path / "a", RUNS[:8], **SWEEP)
    made(tmp_path / "b", RUNS[4:], **SWEEP)
    made(tmp_path / "whole", **SWEEP)
    merge([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    assert_same(tmp_path / "out", tmp_path / "whole")
    record = read(tmp_path / "b")[0][1]
    found = record.measured()
    found.arrays["loss"][0, 0] = np.nextafter(found.arrays["loss"][0, 0], np.float32(2))
    write_record(record.path, found, record.header)
    with pytest.raises(
        UserError, match=r"b and .*a disagree about point 'static, radius=inf', seed 2: loss is not the same$"
    ):
        merge([tmp_path / "a", tmp_path / "b"], tmp_path / "other")


@pytest.mark.parametrize("seed", [20261125, 10**9, 10**30])
def test_seeds_that_are_far_apart_are_not_filled_up(tmp_path, seed):
    made(tmp_path / "a")
    made(tmp_path / "b", first_seed=min(seed, 10**9), seeds=1)
    config = tmp_path / "b" / "config.json"
    # No study has the seed 10**30.
    config.write_text(config.read_text().replace(f"\n    {10**9}\n", f"\n    {seed}\n"))
    begin = time.process_time()
    with pytest.raises(UserError, match=f"seeds from 0 to {seed}: the whole study would have|config.json says"):
        merge([tmp_path / "a", tmp_path / "b"], tmp_path / "merged")
    assert time.process_time() - begin < 10
    assert not (tmp_path / "merged").exists()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"rounds": 8}, r"rounds is 8 in .*b and 4 in .*a$"),
        ({"data.alpha": 0.3, "eval_every": 4}, r"data\.alpha is .*, eval_every is 4 in .*b and 2 in .*a$"),
    ],
)
def test_studies_of_other_kinds_are_told_by_their_fields(tmp_path, changes, told):
    made(tmp_path / "a", **SWEEP)
    made(tmp_path / "b", **SWEEP | changes)
    with pytest.raises(UserError, match=told) as caught:
        merge([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_merge_that_is_done_again_leaves_nothing_else(tmp_path):
    """The records are links to those of the parts. What a killed merge has left is gone too."""
    made(tmp_path / "a", RUNS[:8], **SWEEP)
    made(tmp_path / "b", RUNS[8:], **SWEEP)
    merge([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for folder in ("", "runs"):
        (tmp_path / "out" / folder / ".name.0123456789abcdef.part").write_text("half")
    merge([tmp_path / "a", tmp_path / "b"], tmp_path / "out", overwrite=True)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    (tmp_path / "out" / "config.json").unlink()  # it is written last
    next((tmp_path / "out" / "runs").glob("*.safetensors")).unlink()
    merge([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
