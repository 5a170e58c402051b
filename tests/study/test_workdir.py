"""Whose folder it is: what may be written where, what is never touched, and what is refused in one line."""

import os
import re
import shutil

import pytest
from studies import assert_same, contents, go, names_of
from tiny import tiny_config

from mdfl_jax.contrib.merge.merge import merge
from mdfl_jax.core.errors import UserError
from mdfl_jax.results.results import Results
from mdfl_jax.storage.study_files import CONFIG, FOLDERS, run_path
from mdfl_jax.study import Interrupted, make_study, run_or_resume
from mdfl_jax.study import workdir as workdirs
from mdfl_jax.study.workers import Workers

STUDY = {"seeds": 2, "rounds": 2, "save": "final"}
OWN = ("notes.txt", "figures/mine.svg", "tables/mine.csv", "models/mine.safetensors", "runs/mine.safetensors",
       "states/0.npz", "checkpoints/x", "publishing/result/x", "index.md", "loggers/mine.txt",
       "workers/readme")  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "run"
    go(folder, **STUDY)
    return folder


@pytest.fixture
def held(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "run")


def put(folder, *names):
    """Write files of somebody else."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"my {name}")


def refused(folder, match, act=go, **more):
    """A command that is refused in one line, and changes nothing."""
    before = contents(folder)
    with pytest.raises(UserError, match=match) as caught:
        act(folder, **STUDY | more)
    assert "\n" not in str(caught.value)
    assert contents(folder) == before
    return str(caught.value)


LINKS = ("metrics.jsonl", "summary.json", "history.npz")  # those of a report: tests/results/test_results.py


def test_own_files_are_kept_and_links_are_not_followed(held, tmp_path):
    """Where a study grows and where it is overwritten; of the study nothing is left when its folder is cleared."""
    target = tmp_path / "targets"
    put(held, *OWN)
    put(target, *LINKS)
    for name in LINKS:
        (held / name).unlink(missing_ok=True)
        (held / name).symlink_to(target / name)
    own = {held / name for name in OWN}
    go(held, **STUDY | {"seeds": 3})
    assert not any((held / name).is_symlink() for name in LINKS)
    go(held, **STUDY, overwrite=True)
    assert all(path.read_text() == f"my {path.relative_to(held)}" for path in own)
    assert all((target / name).read_text() == f"my {name}" for name in LINKS)
    workdirs.clear(held)
    left = {path for path in held.rglob("*") if path.is_file()}
    assert left == own | {held / ".mdfl_jax.lock"}


DEEP = "[" * 100_000
EARLIER = "schema is 1; this version reads schema 2; commit [0-9a-f]+ reads the studies of earlier versions"
CONFIGS = {
    "cut": lambda text: text[: len(text) // 2],
    "a list": lambda text: "[1]",
    "nothing": lambda text: "",
    "deep": lambda text: '{"schema": 2, "config": ' + DEEP,
    "huge": lambda text: text.replace('"rounds": 2', '"rounds": ' + "9" * 5000),
    "runs": lambda text: text.replace('"runs": [', '"runs": [{}, '),
    "a path": lambda text: text.replace('"runs": [', '"runs": ["../../other", '),
    "another schema": lambda text: text.replace('"schema": 2', '"schema": 1'),
}


def test_a_config_json_that_no_study_writes_is_one_line(held):
    path = held / CONFIG
    text = path.read_text()
    for what, change in CONFIGS.items():
        path.write_text(change(text))
        line = EARLIER if what == "another schema" else r"config\.json: "
        refused(held, line)
        refused(held, line, act=lambda folder, **_: merge([folder], folder.parent / "merged"))
    go(held, overwrite=True, **STUDY)


def test_of_two_studies_that_begin_at_once_in_a_folder_the_second_is_refused(tmp_path):
    """The other command comes between the look at the folder and the first file."""
    study = make_study(tiny_config(**STUDY | {"data.alpha": 3.0, "data.partition": "dirichlet"}))
    other = lambda *_: go(tmp_path / "run", **STUDY)  # noqa: E731
    with pytest.raises(UserError, match="it holds another study"):
        run_or_resume(study, tmp_path / "run", log=lambda line: None, progress=False, begins=other)
    assert go(tmp_path / "run", **STUDY)[1]


def test_a_folder_of_something_else_is_refused_without_advice(tmp_path):
    for name in ("metrics.jsonl", *OWN[:3], *OWN[5:9]):
        folder, top = tmp_path / name.replace("/", "-"), name.split("/")[0]
        put(folder, name, "zz.txt")
        for overwrite in (False, True):
            line = refused(folder, rf"it holds files of something else \({top}\)", overwrite=overwrite)
            assert "--overwrite" not in line


def test_whatever_the_lock_is_nothing_else_is_harmed(held, tmp_path):
    lock, target = held / ".mdfl_jax.lock", tmp_path / "target"
    target.write_text("mine")
    lock.unlink(missing_ok=True)
    lock.symlink_to(target)
    refused(held, r"\.mdfl_jax\.lock cannot be written: ", seeds=3)
    assert target.read_text() == "mine"
    lock.unlink()
    lock.mkdir()
    refused(held, r"\.mdfl_jax\.lock cannot be written: ", seeds=3)
    lock.rmdir()
    lock.write_text("9" * 10**6)
    go(held, **STUDY | {"seeds": 3})


def test_a_workdir_may_be_a_link_and_growth_may_be_taken_back(held, finished, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(held)
    with pytest.raises(Interrupted):
        go(link, on_evaluation=lambda info: info.seeds[0] > 1, **STUDY | {"seeds": 3})
    assert go(link, **STUDY)[1]
    assert_same(held, finished)


def test_nothing_is_written_or_removed_through_a_linked_folder(held, tmp_path):
    outside = tmp_path / "outside"
    put(outside, "accuracy.png", "summary.csv", "a/events.out.tfevents.1", "0123456789abcdef.json")
    for path in (held / "runs").iterdir():
        shutil.copy(path, outside)
    before = contents(outside)
    for name in FOLDERS:
        shutil.rmtree(held / name, ignore_errors=True)
        (held / name).symlink_to(outside)
        for overwrite in (False, True):
            refused(held, f"{name} is a link, and no file is written through it", seeds=3, overwrite=overwrite)
        (held / name).unlink()
    for name in FOLDERS:
        (held / name).symlink_to(outside)
    workdirs.clear(held)
    assert contents(outside) == before


def test_a_directory_that_cannot_be_is_told(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    for name, line in {
        "file": f"{tmp_path / 'file'} is not a directory",
        "file/a/b": f"{tmp_path / 'file'} is not a directory",
        "link": "is not a directory",
        "a" * 300: "File name too long",
        "run": f"{tmp_path} cannot be read and written",
    }.items():
        if name == "run":
            monkeypatch.setattr(os, "access", lambda path, mode: False)  # as for a user who is not root
        for overwrite in (False, True):
            with pytest.raises(UserError, match=re.escape(line)):
                workdirs.inspect_workdir(tmp_path / name, {}, overwrite)


def test_records_that_are_damaged_or_have_changed_places_are_refused(held, tmp_path):
    """Within a study, and between two: a record is bound to its run."""
    one, other = (run_path(held, name) for name in names_of(held))
    whole = one.read_bytes()
    one.write_bytes(whole[:3000])
    for act in (
        go,
        lambda folder, **_: merge([folder], tmp_path / "merged"),
        lambda folder, **_: Results.read(folder).shown(),
    ):
        said = refused(held, "the file is damaged", act=act, seeds=3)
        assert said.endswith("; remove the file, and the command of the study runs it again")
    shutil.copy(other, one)
    for act in (go, lambda folder, **_: merge([folder], tmp_path / "merged")):
        refused(held, rf"{one.name}: no study writes such a record: it is that of the run '{other.name[:20]}", act=act,
                title="new")  # fmt: skip
    one.write_bytes(whole)
    (held / CONFIG).unlink()
    refused(held, "it holds runs of another study", **{"data.limit_train": 100})
    assert go(held, **STUDY)[1]
    with Workers(held), pytest.raises(UserError, match="computes runs there"):
        merge([held], held)
