"""The directory of a study: what may be written where, and what is never touched."""

import os
import shutil

import pytest

from mdfl_jax.core.errors import UserError
from mdfl_jax.storage.disk import write_json
from mdfl_jax.study import workdir as workdirs

CONFIG = {"seeds": 2, "model": {"widths": (4, 8)}, "network": {"radius": float("inf")}}
WANTED = {"config": CONFIG}  # as in config.json


def told(workdir, config=CONFIG, overwrite=False):
    with pytest.raises(UserError) as caught:
        workdirs.inspect_workdir(workdir, {"config": config}, overwrite)
    line = str(caught.value)
    assert line.startswith(f"--workdir={workdir}: ")
    assert "\n" not in line
    return line


def held(folder, config=CONFIG, status="finished", checkpoints=False):
    folder.mkdir()
    write_json(folder / "config.json", {"schema": 1, "name": "held", "status": status, "config": config})
    if checkpoints:
        (folder / "checkpoints").mkdir()
    return folder


@pytest.mark.parametrize(
    ("status", "checkpoints", "resumed"),
    [("finished", False, False), ("finished", True, False), ("running", False, False), ("running", True, True)],
)
def test_the_same_study_goes_on_where_it_left_a_checkpoint(tmp_path, status, checkpoints, resumed):
    folder = held(tmp_path / "run", status=status, checkpoints=checkpoints)
    assert workdirs.inspect_workdir(folder, WANTED, False).goes_on is resumed
    assert workdirs.inspect_workdir(folder, WANTED, True).goes_on is False  # --overwrite starts anew


def test_another_study_is_told_by_its_name(tmp_path):
    folder = held(tmp_path / "run")
    assert "it holds another study (held): seeds is 2 there and 3 here; choose another, add --extend" in told(
        folder, CONFIG | {"seeds": 3}
    )
    assert workdirs.inspect_workdir(folder, {"config": CONFIG | {"seeds": 3}}, True).goes_on is False


@pytest.mark.parametrize("content", ['{"config": 3', "[1]", "", "directory", None, b"\xff\xfe\x00"])
def test_a_broken_config_json_is_something_else(tmp_path, content):
    folder = tmp_path / "run"
    folder.mkdir()
    if content == "directory":
        (folder / "config.json").mkdir()
    elif isinstance(content, bytes):
        (folder / "config.json").write_bytes(content)
    else:
        (folder / ("notes.txt" if content is None else "config.json")).write_text(content or "")
    assert "it holds files of something else" in told(folder)
    assert workdirs.inspect_workdir(folder, WANTED, True).goes_on is False


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_directory_that_cannot_be_is_told(tmp_path, overwrite, monkeypatch):
    (tmp_path / "file").write_text("")
    assert f"{tmp_path / 'file'} is not a directory" in told(tmp_path / "file", overwrite=overwrite)
    assert f"{tmp_path / 'file'} is not a directory" in told(tmp_path / "file" / "a" / "b", overwrite=overwrite)
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    assert "is not a directory" in told(tmp_path / "link", overwrite=overwrite)
    assert "File name too long" in told(tmp_path / ("a" * 300), overwrite=overwrite)
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # as for a user who is not root
    assert f"{tmp_path} cannot be read and written" in told(tmp_path / "run", overwrite=overwrite)


def test_only_what_a_study_writes_is_removed(tmp_path):
    folder = held(tmp_path / "run", checkpoints=True)
    for name in ("notes.txt", "metrics.jsonl", "summary.json", "history.npz", "report.html"):
        (folder / name).write_text("x")
    for name in ("tables", "figures", "photos"):
        (folder / name).mkdir()
        (folder / name / "a.md").write_text("x")
    (tmp_path / "elsewhere").mkdir()
    shutil.rmtree(folder / "figures")
    (folder / "figures").symlink_to(tmp_path / "elsewhere")
    workdirs.prepare(folder, resume=True)
    assert len(list(folder.iterdir())) == 10
    workdirs.prepare(folder, resume=False)
    assert sorted(path.name for path in folder.iterdir()) == ["notes.txt", "photos"]
    assert (tmp_path / "elsewhere").is_dir()


def test_a_finished_study_is_told_from_another(tmp_path):
    config = {"rounds": 4, "network": {"radius": float("inf")}}
    assert not workdirs.is_finished(tmp_path / "absent", {"config": config})
    for status, finished in (("running", False), ("finished", True)):
        write_json(tmp_path / "config.json", {"status": status, "config": config})
        assert workdirs.is_finished(tmp_path, {"config": config}) == finished
    assert not workdirs.is_finished(tmp_path, {"config": config | {"rounds": 5}})
