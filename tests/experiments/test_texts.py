"""The texts of a finished study have checksums: a changed digit is told by everything that reads the study."""

import json
import re

import pytest
from made_study import made

from mdfl_jax import Results
from mdfl_jax.checksums import CHECKSUMS
from mdfl_jax.errors import UserError
from mdfl_jax.experiments.results.records import read
from mdfl_jax.experiments.results.write import rewrite
from mdfl_jax.report.read import read_workdir

READERS = {"Python": Results.load, "merge and --extend": read, "report": read_workdir}
TEXTS = ("config.json", "summary.json", "metrics.jsonl")
SWEPT = {"sweep": "network.mobility=static,dcm", "baseline": "network.mobility=static", "seeds": 2}


@pytest.fixture
def folder(tmp_path):
    made(tmp_path / "run", **SWEPT)
    return tmp_path / "run"


def with_another_digit(path, occurrence):
    """Changes the last digit of a number with a decimal point."""
    text = path.read_text()
    found = list(re.finditer(r"\d\.\d+(?=[,\n}\]])", text))[occurrence]
    last = text[found.end() - 1]
    path.write_text(f"{text[: found.end() - 1]}{(int(last) + 1) % 10}{text[found.end() :]}")


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("occurrence", [0, -1])
def test_a_changed_digit_is_told_with_the_name_of_the_file(folder, name, reader, occurrence):
    READERS[reader](folder)
    with_another_digit(folder / name, occurrence)
    with pytest.raises(UserError, match=rf"{re.escape(str(folder / name))}: changed or damaged since the study ended"):
        READERS[reader](folder)


@pytest.mark.parametrize("reader", READERS)
def test_other_ends_of_lines_and_another_layout_are_no_change(folder, reader):
    for name in ("summary.json", "metrics.jsonl"):
        (folder / name).write_bytes((folder / name).read_bytes().replace(b"\n", b"\r\n"))
    manifest = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(dict(reversed(manifest.items()))))
    READERS[reader](folder)


@pytest.mark.parametrize("reader", READERS)
def test_a_study_of_an_older_version_has_none(folder, reader):
    manifest = json.loads((folder / "config.json").read_text())
    assert set(manifest.pop(CHECKSUMS)) == set(TEXTS)
    (folder / "config.json").write_text(json.dumps(manifest))
    with_another_digit(folder / "summary.json", -1)
    READERS[reader](folder)


@pytest.mark.parametrize("before", ["summary.json", "config.json"])
def test_a_study_whose_title_is_just_changed_can_be_read(folder, monkeypatch, before):
    """As a kill between two files leaves it; the same command then writes them again."""
    from mdfl_jax.experiments.results import write

    stored, real, names = read(folder), write.write_json, []

    def until_killed(path, value):
        if path.name == before and "config.json" in names:
            raise SystemExit
        names.append(path.name)
        real(path, value)

    monkeypatch.setattr(write, "write_json", until_killed)
    with pytest.raises(SystemExit):
        rewrite(folder, stored, {"title": "another"})
    monkeypatch.undo()
    for of in READERS.values():
        of(folder)
    rewrite(folder, read(folder), {"title": "another"})
    assert set(json.loads((folder / "config.json").read_text())[CHECKSUMS]) == set(TEXTS)
