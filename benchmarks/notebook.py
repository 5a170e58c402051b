"""Write docs/quickstart.ipynb: docs/tutorial.md as a notebook, run in a fresh kernel.

python -m benchmarks.notebook          takes some three minutes on two CPU cores
"""

import os
import re
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "tutorial.md"
NOTEBOOK = ROOT / "docs" / "quickstart.ipynb"
SETUP = """# Installs the package where it is missing, and goes to an empty folder.
%matplotlib inline
import importlib.util
import os
import sys
import tempfile

if importlib.util.find_spec("mdfl_jax") is None:
    %pip install --quiet mdfl_jax
os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]  # where pip has put mdfl
os.chdir(tempfile.mkdtemp())"""
"""The first cell of code; it does what the page asks of a reader before section 1."""


class Cell(NamedTuple):
    """A cell of the notebook: its source, and the lines that the page prints below a cell of code."""

    kind: str  # "markdown" or "code"
    source: str
    said: list[str]


def cells(text: str) -> list[Cell]:
    """Return the cells of a page.

    A block of `bash` or Python is a cell of code; one with a title writes this file. A block of `text` is what the cell
    before it prints. All other text is markdown, a cell for each piece between blocks.
    """
    found: list[Cell] = []
    before, _, after = text.partition("\n## ")
    pieces = re.split(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```\n', "## " + after, flags=re.M | re.S)
    found += [Cell("markdown", before.strip(), []), Cell("code", SETUP, [])]
    for k, piece in enumerate(pieces[::4]):
        if piece.strip():
            found.append(Cell("markdown", piece.strip(), []))
        if 4 * k + 1 < len(pieces):
            language, title, code = pieces[4 * k + 1 : 4 * k + 4]
            if language == "text":
                found[-1].said.extend(code.splitlines())
            else:
                first = f"%%writefile {title}\n" if title else "%%bash\n" if language == "bash" else ""
                found.append(Cell("code", first + code.rstrip(), []))
    return found


def run(text: str, folder: Path, variables: dict[str, str]) -> Any:
    """Run the cells of a page in a fresh kernel that begins in a folder; return the notebook with its outputs.

    Lines on standard error, such as a study's progress, are left out.

    Raises:
      nbclient.exceptions.CellExecutionError: if a cell fails.
    """
    import nbclient
    import nbformat.v4 as new

    of_kind = {"markdown": new.new_markdown_cell, "code": new.new_code_cell}
    book = new.new_notebook(
        cells=[of_kind[cell.kind](cell.source, id=f"cell-{k}") for k, cell in enumerate(cells(text))]
    )
    nbclient.NotebookClient(book, timeout=600, resources={"metadata": {"path": str(folder)}}).execute(env=variables)
    for cell in book.cells:
        cell.metadata.clear()  # the times of its run
        if cell.cell_type == "code":
            cell.outputs = _joined([output for output in cell.outputs if output.get("name") != "stderr"])
    return book


def _joined(outputs: list[Any]) -> list[Any]:
    """Join the pieces in which a kernel sends the text of a cell."""
    found: list[Any] = []
    for output in outputs:
        if found and output.output_type == found[-1].output_type == "stream":
            found[-1].text += output.text
        else:
            found.append(output)
    return found


def main() -> None:
    """Run the page and write the notebook."""
    import nbformat

    book = run(PAGE.read_text(), ROOT, {**os.environ, "PYTHONPATH": str(ROOT)})
    nbformat.write(book, NOTEBOOK)


if __name__ == "__main__":
    main()
