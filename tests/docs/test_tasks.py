"""docs/tasks.md is followed as printed, each task in an empty folder; the output is compared."""

import os
import re
import sys
from pathlib import Path

import pytest
from forked import programs
from pages import ROOT, follow, missing

TASKS = re.split(r"^## ", (ROOT / "docs" / "tasks.md").read_text(), flags=re.M)[1:]
TITLES = [task.partition("\n")[0] for task in TASKS]


@pytest.fixture(scope="module")
def shell():
    """The variables of a reader's shell, where `mdfl` and `python` are those of this environment and this checkout."""
    path = f"{programs()}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "MDFL_", "PYTEST_"))}
    cache = {"JAX_COMPILATION_CACHE_DIR": os.environ["JAX_COMPILATION_CACHE_DIR"]}
    return kept | cache | {"PATH": path, "PYTHONPATH": str(ROOT), "XLA_FLAGS": ""}


def test_every_task_is_there_and_says_how_long_it_takes():
    for title, task in zip(TITLES, TASKS):
        assert "```bash\n" in task, title
        assert re.search(r"\b\d+ s\b", task), f"{title}: no seconds"
        assert "```text\n```" not in task, f"{title}: nothing is printed"


def test_what_is_printed_is_compared():
    printed = "static   45.10 ± 8.5   280\nother\ndcm  90.17 ± 1.87  20\nhere 0.5 in the study 0.5, 0.0144 MB\n"
    assert missing(printed, ["static 44.2 ± 9.0 280", "...", "dcm 91.0 ± 2.0 20"]) == []
    assert missing(printed, ["dcm 91.0 ± 2.0 20", "static 44.2 ± 9.0 280"]) == ["static 44.2 ± 9.0 280"]
    for wrong in ("static 40.1 ± 8.5 280", "static 45.1 ± 8.5 240", "statics 45.1 ± 8.5 280", "static 45.1 ± 8.5"):
        assert missing(printed, [wrong]) == [wrong]
    assert missing(printed, ["here 0.51 in the study 0.51, 0.0147 MB"]) == []
    for wrong in ("here 0.6 in the study 0.5, 0.0144 MB", "here 0.5 in the study 0.5, 0.0191 MB"):
        assert missing(printed, [wrong]) == [wrong]


@pytest.mark.long
@pytest.mark.parametrize("task", TASKS, ids=TITLES)
def test_a_task_is_done_as_printed(task, tmp_path, shell):
    for printed, said in follow(task, tmp_path, shell):
        assert missing(printed, said) == [], printed
