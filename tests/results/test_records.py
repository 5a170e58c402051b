"""Records of runs: what was measured comes back, alone and stacked; whatever no study writes is one line."""

import json
import shutil
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_study import made, measured, put

from mdfl_jax import Results
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.metric import Shown
from mdfl_jax.results import records
from mdfl_jax.results.records import FORMAT, PointArrays, RunRecord, StudyArrays, in_order, joined, lines_of_point
from mdfl_jax.storage import array_files
from mdfl_jax.storage.disk import dumps

NAME = "made-0123456789abcdef-s{}-r{}"
LINES = "lines/json"


def stored(folder, found, **header):
    return put(folder, NAME.format(found.seed, found.rounds[-1]), found, {}, **header)


def test_what_a_run_has_measured_comes_back_from_its_file(tmp_path):
    found = measured("a", 3)
    record = stored(tmp_path, found)
    again = record.measured()
    for part in ("arrays", "facts"):
        ours, theirs = getattr(found, part), getattr(again, part)
        assert ours.keys() == theirs.keys()
        for key, array in ours.items():
            assert array.dtype == theirs[key].dtype
            np.testing.assert_array_equal(array, theirs[key])
    assert (again.seed, again.lines, again.compile_seconds, again.run_seconds) == (3, found.lines, 1.0, 2.0)
    np.testing.assert_array_equal(again.rounds, found.rounds)
    assert list(lines_of_point("p", record)) == [{"point": "p", **line} for line in found.lines]
    assert record.nbytes == sum(array.nbytes for array in found.arrays.values())
    with pytest.raises(KeyError):
        record.array("none")


def test_a_run_that_goes_on_is_the_run_of_more_rounds(tmp_path):
    whole, half = measured("a", 3, rounds=8), measured("a", 3, rounds=4)
    assert {len(value) == len(half.rounds) for value in half.arrays.values()} == {True, False}  # a row a round as well
    rest = {key: whole.arrays[key][len(of) - 1 :] for key, of in half.arrays.items()}
    found = joined(half, whole._replace(rounds=whole.rounds[2:], lines=whole.lines[2:], arrays=rest))
    assert not stored(tmp_path / "a", found).difference(stored(tmp_path / "b", whole))
    assert found.run_seconds == 4.0


@pytest.mark.parametrize("what", ["accuracy", "links", "is_mobile", LINES])
def test_one_other_number_is_named(tmp_path, what):
    one, other = measured("a", 0), measured("a", 0)
    if what == LINES:
        other.lines[1]["loss"] += 1e-9
    else:
        values = (other.facts if what in other.facts else other.arrays)[what]
        values.view(np.uint8).flat[3] ^= 1
    records = [stored(tmp_path / str(k), of) for k, of in enumerate((one, one._replace(run_seconds=9.0), other))]
    assert records[0].difference(records[1]) == ""
    assert records[0].difference(records[2]) == records[2].difference(records[0]) == what


KINDS = {"f": np.float32, "d": np.float64, "n": np.int32, "b": np.bool_}  # the first letter of a metric's name


@settings(deadline=None, max_examples=25)
@given(st.lists(st.lists(st.sets(st.sampled_from([f"{k}{i}" for k in KINDS for i in "12"])), min_size=1, max_size=3),
                min_size=1, max_size=3))  # fmt: skip
def test_arrays_over_the_seeds_are_stacked_and_what_a_run_lacks_is_nan_or_left_out(tmp_path_factory, points):
    folder, rng = tmp_path_factory.mktemp("stacked"), np.random.default_rng(len(points))
    records, expected = [], {"rounds": np.array([0, 2, 4], np.int32)}
    for p, of_runs in enumerate(points):
        runs = []
        for seed, names in enumerate(of_runs):
            run = measured(f"{p}", seed)
            own = {name: rng.integers(0, 2, (3, 2)).astype(KINDS[name[0]]) for name in sorted(names)}
            runs.append(run._replace(arrays=run.arrays | own))
            if seed == 1:
                del runs[-1].facts["reached"]
        records.append([stored(folder / str(p), run) for run in runs])
        for key in dict.fromkeys(key for run in runs for key in run.arrays):
            there = [run.arrays.get(key) for run in runs]
            if all(of is not None for of in there):
                expected[f"{p}/{key}"] = np.stack(there)
            elif key[0] in "fd":
                like = next(of for of in there if of is not None)
                expected[f"{p}/{key}"] = np.stack([np.full_like(like, np.nan) if of is None else of for of in there])
        for key in runs[0].facts:
            if all(key in run.facts for run in runs):
                expected[f"{p}/{key}"] = np.stack([run.facts[key] for run in runs])
    found = StudyArrays([PointArrays(of_point) for of_point in records])
    assert set(found) == set(expected) == {key for key in expected if key in found}
    assert len(found) == len(expected)
    for key, array in expected.items():
        assert found[key].dtype == array.dtype
        np.testing.assert_array_equal(found[key], array)
    for absent in ("", "0/none", "9/accuracy", "accuracy", "x/accuracy"):
        assert absent not in found
        with pytest.raises(KeyError):
            found[absent]


def test_seeds_with_other_shapes_are_one_line(tmp_path):
    runs = [measured("a", 0), measured("a", 1)]
    runs[0].arrays["own"], runs[1].arrays["own"] = np.zeros((3, 6)), np.zeros((3, 4))
    with pytest.raises(UserError, match=r"own has different shapes in its seeds: \[3, 6\] and \[3, 4\]"):
        PointArrays([stored(tmp_path, run) for run in runs])["own"]


