"""Makes Markdown of the project's docstrings, for mkdocs.yml: doctests and commands become code, names become links."""

import re
from itertools import groupby
from typing import Any

import griffe

NAME = re.compile(r"`(mdfl_jax(?:\.\w+)+)`")
LINK = r'<autoref identifier="\1" optional><code>\1</code></autoref>'


def as_markdown(text: str) -> str:
    """Return a docstring in which each paragraph that begins with >>>, or with a command, is a block of code.

    >>> print(as_markdown("Adds.\\n\\n>>> 1 + 1\\n2"))
    Adds.
    <BLANKLINE>
    ```python
    >>> 1 + 1
    2
    ```
    """
    parts = []
    for empty, lines in groupby(text.splitlines(), key=lambda line: not line.strip()):
        part = "\n".join(lines)
        first = part.lstrip()
        if not empty and first.startswith((">>> ", "mdfl ", "python -m ")):
            indent, language = part[: len(part) - len(first)], "python" if first.startswith(">>> ") else "bash"
            part = f"{indent}```{language}\n{part}\n{indent}```"
        elif not empty:
            part = NAME.sub(LINK, part)
        parts.append(part)
    return "\n".join(parts)


class Docstrings(griffe.Extension):
    """Rewrites every docstring before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **rest: Any) -> None:
        """Handle each object that griffe has read."""
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)
