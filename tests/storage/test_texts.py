"""The texts of a finished study have checksums: a changed digit is told by everything that reads the study."""

import contextlib
import json
import re
import shutil

import pytest
from made_study import made
from tiny import tiny_config

from mdfl_jax import Results
from mdfl_jax.core.errors import UserError
from mdfl_jax.report.read import read_workdir
from mdfl_jax.results import write
from mdfl_jax.results.records import read
from mdfl_jax.results.write import rewrite
from mdfl_jax.storage.checksums import CHECKSUMS, check_texts
from mdfl_jax.storage.study_files import PUBLISHING, RESULT
from mdfl_jax.study import make_study
from mdfl_jax.study.run import LEFT, run_or_resume

READERS = {"Python": Results.load, "merge and --extend": read, "report": read_workdir}
TEXTS = ("config.json", "summary.json", "metrics.jsonl")
SWEPT = {"sweep": "network.mobility=static,dcm", "baseline": "network.mobility=static", "seeds": 2}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "run"
    made(folder, **SWEPT)
    return folder


@pytest.fixture
def folder(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "run")


def with_another_digit(path, occurrence):
    """Changes the last digit of a number with a decimal point."""
    text = path.read_text()
    found = list(re.finditer(r"\d\.\d+(?=[,\n}\]])", text))[occurrence]
    last = text[found.end() - 1]
    path.write_text(f"{text[: found.end() - 1]}{(int(last) + 1) % 10}{text[found.end() :]}")


@pytest.mark.parametrize("name", TEXTS)
def test_a_changed_digit_is_told_with_the_name_of_the_file(folder, name):
    whole = (folder / name).read_bytes()
    for of in READERS.values():
        of(folder)
    for occurrence in (0, -1):
        with_another_digit(folder / name, occurrence)
        for of in READERS.values():
            with pytest.raises(
                UserError, match=rf"{re.escape(str(folder / name))}: changed or damaged since the study"
            ):
                of(folder)
        (folder / name).write_bytes(whole)


def test_other_ends_of_lines_and_another_layout_are_no_change(folder):
    for name in ("summary.json", "metrics.jsonl"):
        (folder / name).write_bytes((folder / name).read_bytes().replace(b"\n", b"\r\n"))
    manifest = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(dict(reversed(manifest.items()))))
    for of in READERS.values():
        of(folder)


@contextlib.contextmanager
def killed_before(name):
    """Kills `rewrite` before it writes a file; of config.json, before it does so for the second time."""
    real, names = write.write_json, []

    def until_killed(path, value):
        if path.name == name and "config.json" in names:
            raise SystemExit
        names.append(path.name)
        real(path, value)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(write, "write_json", until_killed)
        yield


@pytest.mark.parametrize("before", ["summary.json", "config.json"])
def test_a_study_whose_title_is_just_changed_can_be_read(folder, before):
    """As a kill between two files leaves it; the same command then writes them again."""
    stored = read(folder)
    with killed_before(before), pytest.raises(SystemExit):
        rewrite(folder, stored, {"title": "another"})
    for of in READERS.values():
        of(folder)
    rewrite(folder, read(folder), {"title": "another"})
    assert set(json.loads((folder / "config.json").read_text())[CHECKSUMS]) == set(TEXTS)


@pytest.mark.parametrize("name", ["summary.json", "metrics.jsonl"])
def test_a_text_that_is_gone_or_no_text_is_one_line(folder, name):
    manifest = json.loads((folder / "config.json").read_text())
    (folder / name).write_bytes(b"\xff")
    with pytest.raises(UserError, match=rf"{re.escape(str(folder / name))}: cannot be read"):
        check_texts(manifest, folder)
    (folder / name).unlink()
    with pytest.raises(UserError, match=rf"{re.escape(str(folder / name))}: cannot be read"):
        check_texts(manifest, folder)
    for checksums in (["config.json"], "config.json", None, 3):
        check_texts({**manifest, CHECKSUMS: checksums}, folder)


def run(folder, **changes):
    """The lines that a command says of a tiny study that is run, or was."""
    lines = []
    run_or_resume(make_study(tiny_config(rounds=2, eval_every=2, **changes)), folder, log=lines.append, progress=False)
    return lines


@pytest.mark.parametrize("before", ["summary.json", "config.json"])
def test_the_former_command_heals_what_a_stopped_change_has_left(tmp_path, before):
    folder = tmp_path / "run"
    run(folder, target=0.8)
    whole = (folder / "summary.json").read_bytes()
    with killed_before(before), pytest.raises(SystemExit):
        run(folder, target=0.1)
    (line,) = run(folder, target=0.8)
    assert line.startswith(f"{folder}: a command was stopped while it wrote them; the results are written anew")
    assert (folder / "summary.json").read_bytes() == whole
    assert run(folder, target=0.8) == []
    for of in READERS.values():
        of(folder)


def test_a_damaged_config_json_is_not_taken_for_another_study_nor_overwritten(tmp_path):
    folder = tmp_path / "run"
    run(folder)
    whole = (folder / "config.json").read_text()
    for old, new in (('"rounds": 2', '"rounds": 3'), ('"status": "finished"', '"status": "finithed"')):
        assert old in whole
        (folder / "config.json").write_text(whole.replace(old, new, 1))
        with pytest.raises(UserError, match=r"config\.json: changed or damaged"):
            run(folder)
    manifest = json.loads(whole) | {"status": "finithed"}
    del manifest[CHECKSUMS]
    (folder / "config.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError, match="its status is 'finithed'"):
        run(folder)
    assert (folder / "history.npz").exists()


def test_what_a_kill_has_left_beside_a_finished_study_is_removed(tmp_path):
    folder = tmp_path / "run"
    run(folder)
    for name in LEFT:
        (folder / name).mkdir()
    assert run(folder) == []
    assert not any((folder / name).exists() for name in LEFT)


def test_python_tells_that_new_files_are_just_taking_the_place_of_others(folder):
    (folder / PUBLISHING / RESULT).mkdir(parents=True)
    for of in READERS.values():
        with pytest.raises(UserError, match="repeat that command, which goes on"):
            of(folder)
