"""Makes the pages of the site that no file has, for mkdocs.yml: all fields, the families, and the papers' items.

A page that is a file names the command that prints these facts, such as `mdfl info mixing`. In the site it is a link.
"""

import re
from pathlib import Path, PurePath
from typing import Any

from benchmarks.papers import catalogue
from benchmarks.papers import page as papers
from mdfl_jax.cli import families
from mdfl_jax.core import papers as literature
from mdfl_jax.core.section import Family

ROOT = Path(__file__).parents[1]  # of the paths of entries


def page_of(name: str, family: Family) -> str:
    """Return the page of a registry: its entries, each with its formula, papers and hyperparameters."""
    registry = family.registry
    usual, first = families.numbers_of(family, registry.usual, families.line_of), next(iter(registry))
    lines = [f"# {family.title}", "", f"`{family.field}` chooses, as in `--config.{family.field}={first}`."]
    lines += [f"`mdfl info {name}` prints these facts.", "", families.prose(family.about), ""]
    if usual:
        lines += [
            "## Hyperparameters of all entries",
            "",
            "An entry may lack some of them.",
            "",
            *map(families.item, usual),
            "",
        ]
    for each in registry:
        member, told = registry.member(each), registry.told(each)
        lines += [f"## `{each}`", "", families.prose(registry.doc(each)), ""]
        lines += ["```text", *families.formulas(member.formula), "```", ""] if member.formula else []
        path = Path(member.file)
        code = f"Code: `{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path.name}`."
        source = f"Source: {literature.in_words(member.cite)}." if member.cite else ""
        lines += [
            " ".join(filter(None, (source, family.needs(each), code))),
            "",
            *([families.prose(told), ""] if told else []),
        ]
        own = families.numbers_of(family, registry.numbers(each), families.line_of)
        lines += [*(families.item(line) for line in own if line not in usual), ""]
    return "\n".join(lines)


catalogue.load()
PAGES = {f"{families.FOLDER}/{name}.md": page_of(name, family) for name, family in families.families().items()}
PAGES |= {"fields.md": families.fields(), **papers.pages()}
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
