"""A study that grows loses nothing and joins nothing that does not belong together."""

import json
import shutil

import numpy as np
import pytest
from made_study import made
from mdfl_jax.storage.checksums import read_state, write_state
from mdfl_jax.study.extend import extend
from tiny import tiny_config

from mdfl_jax.core.errors import UserError
from mdfl_jax.report.read import read_workdir
from mdfl_jax.results.records import read
from mdfl_jax.study import Interrupted, make_study
from mdfl_jax.study import whole as wholes
from mdfl_jax.study.identity import compare
from mdfl_jax.study.manifest import wanted
from mdfl_jax.study.merge import merge
from mdfl_jax.study.run import run_or_resume

FEW = {"sweep": "", "seeds": 2, "rounds": 2, "algorithm.batch_size": 4, "algorithm.momentum": 0.9}
SWEEP = {"sweep": "network.mobility=static,dcm", "baseline": "network.mobility=static"}


def go(folder, extended=True, on_evaluation=None, **changes):
    study = make_study(tiny_config(**FEW | changes))
    return run_or_resume(
        study, folder, log=lambda line: None, progress=False, on_evaluation=on_evaluation, extend=extended
    )[0]


def unfinished(folder, **changes):
    """Begins an extension, and stops where its first part would run."""

    def stop(part, workdir, more_follows):
        raise Interrupted

    study = make_study(tiny_config(**changes))
    there = json.loads((folder / "config.json").read_text())
    with pytest.raises(Interrupted):
        extend(study, folder, compare(there, wanted(study)), lambda line: None, stop)
    return (folder / "extension" / "plan.json").read_bytes()


def files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "run"
    go(folder)
    return folder


@pytest.mark.long
def test_states_of_an_earlier_round_are_neither_kept_nor_continued(finished, tmp_path):
    folder = shutil.copytree(finished, tmp_path / "run")
    go(folder, rounds=4, **{"engine.states_mib": 0})
    assert not (folder / "states").exists()
    shutil.copytree(finished / "states", folder / "states")
    before = files(folder)
    with pytest.raises(
        UserError, match="rounds is 4 there and 6 here, and the last state of point 'base', seed 0, was"
    ):
        go(folder, rounds=6)
    assert files(folder) == before


@pytest.mark.long
@pytest.mark.parametrize("change", ["absent", "unknown", "type", "round"])
def test_a_state_that_does_not_fit_the_program_is_refused(finished, tmp_path, change):
    folder = shutil.copytree(finished, tmp_path / "run")
    for path in (folder / "states").iterdir():
        arrays = read_state(path, "")
        name = next(name for name in arrays if name.startswith("carry/.algorithm"))
        if change == "absent":
            del arrays[name]
        elif change == "unknown":
            arrays["carry/.old_name"] = np.zeros(3)
        elif change == "type":
            arrays[name] = arrays[name].astype(np.float64)
        else:
            arrays["carry/.round"] -= 1
        write_state(path, arrays)
    told = {"unknown": r"\(\.old_name\)", "round": "was not kept"}.get(
        change, r"does not fit the program \(\.algorithm"
    )
    with pytest.raises(UserError, match=told):
        go(folder, rounds=4)
    assert not (folder / "extension").exists()


def test_an_unfinished_extension_goes_on_with_another_title_and_is_never_dropped(tmp_path):
    folder = tmp_path / "run"
    made(folder, **SWEEP, seeds=2)
    plan = unfinished(folder, **SWEEP, seeds=6)
    changed = {"title": "New", "target": 0.1, "engine.checkpoint_minutes": 1.0}
    assert unfinished(folder, **SWEEP, seeds=6, **changed) == plan
    with pytest.raises(UserError, match="unfinished extension to another study: seeds is 6 there and 5 here; finish"):
        unfinished(folder, **SWEEP, seeds=5)
    assert (folder / "extension" / "plan.json").read_bytes() == plan


def test_a_workdir_whose_files_are_half_replaced_is_not_read(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    made(folder, **SWEEP, seeds=2)
    made(tmp_path / "other", **SWEEP, seeds=2, first_seed=2)
    with monkeypatch.context() as patch:
        patch.setattr(wholes, "publish", half)
        with pytest.raises(KeyboardInterrupt):
            merge([folder, tmp_path / "other"], folder, overwrite=True)
    for reads in (read, read_workdir):
        with pytest.raises(UserError, match="a command was stopped while new results took the place of the earlier on"):
            reads(folder)
    wholes.publish(folder)
    assert [len(records) for records in read(folder).records] == [4, 4]
    assert len(read_workdir(folder).points) == 2
    assert not (folder / "publishing").exists()


def half(workdir):
    """The first file is moved, and then the process is killed."""
    if (result := workdir / "publishing" / "result").is_dir():
        (result / "config.json").replace(workdir / "config.json")
        raise KeyboardInterrupt


def test_files_of_other_seeds_or_points_are_not_reported(tmp_path):
    made(tmp_path / "run", **SWEEP, seeds=2)
    made(tmp_path / "more", **SWEEP, seeds=3)
    made(tmp_path / "other", sweep="network.mobility=dam,dcm,static", baseline="", seeds=2)
    shutil.copy(tmp_path / "more" / "history.npz", tmp_path / "run")
    with pytest.raises(UserError, match=r"history\.npz: 0/is_mobile is not of the 2 seeds of config\.json"):
        read_workdir(tmp_path / "run")
    shutil.copy(tmp_path / "other" / "config.json", tmp_path / "run")
    with pytest.raises(UserError, match=r"summary\.json and config\.json have different sweep points"):
        read_workdir(tmp_path / "run")
