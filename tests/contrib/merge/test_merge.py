"""Workdirs put together: parts of a study give the study, and what does not fit together is told in a line."""

import re
import shutil
import time

import numpy as np
from made_study import made
from small import told
from studies import assert_same, contents

from mdfl_jax.contrib.merge.merge import merge
from mdfl_jax.results.records import read_records, write_record
from mdfl_jax.storage.study_files import VIEW_FILES, read_config

SWEEP = {
    "sweep": "network.mobility=static,dcm; network.radius=2,inf",
    "baseline": "network.mobility=static",
    "seeds": 3,
}
FIRST, LAST = ({**SWEEP, "seeds": 2, "first_seed": seed} for seed in (0, 1))
ALONE = {**LAST, "seeds": 1, "first_seed": 2}


def test_runs_in_two_parts_must_agree(tmp_path):
    made(tmp_path / "a", **FIRST)
    made(tmp_path / "b", **LAST)
    made(tmp_path / "whole", **SWEEP)
    merge([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    assert_same(tmp_path / "out", tmp_path / "whole")
    record = read_records(tmp_path / "b", read_config(tmp_path / "b"))[1][0]
    found = record.measured()
    found.arrays["loss"][0, 0] = np.nextafter(found.arrays["loss"][0, 0], np.float32(2))
    write_record(record.path, found, record.header)
    line = told(merge, [tmp_path / "a", tmp_path / "b"], tmp_path / "other")
    assert line.endswith("a disagree about point 'static, radius=inf', seed 1: loss is not the same")


def test_a_merge_that_is_done_again_leaves_nothing_else(tmp_path):
    """The records are links to those of the parts. What a killed merge has left is gone too."""
    made(tmp_path / "a", **FIRST)
    made(tmp_path / "b", **ALONE)
    merge([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    before = contents(tmp_path)
    for folder in ("", "runs"):
        (tmp_path / "out" / folder / ".name.0123456789abcdef.part").write_text("half")
    merge([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    assert contents(tmp_path) == before
    (tmp_path / "out" / "config.json").unlink()  # it is written last
    next((tmp_path / "out" / "runs").glob("*.safetensors")).unlink()
    merge([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    assert contents(tmp_path) == before


def test_missing_runs_are_told_and_may_be_added(tmp_path):
    one, other = "network.mobility=static; network.radius=2,inf", "network.mobility=static,dcm; network.radius=2"
    made(tmp_path / "a", **SWEEP | {"sweep": one})
    made(tmp_path / "b", **SWEEP | {"sweep": other, "seeds": 2})
    parts, out = [tmp_path / "a", tmp_path / "b"], tmp_path / "out"
    words = "4 of 12 runs are missing, such as point 'dcm, radius=2', seed 2; add their workdirs"
    assert told(merge, parts, out) == words
    assert not out.exists()
    made(tmp_path / "c", **SWEEP | {"sweep": other.replace("2", "2,inf").replace("static,", "")})
    for name in VIEW_FILES:  # it is merged from the records: views of another part change no number
        shutil.copy(tmp_path / "a" / name, tmp_path / "c" / name)
    made(tmp_path / "whole", **SWEEP)
    merge([*parts, tmp_path / "c"], out)
    assert_same(out, tmp_path / "whole")


def test_a_study_without_a_sweep_is_a_point_of_another(tmp_path):
    baseline = {"baseline": "network.mobility=static"}
    made(tmp_path / "a", **baseline, sweep="network.mobility=static,dcm")
    made(tmp_path / "b", **baseline, **{"network.mobility": "dam"})
    merge([tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    found = read_config(tmp_path / "out")
    assert found["config"]["sweep"] == "network.mobility=static,dcm,dam"
    assert [p["id"] for p in found["points"]] == ["static", "dcm", "dam"]


def test_what_does_not_fit_together_is_told(tmp_path):
    """Other fields, and seeds that are so far apart that nobody has all between them."""
    made(tmp_path / "a")
    for k, (changes, words) in enumerate((
        ({"rounds": 8}, r"rounds is 8 in .*b0 and 4 in .*a$"),
        ({"data.alpha": 0.3, "eval_every": 4}, r"data\.alpha is .*, eval_every is 4 in .*b1 and 2 in .*a$"),
        ({"first_seed": 10**9, "seeds": 1}, f"seeds from 0 to {10**9}: the whole study would have"),
    )):  # fmt: skip
        made(tmp_path / f"b{k}", **changes)
        begin = time.process_time()
        assert re.search(words, told(merge, [tmp_path / "a", tmp_path / f"b{k}"], tmp_path / "out"))
        assert time.process_time() - begin < 10
        assert not (tmp_path / "out").exists()
