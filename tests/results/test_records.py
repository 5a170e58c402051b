"""Records: what a study has measured of each run is the same from the devices, from the files, and in parts."""

import json

import numpy as np
import pytest
from made_study import made, record_of
from mdfl_jax.results.write import lines_in_order

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.metric import Shown
from mdfl_jax.results.records import difference, in_order, joined, read
from mdfl_jax.results.summary import baselines, history_arrays, stacked, summarize
from mdfl_jax.storage.disk import plain

SWEEP = {
    "sweep": "network.mobility=static,dcm; network.radius=2,inf",
    "baseline": "network.mobility=static",
    "seeds": 3,
}


def test_a_study_read_from_its_files_is_the_one_that_was_written(tmp_path):
    written = made(tmp_path / "run", **SWEEP)
    found = read(tmp_path / "run")
    for ours, theirs in zip(written.records, found.records, strict=True):
        for record, again in zip(ours, theirs, strict=True):
            assert not difference(record, again)
            assert (again.compile_seconds, again.run_seconds) == (3.0 * (again.seed == 0), 2.0)
    assert plain(summarize(found)) == json.loads((tmp_path / "run" / "summary.json").read_text())
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert list(lines_in_order(found)) == lines
    with np.load(tmp_path / "run" / "history.npz") as arrays:
        again = history_arrays(found.records)
        assert arrays.files == list(again)
        assert "0/validation_loss" not in arrays.files
        for key in arrays.files:
            np.testing.assert_array_equal(arrays[key], again[key], err_msg=key)


def test_lines_are_by_batch_then_by_evaluation_then_by_run(tmp_path):
    lines = list(lines_in_order(made(tmp_path / "run", **SWEEP)))  # 12 runs of one program in batches of 6
    runs = [
        (p, seed)
        for p in ("static, radius=2", "static, radius=inf", "dcm, radius=2", "dcm, radius=inf")
        for seed in range(3)
    ]
    expected = [(at, *run) for batch in (runs[:6], runs[6:]) for at in (0, 2, 4) for run in batch]
    assert [(line["round"], line["point"], line["seed"]) for line in lines] == expected


def test_a_run_that_goes_on_is_the_run_of_more_rounds():
    whole, half = record_of("a", 3, rounds=8), record_of("a", 3, rounds=4)
    last = {key: 1 if len(value) == len(half.rounds) else 0 for key, value in half.arrays.items()}
    later = whole._replace(
        rounds=whole.rounds[2:],
        lines=whole.lines[2:],
        arrays={k: whole.arrays[k][len(v) - 1 :] for k, v in half.arrays.items()},
    )
    assert set(last.values()) == {0, 1}  # some have a row an evaluation, some a row a round
    found = joined(half, later)
    assert not difference(found, whole)
    assert found.run_seconds == 4.0


@pytest.mark.parametrize("what", ["accuracy", "links", "is_mobile", "rounds", "loss of metrics.jsonl"])
def test_one_other_number_is_named(what):
    one, other = record_of("a", 0), record_of("a", 0)
    assert not difference(one, other)
    if what == "rounds":
        other.rounds[1] += 1
    elif "jsonl" in what:
        other.lines[1]["loss"] += 1e-9
    else:
        values = (other.facts if what in other.facts else other.arrays)[what]
        values.flat[3] = not values.flat[3] if values.dtype == bool else np.nextafter(values.flat[3], np.float32(9))
    assert difference(one, other) == difference(other, one) == what


def test_the_baseline_is_found_by_its_text(tmp_path):
    stored = made(tmp_path / "run", **SWEEP | {"baseline": "network.radius=inf"})
    assert stored.manifest["points"][1]["overrides"]["network.radius"] == "inf"  # JSON has no infinity
    assert baselines(stored.manifest) == [1, 1, 3, 3]
    assert baselines(stored.manifest | {"config": {"baseline": "network.radius=2"}}) == [0, 0, 2, 2]
    assert baselines(stored.manifest | {"config": {"baseline": ""}}) == [None] * 4
    assert baselines(stored.manifest | {"config": {"baseline": "data.alpha=3"}}) == [None] * 4


def test_points_with_other_seeds_are_paired_by_the_common_ones(tmp_path):
    runs = [(0, 0), (0, 1), (1, 1), (1, 2), (2, 0), (3, 2)]
    stored = made(tmp_path / "run", runs, **SWEEP)
    summary = summarize(stored)
    assert [point["seeds"] for point in summary["points"]] == [[0, 1], [1, 2], [0], [2]]
    third, first = (summary["points"][p]["final_accuracy"]["per_seed"] for p in (2, 0))
    assert summary["points"][2]["baseline"] == summary["points"][0]["id"]
    assert summary["points"][2]["difference_to_baseline"] == {"mean": third[0] - first[0], "ci95": None}
    again = read(tmp_path / "run")
    assert [[record.seed for record in of_point] for of_point in again.records] == [[0, 1], [1, 2], [0], [2]]


def test_pairs_without_a_common_seed_have_no_difference(tmp_path):
    changed = SWEEP | {"sweep": "network.mobility=static,dcm"}
    summary = summarize(made(tmp_path / "run", [(0, 0), (1, 2)], **changed))
    assert [point["difference_to_baseline"] for point in summary["points"]] == [{"mean": 0.0, "ci95": None}, None]


def test_own_metrics_have_the_order_of_the_points():
    record = record_of("a", 0)
    shown = [Shown(key, key, key, 1.0, ()) for key in ("zeta", "links", "alpha", "loss")]
    assert [metric.key for metric in in_order(shown, [[record]])] == ["loss", "links", "alpha", "zeta"]


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (
            lambda folder: (folder / "metrics.jsonl").write_text(""),
            "lines of point 'static, radius=2', seed 0, are missing",
        ),
        (lambda folder: (folder / "summary.json").unlink(), "summary.json: no such file"),
        (lambda folder: _changed(folder, seeds=[0, 1]), "is not of the 2 seeds of config.json"),
        (lambda folder: _changed(folder, status="running"), "the study there is not finished"),
        (lambda folder: _changed(folder, schema=2), "schema is 2; this version reads schema 1"),
        (lambda folder: _changed(folder, points=[]), "summary.json and config.json have different sweep points"),
    ],
)
def test_files_that_do_not_fit_together_are_told_in_a_line(tmp_path, spoil, told):
    made(tmp_path / "run", **SWEEP)
    spoil(tmp_path / "run")
    with pytest.raises(UserError) as caught:
        read(tmp_path / "run")
    assert told in str(caught.value)
    assert str(tmp_path / "run") in str(caught.value)
    assert "\n" not in str(caught.value)


def _changed(folder, **entries):
    manifest = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(manifest | entries))


def test_an_array_without_nan_that_some_runs_have_not_recorded_is_left_out():
    one, other = record_of("all", 0), record_of("all", 1)
    links = np.ones((4, 6, 6), np.uint8)
    one.arrays.update(whole=links, only_here=np.ones(3, np.float32))
    other.arrays.update(only_there=np.ones(3, np.float32), there_too=np.ones(3, np.float32))
    del other.facts["reached"]
    found = stacked([one, other])
    assert not {"whole", "reached"} & set(found)
    np.testing.assert_array_equal(found["only_here"], [[1, 1, 1], [np.nan] * 3])
    np.testing.assert_array_equal(found["only_there"], [[np.nan] * 3, [1, 1, 1]])
    other.arrays["whole"] = links
    assert stacked([one, other])["whole"].dtype == np.uint8
