"""Files of a workdir that were cut off or changed: one line, or the same results; never a traceback."""

import json
import random
import shutil

import pytest
from forked import Started
from made_study import made

from mdfl_jax import Results
from mdfl_jax.core.errors import UserError
from mdfl_jax.results.records import read_records
from mdfl_jax.storage.study_files import read_config
from tests.attack.harness import GROWN, KILLED, SMALL, calls_of, damages, results, sweep, verdict

KINDS = ["config.json", "metrics.jsonl", "summary.json", "history.npz", "runs/*r[0-9].safetensors",
         "runs/*.state.safetensors", "models/*.safetensors", "workers/*.json"]  # fmt: skip


def one_of_each(folder):
    """A file of each kind that a workdir has."""
    return [min(folder.glob(kind)).relative_to(folder) for kind in KINDS if any(folder.glob(kind))]


@pytest.mark.parametrize("every", [pytest.param(17, marks=pytest.mark.long), pytest.param(1, marks=pytest.mark.faults)])
def test_damaged_files_of_a_study_that_goes_on(tally, study, undisturbed, tmp_path, seed, every):
    """One was killed when one run had ended and another had a state; to another one seeds and rounds are added."""
    words, grown, killed = sweep(study, *SMALL), sweep(study, *GROWN), tmp_path / "killed"
    _, calls = calls_of(tmp_path / "whole", tmp_path, words(tmp_path / "whole"))
    at = [k for k, call in enumerate(calls, 1) if call.startswith("rename") and ".state" in call][-1]
    assert calls_of(killed, tmp_path, words(killed), at)[0].status == KILLED
    assert len(one_of_each(killed)) >= 6
    finished = undisturbed(*SMALL)[0]
    whole = shutil.copytree(finished, tmp_path / "grown")
    assert Started(tmp_path / "log", *grown(whole)).ended().status == 0
    for source, command, reference in (
        (killed, words, results(tmp_path / "whole")),
        (finished, grown, results(whole)),
    ):
        draw = random.Random(seed)
        cases = [(name, *each) for name in one_of_each(source) for each in damages((source / name).read_bytes(), draw)]
        for name, what, content in cases[3::every]:
            folder = shutil.copytree(source, tmp_path / "run")
            (folder / name).write_bytes(content)
            ended = Started(tmp_path / "log", *command(folder)).ended()
            tally.add(f"damage before going on: {name}", verdict(ended, folder, reference), what)
            shutil.rmtree(folder)
    tally.check(4)


def everything(folder):
    """All that Python, a merge and the report read of a finished study, by the name of the run."""
    Results.read(folder).shown()
    Results.load(folder)
    records = read_records(folder, read_config(folder))
    return {record.name: record.measured() for of_point in records for record in of_point}


def read_damaged(folder, whole):
    """What becomes of reading a finished study of which a file was changed."""
    try:
        for run, one in everything(folder).items():  # a config.json may name fewer runs, as that of a part does
            if one.lines != whole[run].lines or any((one.arrays[k] != of).any() for k, of in whole[run].arrays.items()):
                return "other numbers were read"
    except UserError as error:
        return "refused" if "\n" not in str(error) else f"several lines: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "read"


def changed(content, draw):
    """A JSON text without a value anywhere in it, or with one of another kind; and what was done."""
    tree = at = json.loads(content)
    path = []
    while True:
        key = draw.choice(list(at) if isinstance(at, dict) else list(range(len(at))))
        path.append(key)
        if not isinstance(at[key], dict | list) or not at[key] or draw.random() < 0.3:
            break
        at = at[key]
    put = draw.choice([None, True, -1, 1.5, 10**30, "", "é", "0", [], [0], {}, {"a": 1}])
    if gone := draw.random() < 0.3:
        del at[key]
    else:
        at[key] = put
    return f"without {path}" if gone else f"{path} is {put!r}", json.dumps(tree).encode()


@pytest.mark.parametrize("drawn", [6, pytest.param(300, marks=pytest.mark.faults)])
def test_damaged_files_of_a_finished_study_that_is_read(tally, tmp_path, seed, drawn):
    folder, draw = tmp_path / "run", random.Random(seed)
    made(folder, sweep="network.mobility=static,dcm", baseline="network.mobility=static", seeds=2)
    whole = everything(folder)
    for name in one_of_each(folder):
        content = (folder / name).read_bytes()
        cases = list(damages(content, draw, drawn))
        cases += [changed(content, draw) for _ in range(drawn if name.suffix == ".json" else 0)]
        for what, damaged in cases:
            (folder / name).write_bytes(damaged)
            tally.add(f"damage before reading: {name}", read_damaged(folder, whole), what)
        (folder / name).write_bytes(content)
    tally.check(5 * drawn)
