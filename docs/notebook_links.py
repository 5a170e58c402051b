"""Lets the links of a notebook lead to pages of the site, for mkdocs.yml: a notebook names a page by its file."""

import re
from typing import Any


def on_page_content(html: str, page: Any, **rest: Any) -> str:
    """Handle each page of the site, for mkdocs. In a notebook, ``tutorial.md`` becomes ``tutorial.html``."""
    if not page.file.src_uri.endswith(".ipynb"):
        return html
    return re.sub(r'href="([\w/]+)\.md(#[\w-]+)?"', r'href="\1.html\2"', html)
