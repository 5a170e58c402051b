"""Runs that do not belong together: parts of other or damaged studies that are merged, and files that change between
two commands. Numbers are never mixed: what is refused is one line, and what is read stays as it was."""

import itertools
import random
import shutil
import sys

import jax
import numpy as np
import pytest
from forked import Started
from made_study import made

from tests.attack.harness import SMALL, damages, results, sweep, verdict
from tests.attack.test_damage import one_of_each

SWEEP = {"sweep": "network.mobility=static,dcm", "seeds": 1}


def contents(folder):
    """The bytes of all files of a folder."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def merged(tmp_path, *parts):
    """How `mdfl merge` of some folders ends, and the folder of what it has made."""
    out = tmp_path / "merged"
    shutil.rmtree(out, ignore_errors=True)
    return Started(tmp_path / "log", "merge", *parts, f"--workdir={out}", "--noreport").ended(), out


@pytest.mark.faults
def test_merges_of_parts_that_overlap_differ_or_are_no_studies(tally, tmp_path):
    parts = tmp_path / "parts"
    for name, changes in {
        "one": {},
        "two": {"first_seed": 1},
        "both": {"seeds": 2},
        "longer": {"rounds": 8},
        "other": {"network.num_clients": 7},
        "named": {"name": "another"},
        "without a sweep": {"sweep": ""},
        "of other points": {"sweep": "network.mobility=static,dam"},
    }.items():
        made(parts / name, **(SWEEP | changes))
    shutil.copytree(parts / "one", parts / "copy")
    changed = shutil.copytree(parts / "one", parts / "with the records of another study")
    for of, record in zip(sorted((parts / "other" / "runs").iterdir()), sorted((changed / "runs").iterdir())):
        shutil.copy(of, record)
    (parts / "empty").mkdir()
    (parts / "notes").mkdir()
    (parts / "notes" / "config.json").write_text('{"name": "of something else"}')
    (parts / "a file").write_text("1")
    (parts / "link").symlink_to(parts / "one")
    (parts / "to nothing").symlink_to(parts / "gone")
    (parts / "to itself").symlink_to(parts / "to itself")
    before, names = contents(parts), [*sorted(path.name for path in parts.iterdir()), "not there"]
    for pair in itertools.combinations_with_replacement(names, 2):
        ended, out = merged(tmp_path, *(parts / name for name in pair))
        said = verdict(ended, out, {} if ended.status else results(out))
        if ended.status and out.exists():
            said = f"refused, and {sorted(out.iterdir())} was written"
        elif not ended.status:  # the name of the study and the order of its points are those of the first part
            runs = {name: of for name, of in results(out).items() if name.startswith("runs/")}
            again, other = merged(tmp_path, *(parts / name for name in reversed(pair)))
            found = {name: of for name, of in results(other).items() if name.startswith("runs/")}
            said = said if found == runs and not again.status else "other runs in the other order"
        tally.add("a merge of two folders", said, pair)
        assert contents(parts) == before, pair
    tally.check(100)


@pytest.mark.faults
def test_merges_with_a_damaged_part(tally, tmp_path, seed):
    one, two = (tmp_path / name for name in ("one", "two"))
    made(one, **SWEEP)
    made(two, **SWEEP, first_seed=1)
    reference, draw = results(merged(tmp_path, one, two)[1]), random.Random(seed)
    for name in one_of_each(two):
        content = (two / name).read_bytes()
        for what, damaged in damages(content, draw, 6):
            (two / name).write_bytes(damaged)
            ended, out = merged(tmp_path, one, two)
            said = verdict(ended, out, reference)
            tally.add("a merge with a damaged part", said, f"{name}: {what}")
        (two / name).write_bytes(content)
    tally.check(30)


CONFIG = """
import {helper}
from studied import get_config as base

def get_config():
    config = base()
    config.data.name, config.data.dir = "mine", {folder!r}
    config.algorithm.lr = {helper}.RATE
    return config
"""


def other_switch():
    """As a patch: another implementation of random numbers."""
    jax.config.update("jax_default_prng_impl", "rbg")


def other_version():
    """As a patch: the next version of JAX."""
    jax.__version__ = jax.version.__version__ = "0.99.0"


@pytest.mark.faults
@pytest.mark.parametrize("what", ["a helper module", "the data", "a switch of JAX", "the version of JAX", "nothing"])
def test_what_changes_between_two_commands(tally, study, tmp_path, monkeypatch, what):
    """The second command computes anew what depends on it, or refuses; the records of before stay as they were."""
    helper = f"helper_of_{len(what)}"
    source, data = tmp_path / "source", tmp_path / "source" / "data"
    data.mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [str(source), *sys.path])
    shutil.copy(study, source / "studied.py")
    (source / "study.py").write_text(CONFIG.format(helper=helper, folder=str(data)))

    def write(rate, shift):
        (source / f"{helper}.py").write_text(f"RATE = {rate}\n")
        draw = np.random.default_rng(0)
        x, y = draw.integers(0, 100, (160, 4, 4), np.uint8), np.arange(160) % 4
        np.savez(data / "mine.npz", x_train=x[:120] + np.uint8(shift), y_train=y[:120], x_test=x[120:], y_test=y[120:])

    def run(folder, patch=None):
        return Started(tmp_path / "log", *sweep(source / "study.py", *SMALL)(folder), patch=patch).ended()

    patch = {"a switch of JAX": other_switch, "the version of JAX": other_version}.get(what)
    write(0.1, 0)
    first = run(tmp_path / "run")
    assert first.status == 0, first
    before = contents(tmp_path / "run" / "runs")
    write(0.2 if what == "a helper module" else 0.1, what == "the data")
    fresh = run(tmp_path / "fresh", patch)
    assert fresh.status == 0, fresh
    ended = run(tmp_path / "run", patch)
    now = contents(tmp_path / "run" / "runs")
    assert {path: now[path] for path in before} == before
    made_anew = {path.name for path in now} - {path.name for path in before}
    tally.add(f"{what} changes between two commands", _of_one(ended, tmp_path, made_anew, what))
    tally.check()


def _of_one(ended, base, made_anew, what):
    """Tell whether the second command's summary is that of a study with the change alone."""
    if ended.status:
        return verdict(ended, base / "run", {})
    here, fresh = (results(base / name)["summary.json"] for name in ("run", "fresh"))
    if what == "nothing":
        return "equal" if not made_anew else f"computed anew: {made_anew}"
    return "equal" if here == fresh else "another summary than that of a study with the change alone"
