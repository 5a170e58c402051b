"""Makes the pages of the site that no file has, for mkdocs.yml: all fields, the families, and the papers' items.

A page that is a file names the command that prints these facts, such as `mdfl info mixing`. In the site it is a link.
"""

import re
from pathlib import PurePath
from typing import Any

from benchmarks.papers import catalogue
from benchmarks.papers import page as papers
from mdfl_jax.cli import families

catalogue.load()
PAGES = families.pages() | papers.pages()
NAMES = {PurePath(path).stem: path for path in PAGES}
COMMAND = re.compile(r"`(?:mdfl info (?:--)?|python -m benchmarks\.papers --page=)(\w+)(?:\.(\w+))?`")


def on_files(files: Any, config: Any) -> None:
    """Add the pages to the files of the site, for mkdocs."""
    from mkdocs.structure.files import File  # here, since a test of the links needs no mkdocs

    for path, text in PAGES.items():
        files.append(File.generated(config, path, content=text))


def on_page_markdown(markdown: str, page: Any, **rest: Any) -> str:
    """Make links of the commands on a page that is a file, for mkdocs."""
    return markdown if page.file.src_uri in PAGES else linked(markdown)


def linked(markdown: str) -> str:
    """Return a page of docs/ in which each command that prints a page, or a member on it, is a link to this page."""

    def link(found: re.Match) -> str:
        name, member = found.groups()
        if name not in NAMES or (member and f"\n## `{member}`\n" not in PAGES[NAMES[name]]):
            return found[0]
        return f"[{found[0]}]({NAMES[name]}{f'#{member}' if member else ''})"

    return COMMAND.sub(link, markdown)
