"""Write the figures of results files into README.md and the pages of docs/: python -m benchmarks.quote [--check]

Comments mark the places in a page: a table stands between the lines `<!-- figures: NAME -->` and `<!-- /figures -->`.
The modules `quoted*.py` list the names. A table of an item of the papers has the name `ITEM, TITLE`, as in
`fedmobile:f3, upload`; one of the arena `arena_digits` or `arena_digits, settings`. With --check nothing is written:
the pages that differ are printed, and the exit status is 1 if there are any.
"""

import re
from pathlib import Path

from absl import flags

from benchmarks import quoted_adversaries, quoted_clocks, quoted_peers, quoted_personal, quoted_private
from benchmarks.quoted import TABLES as OF_SUITES
from benchmarks.quoted import of_item
from benchmarks.quoted_arena import of_arena
from mdfl_jax.cli import common
from mdfl_jax.core.errors import UserError, unknown_name

_CHECK = flags.DEFINE_bool("check", False, "Print the pages that differ, and write nothing.")

TABLES = OF_SUITES | quoted_adversaries.TABLES | quoted_clocks.TABLES | quoted_personal.TABLES
TABLES |= quoted_private.TABLES | quoted_peers.TABLES
ROOT = Path(__file__).parents[1]
MARKER = re.compile(r"<!-- figures: (?P<table>.*?) -->|<!-- /figures -->")
END = "<!-- /figures -->"


def pages() -> list[Path]:
    """Return the pages whose figures come from results files."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def quoted(name: str) -> str:
    """Return the text that belongs behind an opening marker."""
    if ":" in name:
        return "\n".join(["", *of_item(name), ""])
    if name.startswith("arena_"):
        return "\n".join(["", *of_arena(name), ""])
    if name not in TABLES:
        raise UserError(unknown_name("table", name, TABLES))
    return "\n".join(["", *TABLES[name](), ""])


def rewritten(page: Path) -> str:
    """Return the text of a page with the figures of the results files.

    Raises:
      UserError: for a marker without an end or a beginning, for an unknown name, and for a missing results file.
    """
    text, parts, position = page.read_text(), list[str](), 0
    markers = list(MARKER.finditer(text))
    for begin, end in zip(markers[::2], [*markers[1::2], None]):
        where = f"{page}:{text.count(chr(10), 0, begin.start()) + 1}: {begin[0]}"
        if begin["table"] is None:
            raise UserError(f"{where} ends nothing")
        if end is None or end[0] != END:
            raise UserError(f"{where} must be followed by {END}")
        try:
            parts += [text[position : begin.end()], quoted(begin["table"])]
        except UserError as error:
            raise UserError(f"{where}: {error}") from None
        position = end.start()
    return "".join([*parts, text[position:]])


def update(found: list[Path], check: bool) -> int:
    """Rewrite the pages that differ from the results files, and print their names; with `check` only print them."""
    texts = {page: rewritten(page) for page in found}  # all of them before the first is written
    differ = [page for page, text in texts.items() if text != page.read_text()]
    for page in differ:
        print(page)
        if not check:
            page.write_text(texts[page])
    return 1 if differ and check else 0


def main() -> int:
    """Rewrite or check all pages; return status 1 if --check finds one that differs."""
    return update(pages(), _CHECK.value)


if __name__ == "__main__":
    common.run_command(main)
