"""Files of a workdir that were cut off or changed: one line, or the same results; never a traceback."""

import functools
import json
import random
import shutil

import pytest
from forked import Started
from made_study import made

from mdfl_jax import Results
from mdfl_jax.core.errors import UserError
from mdfl_jax.report.read import read_workdir
from mdfl_jax.results.records import difference, read
from mdfl_jax.storage.study_files import CHECKPOINTS
from tests.faults.damage import damages, is_told
from tests.faults.harness import KILLED, results, verdict, write_calls
from tests.faults.test_kills import GROWN, SMALL, sweep

TEXTS = ("config.json", "summary.json", "metrics.jsonl")


def kinds(folder):
    """A file of each kind of a workdir, by what it is."""
    names = {
        "config.json": "config.json",
        "metrics.jsonl": "metrics.jsonl",
        "summary.json": "summary.json",
        "history.npz": "history.npz",
        "a kept model": "models/0/0.safetensors",
        "a last state": "states/*-0.npz",
        "a result in a checkpoint": f"{CHECKPOINTS}/batch-000.npz",
        "a state in a checkpoint": f"{CHECKPOINTS}/batch-001-at-*.npz",
        "progress.json": f"{CHECKPOINTS}/progress.json",
        "progress-before.json": f"{CHECKPOINTS}/progress-before.json",
    }
    found = {kind: sorted(folder.glob(name)) for kind, name in names.items()}
    return {kind: paths[0].relative_to(folder) for kind, paths in found.items() if paths}


def judged(ended, folder, reference, name):
    """The verdict of the harness; a damaged file that stays as it is counts as refused if whoever reads it is told."""
    found = verdict(ended, folder, reference)
    if found == f"other results: {name}" and is_told(folder / name):
        return "refused"
    return found


def damage_each(tally, kind_of, before, words, reference, tmp_path, draw, flips, only=lambda number: True):
    """Damages a file of each kind of a workdir in several ways, and starts the command."""
    number = 0
    for kind, name in kinds(before).items():
        for what, content in damages((before / name).read_bytes(), draw, flips):
            number += 1
            if only(number):
                folder = tmp_path / f"run-{number}"
                shutil.copytree(before, folder)
                (folder / name).write_bytes(content)
                ended = Started(tmp_path / "log", *words(folder)).ended()
                tally.add(f"{kind_of}: {kind}", judged(ended, folder, reference, name), what)
                shutil.rmtree(folder)


@pytest.fixture(scope="module")
def unfinished(study, tmp_path_factory):
    """A study that was killed when its first batch was in the checkpoint, and a state of the second."""
    base = tmp_path_factory.mktemp("unfinished")
    words = sweep(study, *SMALL)

    def go(folder, die_at):
        patch = functools.partial(write_calls, folder, base / "calls", die_at)
        return Started(base / "log", *words(folder), patch=patch).ended().status

    assert go(base / "whole", 0) == 0
    calls = (base / "calls").read_text().splitlines()
    assert go(base / "killed", 1 + calls.index(f"open {CHECKPOINTS}/batch-001.npz.part")) == KILLED
    assert len(kinds(base / "killed")) == 8
    return base / "killed", results(base / "whole")


@pytest.mark.faults
@pytest.mark.parametrize("part", range(4))
def test_damaged_files_of_an_unfinished_study(tally, study, unfinished, tmp_path, seed, part):
    before, reference = unfinished
    words, draw = sweep(study, *SMALL), random.Random(seed)
    only = lambda number: number % 4 == part  # noqa: E731
    damage_each(tally, "damage before going on", before, words, reference, tmp_path, draw, 3, only)
    tally.check(10)


@pytest.mark.long
def test_some_damaged_files_of_an_unfinished_study(tally, study, unfinished, tmp_path):
    before, reference = unfinished
    only = lambda number: number in (3, 28)  # noqa: E731
    damage_each(
        tally, "damage before going on", before, sweep(study, *SMALL), reference, tmp_path, random.Random(0), 1, only
    )
    tally.check(2)


@pytest.mark.faults
@pytest.mark.parametrize("part", range(4))
def test_damaged_files_of_a_study_that_is_extended(tally, study, undisturbed, tmp_path, seed, part):
    before, _ = undisturbed(*SMALL)
    words, draw = sweep(study, *GROWN, "--extend"), random.Random(seed + 1)
    whole = shutil.copytree(before, tmp_path / "whole")
    assert Started(tmp_path / "log", *words(whole)).ended().status == 0
    only = lambda number: number % 4 == part  # noqa: E731
    damage_each(tally, "damage before an extension", before, words, results(whole), tmp_path, draw, 2, only)
    tally.check(5)


