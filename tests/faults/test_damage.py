"""Files of a workdir that were cut off or changed: one line, or the same results; never a traceback."""

import json
import random
import shutil

import pytest
from forked import Started
from made_study import made

from mdfl_jax import Results
from mdfl_jax.core.errors import UserError
from mdfl_jax.report.read import read_workdir
from mdfl_jax.results.records import read_records
from mdfl_jax.storage.study_files import read_config
from tests.faults.damage import damages
from tests.faults.harness import KILLED, calls_of, results, sweep, verdict
from tests.faults.test_kills import GROWN, SMALL

KINDS = {
    **{name: name for name in ("config.json", "metrics.jsonl", "summary.json", "history.npz")},
    "a record": "runs/*r[0-9].safetensors",
    "a state": "runs/*.state.safetensors",
    "kept models": "models/*.safetensors",
    "a worker": "workers/*.json",
}


def kinds(folder):
    """A file of each kind of a workdir, by what it is."""
    found = {kind: sorted(folder.glob(name)) for kind, name in KINDS.items()}
    return {kind: paths[0].relative_to(folder) for kind, paths in found.items() if paths}


@pytest.fixture(scope="module")
def workdirs(study, undisturbed, tmp_path_factory):
    """By what was done: a workdir, the command that is started there, and the results without any damage.

    One is of a study that was killed when one run had ended and another one had a state, the other one is finished,
    and seeds and rounds are added to it.
    """
    base = tmp_path_factory.mktemp("unfinished")
    words = sweep(study, *SMALL)
    _, calls = calls_of(base / "whole", base, words(base / "whole"))
    at = [k for k, call in enumerate(calls, 1) if call.startswith("rename") and ".state" in call][-1]
    ended, _ = calls_of(base / "killed", base, words(base / "killed"), at)
    assert ended.status == KILLED
    assert len(kinds(base / "killed")) >= 6
    finished, grown = undisturbed(*SMALL)[0], sweep(study, *GROWN)
    whole = shutil.copytree(finished, base / "grown")
    assert Started(base / "log", *grown(whole)).ended().status == 0
    return {
        "going on": (base / "killed", words, results(base / "whole")),
        "growing": (finished, grown, results(whole)),
    }


@pytest.mark.parametrize("every", [pytest.param(17, marks=pytest.mark.long), pytest.param(1, marks=pytest.mark.faults)])
@pytest.mark.parametrize("before", ["going on", "growing"])
def test_damaged_files_of_a_study_that_goes_on(tally, workdirs, tmp_path, seed, before, every):
    source, words, reference = workdirs[before]
    draw = random.Random(f"{seed}-{before}")
    cases = [
        (kind, name, what, content)
        for kind, name in kinds(source).items()
        for what, content in damages((source / name).read_bytes(), draw, 2)
    ]
    for kind, name, what, content in cases[3::every]:
        folder = shutil.copytree(source, tmp_path / "run")
        (folder / name).write_bytes(content)
        ended = Started(tmp_path / "log", *words(folder)).ended()
        tally.add(f"damage before {before}: {kind}", verdict(ended, folder, reference), what)
        shutil.rmtree(folder)
    tally.check(2)


def everything(folder):
    """All that Python, a merge and the report read of a finished study, by the name of the run."""
    read_workdir(folder)
    Results.load(folder)
    records = read_records(folder, read_config(folder))
    return {record.name: record.measured() for of_point in records for record in of_point}


def read_damaged(tally, folder, name, content, what, whole):
    """Read a finished study of which a file was changed, and judge what was read."""
    untouched = (folder / name).read_bytes()
    (folder / name).write_bytes(content)
    try:
        same = all(  # a config.json may name fewer runs, as that of a shard does
            one.lines == whole[run].lines
            and all((one.arrays[key] == of).all() for key, of in whole[run].arrays.items())
            for run, one in everything(folder).items()
        )
        good = "read" if same else "other numbers were read"
    except UserError as error:
        good = "refused" if "\n" not in str(error) else f"several lines: {error}"
    except Exception as error:
        good = f"{type(error).__name__}: {error}"
    tally.add(f"damage before reading: {name}", good, what)
    (folder / name).write_bytes(untouched)


def change(content, draw):
    """Remove a value anywhere in a JSON tree, or put one of another kind in its place; say what was done."""
    at, path = content, []
    while True:
        key = draw.choice(list(at) if isinstance(at, dict) else list(range(len(at))))
        path.append(key)
        if not isinstance(at[key], dict | list) or not at[key] or draw.random() < 0.3:
            break
        at = at[key]
    if draw.random() < 0.3:
        del at[key]
        return f"without {path}"
    at[key] = draw.choice([None, True, -1, 1.5, 10**30, "", "é", "0", [], [0], {}, {"a": 1}])
    return f"{path} is {at[key]!r}"


@pytest.mark.parametrize("drawn", [6, pytest.param(300, marks=pytest.mark.faults)])
@pytest.mark.parametrize("kind", [*KINDS][:5])  # a made study has no others
def test_damaged_files_of_a_finished_study_that_is_read(tally, tmp_path, seed, kind, drawn):
    folder, draw = tmp_path / "run", random.Random(f"{seed}-{kind}")
    made(folder, sweep="network.mobility=static,dcm", baseline="network.mobility=static", seeds=2)
    whole, name = everything(folder), kinds(folder)[kind]
    content = (folder / name).read_bytes()
    for what, damaged in damages(content, draw, drawn):
        read_damaged(tally, folder, name, damaged, what, whole)
    for _ in range(drawn if name.suffix == ".json" else 0):
        tree = json.loads(content)
        what = change(tree, draw)
        read_damaged(tally, folder, name, json.dumps(tree).encode(), what, whole)
    tally.check(drawn)


@pytest.mark.faults
def test_damaged_compiled_programs(tally, study, tmp_path, seed):
    """The entries of the compilation cache: what was compiled is compiled again, or is the same."""
    cache, draw = tmp_path / "cache", random.Random(seed)
    words = sweep(study, *SMALL, f"--cache={cache}")
    assert Started(tmp_path / "log", *words(tmp_path / "whole")).ended().status == 0
    reference = results(tmp_path / "whole")
    for path in sorted(cache.rglob("*-cache"), key=lambda path: -path.stat().st_size)[:3]:
        whole = path.read_bytes()
        for number, (what, content) in enumerate(damages(whole, draw, 4)):
            path.write_bytes(content)
            folder = tmp_path / f"run-{path.name}-{number}"
            ended = Started(tmp_path / "log", *words(folder)).ended()
            tally.add("damage of a compiled program", verdict(ended, folder, reference), what)
            path.write_bytes(whole)
    tally.check(20)
