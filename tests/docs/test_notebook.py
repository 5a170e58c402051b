"""docs/quickstart.ipynb runs in a fresh kernel and shows what is stored in the file."""

import json
import os
import re

import pytest
from pages import ROOT, missing

NOTEBOOK = ROOT / "docs" / "quickstart.ipynb"


def stored():
    return [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]


def texts(cell):
    """The lines of text that a cell shows, without the addresses of objects."""
    found = []
    for output in cell["outputs"]:
        text = output.get("text") or output.get("data", {}).get("text/plain", "")
        found += re.sub(r" at 0x\w+", "", "".join(text)).splitlines()
    return found


def pictures(cell):
    return sum("image/png" in output.get("data", {}) for output in cell["outputs"])


def test_the_file_is_small_and_shows_tables_and_plots():
    assert NOTEBOOK.stat().st_size < 1_000_000
    cells = stored()
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert sum(map(pictures, cells)) == 3
    assert not any(output["output_type"] in ("error", "display_data") or output.get("name") == "stderr"
                   for cell in cells for output in cell["outputs"])  # fmt: skip
    assert any("text/html" in output.get("data", {}) for cell in cells for output in cell["outputs"])


@pytest.mark.long
def test_it_runs_in_a_fresh_kernel(tmp_path):
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    others = ("JAX_DISABLE_", "MDFL_", "PYTEST_")  # all but the compilation cache: it compiles one study three times
    kept = {name: value for name, value in os.environ.items() if not name.startswith(others)}
    notebook = nbformat.read(NOTEBOOK, 4)
    client = nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}})
    client.execute(env=kept | {"PYTHONPATH": str(ROOT), "XLA_FLAGS": ""})
    ran = [cell for cell in notebook.cells if cell["cell_type"] == "code"]
    for cell, before in zip(ran, stored(), strict=True):
        assert pictures(cell) == pictures(before)
        assert missing("\n".join(texts(cell)), texts(before)) == []