def everything(folder):
    """All that Python, a merge and the report read of a finished study."""
    read_workdir(folder)
    Results.load(folder)
    return read(folder)


def same(here, there):
    pairs = zip((r for of in here.records for r in of), (r for of in there.records for r in of))
    return not any(difference(one, other) for one, other in pairs)


def read_damaged(tally, folder, name, content, what, whole):
    """Reads a finished study of which a file was changed, and judges what was read."""
    untouched = (folder / name).read_bytes()
    (folder / name).write_bytes(content)
    try:
        found = everything(folder)
        good = "read" if same(found, whole) else "other numbers were read"
    except UserError as error:
        good = "refused" if "\n" not in str(error) else f"several lines: {error}"
    except Exception as error:
        good = f"{type(error).__name__}: {error}"
    tally.add(f"damage before reading: {name}", good, what)
    (folder / name).write_bytes(untouched)


@pytest.mark.parametrize("flips", [6, pytest.param(300, marks=pytest.mark.faults)])
@pytest.mark.parametrize("name", ["history.npz", *TEXTS])
def test_damaged_files_of_a_finished_study(tally, tmp_path, seed, name, flips):
    folder = tmp_path / "run"
    made(folder, sweep="network.mobility=static,dcm", baseline="network.mobility=static", seeds=2)
    whole, content = everything(folder), (folder / name).read_bytes()
    for what, damaged in damages(content, random.Random(f"{seed}-{name}"), flips):
        read_damaged(tally, folder, name, damaged, what, whole)
    tally.check(flips)


@pytest.mark.parametrize("drawn", [10, pytest.param(300, marks=pytest.mark.faults)])
@pytest.mark.parametrize("name", TEXTS)
def test_json_of_a_finished_study_with_a_value_of_another_kind(tally, tmp_path, seed, name, drawn):
    folder, draw = tmp_path / "run", random.Random(f"{seed}-{name}")
    made(folder, sweep="network.mobility=static,dcm", baseline="network.mobility=static", seeds=2)
    whole = everything(folder)
    lines = (folder / name).read_text().splitlines()
    for _ in range(drawn):
        content = json.loads(lines[0]) if name == "metrics.jsonl" else json.loads("\n".join(lines))
        what = change(content, draw)
        text = json.dumps(content)
        text = "\n".join([text, *lines[1:]]) if name == "metrics.jsonl" else text
        read_damaged(tally, folder, name, text.encode(), what, whole)
    tally.check(drawn)


def change(content, draw):
    """Removes a value anywhere in a JSON tree, or puts one of another kind in its place; says what was done."""
    at, path = content, []
    while True:
        keys = list(at) if isinstance(at, dict) else range(len(at))
        key = draw.choice(list(keys))
        path.append(key)
        if not isinstance(at[key], dict | list) or not at[key] or draw.random() < 0.3:
            break
        at = at[key]
    if draw.random() < 0.3:
        del at[key]
        return f"without {path}"
    at[key] = draw.choice([None, True, -1, 1.5, 10**30, "", "é", "0", [], [0], {}, {"a": 1}])
    return f"{path} is {at[key]!r}"


@pytest.mark.faults
def test_damaged_compiled_programs(tally, study, tmp_path, seed):
    """The entries of the compilation cache: what was compiled is compiled again, or is the same."""
    cache, draw = tmp_path / "cache", random.Random(seed)
    words = lambda folder: sweep(study, *SMALL, f"--cache={cache}")(folder)  # noqa: E731
    assert Started(tmp_path / "log", *words(tmp_path / "whole")).ended().status == 0
    reference = results(tmp_path / "whole")
    largest = sorted(cache.rglob("*-cache"), key=lambda path: -path.stat().st_size)[:3]
    assert len(largest) == 3
    for path in largest:
        whole = path.read_bytes()
        for number, (what, content) in enumerate(damages(whole, draw, 4)):
            path.write_bytes(content)
            folder = tmp_path / f"run-{path.name}-{number}"
            ended = Started(tmp_path / "log", *words(folder)).ended()
            tally.add("damage of a compiled program", verdict(ended, folder, reference), what)
            path.write_bytes(whole)
    tally.check(20)
