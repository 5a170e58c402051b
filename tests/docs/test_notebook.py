"""docs/quickstart.ipynb is docs/tutorial.md as a notebook; it runs in a fresh kernel and prints what the page says."""

import json
import os
import re

import pytest
from pages import ROOT, missing

from benchmarks import notebook

CELLS = notebook.cells(notebook.PAGE.read_text())
STORED = json.loads(notebook.NOTEBOOK.read_text())["cells"]


def printed(cell):
    """The text that a cell shows, without the addresses of objects."""
    found = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell["outputs"]]
    return re.sub(r" at 0x\w+", "", "\n".join(map("".join, found)))


def pictures(cell):
    return sum("image/png" in output.get("data", {}) for output in cell["outputs"])


def shows_what_the_page_says(cells):
    for cell, page in zip(cells, CELLS, strict=True):
        if page.kind == "code":
            assert missing(printed(cell), page.said) == [], page.source


def test_the_notebook_is_the_page():
    assert [(cell["cell_type"], "".join(cell["source"])) for cell in STORED] == [(c.kind, c.source) for c in CELLS]
    shows_what_the_page_says(STORED)


def test_the_file_is_small_and_shows_plots():
    assert notebook.NOTEBOOK.stat().st_size < 1_000_000
    cells = [cell for cell in STORED if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert sum(map(pictures, cells)) == 1
    assert not any(output["output_type"] == "error" or output.get("name") == "stderr"
                   for cell in cells for output in cell["outputs"])  # fmt: skip
    assert "a notebook plays it" in printed(cells[-1])
    assert any("text/html" in output["data"] for output in cells[-1]["outputs"])


@pytest.mark.long
def test_it_runs_in_a_fresh_kernel(tmp_path):
    for package in ("nbclient", "nbformat", "ipykernel"):
        pytest.importorskip(package)
    others = ("JAX_DISABLE_", "MDFL_", "PYTEST_")  # all but the compilation cache
    kept = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    book = notebook.run(notebook.PAGE.read_text(), tmp_path, kept | {"PYTHONPATH": str(ROOT), "XLA_FLAGS": ""})
    shows_what_the_page_says(book.cells)
    assert sum(pictures(cell) for cell in book.cells if cell.cell_type == "code") == 1