def test_own_metrics_have_the_order_of_the_points(tmp_path):
    shown = [Shown(key, key, key, 1.0, ())._asdict() for key in ("zeta", "links", "alpha", "loss")]
    record = stored(tmp_path, measured("a", 0), metrics=shown)
    assert [metric.key for metric in in_order([[record]])] == ["loss", "links", "alpha", "zeta"]


# What no study writes, with checksums that are right.


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    made(folder, sweep="network.mobility=static,dcm", seeds=2)
    return folder


def told(folder):
    """The line that a study of changed records gives, or '' if it can be read."""
    try:
        found = Results.load(folder)
        found.to_dataframe()
        found.report_data()
    except UserError as error:
        return str(error) if str(folder) in str(error) and "\n" not in str(error) else f"no line: {error!r}"
    return ""


def changed(whole, folder, change):
    """A copy of a study, one of whose records is changed: its header, and its arrays."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(whole, folder)
    path = sorted((folder / "runs").iterdir())[1]
    header, arrays = array_files.read(path, FORMAT)
    about = {key: value for key, value in header.items() if key not in ("checksum", "format", "arrays")}
    change(about, arrays)
    array_files.write(path, FORMAT, about, arrays, compress=True)
    return folder


JUNK = [None, [], {}, "text", -1, 10**30, 1.5, True, [None], [[0]], {"a": 1}, "9" * 5000]


def test_whatever_a_header_says_is_read_or_one_line(whole, tmp_path):
    record = RunRecord(sorted((whole / "runs").iterdir())[0])
    kept = dict.fromkeys(("config", "metrics", "other", "made", "accuracy_is"), 2)  # junk that may be meant
    kept |= {"goes_on_from": 1, "compile_seconds": 3, "run_seconds": 3}
    for key in [key for key in record.header if key not in ("checksum", "format", "arrays")]:
        lacking = changed(whole, tmp_path / "a", lambda about, _, key=key: about.pop(key))
        assert told(lacking).startswith(str(tmp_path)), key
        lines = [told(changed(whole, tmp_path / "a", lambda about, _, k=key, j=j: about.update({k: j}))) for j in JUNK]
        assert lines.count("") <= kept.get(key, 0), (key, dict(zip(map(str, JUNK), lines)))
        assert not [line for line in lines if line.startswith("no line")]


def test_arrays_of_other_shapes_and_types_are_read_or_one_line(whole, tmp_path):
    record = RunRecord(sorted((whole / "runs").iterdir())[0])
    ways = {
        "gone": lambda of: None,
        "fewer rows": lambda of: of[1:],
        "another axis": lambda of: of[..., None],
        "an axis less": lambda of: of.reshape(len(of), -1)[:, 0],
        "fewer columns": lambda of: of[..., :-1],
        "empty": lambda of: of[:0],
        "a number": lambda of: np.float32(1),
        "complex": lambda of: of.astype(np.complex64),
        "NaN": lambda of: np.full(of.shape, np.nan, np.float16),
    }
    for key in record.shapes:
        for name, way in ways.items():

            def change(_, arrays, key=key, way=way):
                new = way(arrays.pop(key))
                arrays.update({} if new is None else {key: new})

            line = told(changed(whole, tmp_path / "a", change))
            if name == "another axis":  # which all seeds of a study might have
                with pytest.raises(UserError):
                    RunRecord(sorted((tmp_path / "a" / "runs").iterdir())[1])
            assert line or name in ("gone", "fewer columns", "NaN", "an axis less") or key == LINES, (key, name)


def test_lines_that_are_not_of_the_run_are_one_line(whole, tmp_path):
    lines = RunRecord(sorted((whole / "runs").iterdir())[1]).lines
    others = [
        lines[1:],
        [{**line, "round": line["round"] + 1} for line in lines],
        [{**line, "seed": 7} for line in lines],
        [{**line, "accuracy": junk} for line, junk in zip(lines, ([1], {}, "text"))],
        [{key: line[key] for key in ("seed", "round")} for line in lines],
        {"0": lines},
        [3, 3, 3],
    ]
    texts = [dumps(of) for of in others] + ["", "[" * 10**5, dumps(lines)[:-9]]
    texts += [dumps(lines).replace('"accuracy": 0.', f'"accuracy": {word}, "a": 0.', 1) for word in ("NaN", "Infinity")]
    texts += [json.dumps(dict(zip("ab", lines)))]
    for text in texts:

        def change(_, arrays, text=text):
            arrays[LINES] = np.frombuffer(text.encode(), np.uint8)

        assert told(changed(whole, tmp_path / "a", change)), text[:80]


def test_records_that_have_changed_places_are_one_line(whole, tmp_path):
    folder = shutil.copytree(whole, tmp_path / "a")
    one, other = sorted((folder / "runs").iterdir())[:2]
    shutil.copy(one, other)
    assert f"{other}: no study writes such a record: it is that of the run '{one.stem}'" in told(folder)
    other.unlink()
    assert "the study there is not finished: 1 of its 4 runs are not there" in told(folder)


def test_the_shapes_of_a_million_clients_rows_take_no_memory():
    tracemalloc.start()
    try:
        shapes = records._tails(1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
    assert shapes["links"] == (1_000_000, 125_000)
