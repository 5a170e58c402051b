"""Records of runs: what was measured comes back, alone and stacked; whatever no study writes is one line."""

import json
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_study import made, measured, put

from mdfl_jax import Results
from mdfl_jax.core.errors import UserError
from mdfl_jax.results.records import RECORD_FORMAT, PointArrays, RunRecord, StudyArrays
from mdfl_jax.storage import array_files
from mdfl_jax.storage.disk import dumps

NAME = "made-0123456789abcdef-s{}-r{}"
LINES = "lines/json"


def stored(folder, found, **header):
    return put(folder, NAME.format(found.seed, found.rounds[-1]), found, {}, **header)


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
        found.shown()
    except UserError as error:
        return str(error) if str(folder) in str(error) and "\n" not in str(error) else f"no line: {error!r}"
    return ""


def changed(whole, folder, change):
    """A copy of a study, one of whose records is changed: its header, and its arrays."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(whole, folder)
    path = sorted((folder / "runs").iterdir())[1]
    header, arrays = array_files.read(path, RECORD_FORMAT)
    about = {key: value for key, value in header.items() if key not in ("checksum", "format", "arrays")}
    change(about, arrays)
    array_files.write(path, RECORD_FORMAT, about, arrays, compress=True)
    return folder


JUNK = [None, [], {}, "text", -1, 10**30, [[0]], "9" * 5000]


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
        "a number": lambda of: np.float32(1),
        "complex": lambda of: of.astype(np.complex64),
        "NaN": lambda of: np.full(of.shape, np.nan, np.float16),
    }
    for number, key in enumerate(record.shapes):
        for name, way in list(ways.items())[number % 2 :: 2]:

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
        [{**line, "accuracy": junk} for line, junk in zip(lines, ([1], {}, "text"))],
        [{key: line[key] for key in ("seed", "round")} for line in lines],
        {"0": lines},
        [3, 3, 3],
    ]
    texts = [dumps(of) for of in others] + ["", "[" * 10**5, dumps(lines)[:-9]]
    texts += [dumps(lines).replace('"accuracy": 0.', f'"accuracy": {word}, "a": 0.', 1) for word in ("NaN", "Infinity")]
    for text in texts:
        junk = {LINES: np.frombuffer(text.encode(), np.uint8)}
        assert told(changed(whole, tmp_path / "a", lambda _, arrays, junk=junk: arrays.update(junk))), text[:80]


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        (("config", "select"), "0", "config.json: select is '0'; 0 is not swept"),
        (("config", "select"), [0], r"config.json: select is \[0\]; no study writes such a value"),
        (("points", 1, "overrides", "network.mobility"), {"a": 1}, "one of overrides is {'a': 1}; no study writes"),
        (("points", 1, "overrides", "network.mobility"), [[1]], r"one of overrides is \[\[1\]\]; no study writes"),
    ],
)
def test_a_config_that_no_study_writes_is_one_line(tmp_path, path, value, line):
    made(tmp_path / "run", sweep="network.mobility=static,dcm", baseline="network.mobility=static", seeds=1)
    file = tmp_path / "run" / "config.json"
    whole = at = json.loads(file.read_text())
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    file.write_text(json.dumps(whole))
    with pytest.raises(UserError, match=line):
        Results.read(tmp_path / "run")
