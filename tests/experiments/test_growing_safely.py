"""A study that grows loses nothing and joins nothing that does not belong together."""

import json
import shutil

import jax
import numpy as np
import pytest
from made_study import made, record_of
from tiny import tiny_config

from mdfl_jax.core.errors import UserError
from mdfl_jax.report.read import read_workdir
from mdfl_jax.results.records import joined, read
from mdfl_jax.storage import provenance
from mdfl_jax.storage.state_file import read_state, write_state
from mdfl_jax.study import Interrupted, continued, make_study
from mdfl_jax.study import whole as wholes
from mdfl_jax.study.extend import extend
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


def test_rounds_that_do_not_follow_each_other_are_not_joined():
    earlier, later = record_of("all", 0, rounds=8), record_of("all", 0, rounds=4)
    with pytest.raises(UserError, match="of seed 0 begin at round 0, and the earlier ones end at round 8"):
        joined(earlier, later)


def test_to_begin_an_extension_git_is_not_asked(tmp_path, monkeypatch):
    made(tmp_path / "run", **SWEEP, seeds=2)
    monkeypatch.setattr(provenance, "commit", lambda: pytest.fail("git was asked"))
    unfinished(tmp_path / "run", **SWEEP, seeds=6)


def test_an_unfinished_extension_goes_on_with_another_title_and_is_never_dropped(tmp_path):
    folder = tmp_path / "run"
    made(folder, **SWEEP, seeds=2)
    plan = unfinished(folder, **SWEEP, seeds=6)
    changed = {"title": "New", "target": 0.1, "engine.checkpoint_minutes": 1.0}
    assert unfinished(folder, **SWEEP, seeds=6, **changed) == plan
    with pytest.raises(UserError, match="unfinished extension to another study: seeds is 6 there and 5 here; finish"):
        unfinished(folder, **SWEEP, seeds=5)
    assert (folder / "extension" / "plan.json").read_bytes() == plan


def test_results_that_are_written_anew_leave_an_unfinished_extension_alone(tmp_path):
    folder = tmp_path / "run"
    made(folder, **SWEEP, seeds=2)
    plan = unfinished(folder, **SWEEP, seeds=6)
    go(folder, False, **SWEEP | {"sweep": "network.mobility=dcm,static"}, rounds=4, **as_made())
    assert [point["id"] for point in read(folder).manifest["points"]] == ["dcm", "static"]
    assert (folder / "extension" / "plan.json").read_bytes() == plan
    merge([folder], folder, overwrite=True)
    assert (folder / "extension" / "plan.json").read_bytes() == plan


def as_made():
    """The fields that `tiny_config` has by default, in place of those of `FEW`."""
    default = tiny_config()
    return {path: default[path] for path in ("algorithm.batch_size", "algorithm.momentum")}


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


def test_models_and_states_that_a_new_study_has_not_are_removed_also_after_a_kill(tmp_path):
    folder = tmp_path / "run"
    made(folder, seeds=2)
    for name in ("models", "states", "loggers"):
        (folder / name).mkdir()
        (folder / name / "old").touch()
    wholes.write_whole(folder / "publishing" / "result", read(folder), [])
    (folder / "publishing" / "result" / "config.json").replace(folder / "config.json")  # and then a kill
    wholes.publish(folder)
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == ["loggers"]


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


def test_numbers_that_are_nan_do_not_depend_on_the_rounds(monkeypatch):
    study = make_study(tiny_config(**FEW))
    group = study.groups[0]
    numbers = jax.tree.map(lambda leaf: np.full(np.shape(leaf), np.nan, np.float32), group.hparams[0])
    monkeypatch.setattr(continued, "hparams_of", lambda *_: numbers)
    monkeypatch.setattr(continued, "_text", lambda *_: "")
    assert continued._is_independent(study, group._replace(hparams=[numbers]), 2)


@pytest.mark.long
def test_what_is_written_anew_and_what_cannot_shrink_is_said(finished, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    (folder / "report.html").write_text("of the earlier files")
    with pytest.raises(UserError, match="1 here; --extend only adds runs and rounds; choose another"):
        go(folder, seeds=1)
    monkeypatch.setattr("sys.argv", ["mdfl sweep", "digits", "--config.title=Other"])
    go(folder, title="Other")
    assert json.loads((folder / "config.json").read_text())["command"] == "mdfl sweep digits --config.title=Other"
    lines: list[str] = []
    study = make_study(tiny_config(**FEW | {"seeds": 3}))
    run_or_resume(study, folder, log=lines.append, progress=False, extend=True)
    assert any("title is 'Other' there" in line for line in lines)
    assert not (folder / "report.html").exists()
