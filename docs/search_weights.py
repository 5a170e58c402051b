"""Lets a search of the site find the pages that explain before those that list, for mkdocs.yml.

The search weighs a word of a title a thousand times as much as one of the text. So the names of functions, and the
headings of long tables, would come before the page about a subject.
"""

from typing import Any

WEIGHTS = {"api/": 0.01, "papers_tables.md": 0.01, "decisions.md": 0.1}  # of pages whose paths begin so; 1 for others


def on_page_markdown(markdown: str, page: Any, **rest: Any) -> None:
    """Handle each page of the site, for mkdocs."""
    for start, weight in WEIGHTS.items():
        if page.file.src_uri.startswith(start):
            page.meta.setdefault("search", {})["boost"] = weight
