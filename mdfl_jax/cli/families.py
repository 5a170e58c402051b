"""What is known of the registries, their entries and all fields: as text for a terminal, and as pages in Markdown.

Everything is read from the declarations: an entry's description, formula and papers are those of its registration.
"""

import dataclasses
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from mdfl_jax.config.checks import LOGGERS
from mdfl_jax.config.points import can_be_axis
from mdfl_jax.config.resolve import all_fields
from mdfl_jax.config.sections import families as of_members
from mdfl_jax.config.sections import schema
from mdfl_jax.core import papers
from mdfl_jax.core.errors import UserError, nearest
from mdfl_jax.core.numbers import BOUNDS, Numbers, fields_of
from mdfl_jax.core.section import Family
from mdfl_jax.data.sources import SOURCES

T = TypeVar("T")
ROOT = Path(__file__).parents[2]  # of the paths of entries
FOLDER = "families"  # of the pages of the registries, below docs/
_OTHERS = (
    Family(
        SOURCES,
        "Data sets without a file",
        "data",
        "data.name",
        about="Data sets that need no file. docs/data.md has the others.",
    ),
    Family(
        LOGGERS,
        "Loggers",
        "",
        "loggers",
        about="Tools that draw a study while it runs; several are separated by commas.",
    ),
)
_FIELDS = """# All fields

A field is set in a config file (`config.network.radius = 2.0`), on the command line (`--config.network.radius=2.0`)
or from Python (`{"network.radius": 2.0}`). The column "axis" says whether a sweep can vary a field. Sweep points that
differ only in `network.mobility` and in fields marked "traced" share one compiled program. Sweep points that differ in
a field marked "static" are compiled separately.

These are the fields that every study has. A hyperparameter of an entry, such as `algorithm.lr` or `data.alpha`, is a
field too, and stands on the page of the registry. If a configuration does not set it, it has the default of the entry
in use.
"""
_COLUMNS = ("default", "allowed", "axis", "meaning")


def families() -> dict[str, Family]:
    """Return the registries, and the data sources, by the names that `mdfl info NAME` takes."""
    return {re.sub(r"\W", "_", family.registry.kind): family for family in (*of_members(), *_OTHERS)}


def listing(only: str = "") -> str:
    """List the registries with their entries, formulas and hyperparameters, as text.

    Args:
      only: The name of a registry, an entry or a field, such as 'algorithm', 'algorithm.pame' or 'algorithm.lr'; empty:
        all families.

    Raises:
      UserError: If the name is unknown. The message suggests the nearest name, as algorithm.pame for pame.
    """
    kind, _, member = only.partition(".")
    known = families()
    if only in (fields := all_fields()) and member not in (known[kind].registry if kind in known else ()):
        return "\n".join(_of_members(only)) or _line(only, fields[only]).strip()
    if kind and kind not in known:
        paths = [*(f"{name}.{each}" for name, family in known.items() for each in family.registry), *fields]
        exact = [path for path in paths if path.rpartition(".")[2] == only]
        near = exact[0] if exact else nearest(only, known) or nearest(only, paths)
        meant = f" (did you mean {near!r}?)" if near else ""
        raise UserError(f"unknown registry {only!r}{meant}; known: {', '.join(sorted(known))}")
    lines = []
    for name, family in known.items():
        if kind in ("", name):
            lines.append(f"{name}: {family.field}{f', hyperparameters {family.section}.*' if family.section else ''}")
            lines += [f"  {family.about}"] * bool(kind)
            usual = [] if member else _numbers(family, family.registry.usual, _line)
            lines += ["  usual hyperparameters, of which an entry may lack some", *usual] if usual else []
            for each in [member] if member else family.registry:
                contrib = " (contrib)" * family.registry.member(each).is_contrib
                lines += [f"  {each}{contrib}  {family.registry.doc(each)}".rstrip(), *_said(family, each)]
                lines += [f"      {line}".rstrip() for line in family.registry.told(each).split("\n")] * bool(member)
                numbers = family.registry.numbers(each)
                lines += [line for line in _numbers(family, numbers, _line) if line not in usual]
    return "\n".join(lines)


def _of_members(path: str) -> list[str]:
    """Return a line for each declaration of a number, with the entries that have it."""
    found: dict[str, list[str]] = {}
    for family in families().values():
        for each in family.registry:
            for of, line in _numbers(family, family.registry.numbers(each), lambda of, field: (of, _line(of, field))):
                if of == path:
                    found.setdefault(line.strip(), []).append(each)
    return [f"{line} (of {', '.join(members)})" for line, members in found.items()]


def _said(family: Family, name: str) -> list[str]:
    """Return the lines of text with the formula of an entry, its papers and what it needs."""
    member = family.registry.member(name)
    lines = [f"      formula: {line}" for line in _formulas(member.formula)]
    lines += [f"      source: {papers.in_words(member.cite)}"] * bool(member.cite)
    needs = family.needs(name)
    return lines + [f"      {needs}"] * bool(needs)


def _formulas(text: str) -> list[str]:
    """Return the parts of a formula, a line for each."""
    return list(filter(None, re.split(r";  |\n", text)))


def pages() -> dict[str, str]:
    """Return the pages in Markdown by their paths below docs/: all fields, and a page for each registry."""
    found = {f"{FOLDER}/{name}.md": _family(name, family) for name, family in families().items()}
    return {"fields.md": fields(), **found}


def fields() -> str:
    """Return the page in Markdown of the fields that every study has, with the list of the registries."""
    whole = schema()
    nested = [each for each in dataclasses.fields(whole) if dataclasses.is_dataclass(each.type)]
    lines = [_FIELDS, "## The study", "", *_section(whole, "")]
    for section in nested:
        kind = section.type
        doc = (kind.__doc__ or "").strip()
        lines += ["", f"## {section.name}", "", *(line.strip() for line in doc.splitlines()), ""]
        lines += _section(kind, f"{section.name}.")  # type: ignore[arg-type]
    lines += ["", "## Registries", ""]
    lines += _table(
        ("registry", "chosen by", "entries"),
        (
            (f"[{of.title}]({FOLDER}/{name}.md)", f"`{of.field}`", ", ".join(f"`{each}`" for each in of.registry))
            for name, of in families().items()
        ),
    )
    return "\n".join(lines) + "\n"


def _section(kind: type, prefix: str) -> list[str]:
    """Return the table of the fields of a section that are no hyperparameters of entries."""
    declared = (each for each in dataclasses.fields(kind) if "doc" in each.metadata and "own" not in each.metadata)
    fields = {prefix + each.name: each for each in declared}
    rows = [_cells(path, each, can_be_axis(path)) for path, each in fields.items()]
    return _table(("field", *_COLUMNS), rows)


def _family(name: str, family: Family) -> str:
    """Return the page of a registry: its entries in a table, and each with its formula, papers and hyperparameters."""
    registry = family.registry
    usual, first = _numbers(family, registry.usual, _cells), next(iter(registry))
    lines = [
        f"# {family.title}",
        "",
        f"`{family.field}` chooses, as in `--config.{family.field}={first}`. `mdfl info {name}` prints these facts.",
        "",
    ]
    lines += [_prose(family.about), ""]
    needs = {each: family.needs(each) for each in registry}
    head = ("entry", "what it is", "source", "needs")[: 4 if any(needs.values()) else 3]
    source = {each: papers.in_words(registry.member(each).cite) for each in registry}
    rows = [
        (f"[`{each}`](#{each.replace(':', '')})", registry.doc(each), source[each], needs[each]) for each in registry
    ]
    lines += _table(head, [row[: len(head)] for row in rows])
    if usual:
        lines += ["", "## Hyperparameters of all entries", "", "An entry may lack some of them.", ""]
        lines += _table(("field", *_COLUMNS), usual)
    for each in registry:
        lines += ["", *_member(family, each, usual)]
    cited = {of.key: of for each in registry for of, _ in papers.cited(registry.member(each).cite)}
    if cited:
        lines += ["", "## Papers", "", "`mdfl cite STUDY` prints the BibTeX entries of those that a study uses.", ""]
        lines += [f"- {of.short}: {of.whole}" for of in sorted(cited.values(), key=lambda of: of.short.lower())]
    return "\n".join(lines) + "\n"


def _member(family: Family, name: str, usual: list[tuple[str, ...]]) -> list[str]:
    """Return the section of an entry in the page of its registry."""
    member = family.registry.member(name)
    lines = [f"## `{name}`", "", _prose(family.registry.doc(name)), ""]
    if member.formula:
        lines += ["```text", *_formulas(member.formula), "```", ""]
    path = Path(member.file)
    code = f"Code: `{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path.name}`."
    source = f"Source: {papers.in_words(member.cite)}." if member.cite else ""
    lines += [" ".join(filter(None, (source, family.needs(name), code))), ""]
    lines += [_prose(family.registry.told(name)), ""] if family.registry.told(name) else []
    own = [row for row in _numbers(family, family.registry.numbers(name), _cells) if row not in usual]
    return [*lines, *_table(("field", *_COLUMNS), own)] if own else lines[:-1]


def _prose(text: str) -> str:
    """Return a text as Markdown: outside of code, "*" would be an emphasis and "<" an element of HTML."""
    parts = re.split(r"(`+[^`]*`+)", text)
    return "".join(of if k % 2 else of.replace("*", "\\*").replace("<", "&lt;") for k, of in enumerate(parts))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a table in Markdown. A vertical bar would begin the next cell, and "<" an element of HTML."""
    cells = [[cell.replace("|", "\\|").replace("<", "&lt;") for cell in row] for row in rows]
    return [f"| {' | '.join(row)} |" for row in (head, [":--"] * len(head), *cells)]


def _numbers(family: Family, kind: type[Numbers], described: Callable[[str, dataclasses.Field], T]) -> list[T]:
    """Return the hyperparameters of an entry, each as a function of its path and field describes it."""
    return [described(f"{family.section}.{name}", field) for name, field in fields_of(kind).items()]


def _facts(field: dataclasses.Field) -> tuple[str, str, list[str]]:
    """Return the default of a field, its bounds in words, and the names that it may have; each empty for none."""
    rules, default = field.metadata, field.default
    names = rules.get("names", ())
    return (
        "x".join(map(str, default)) if isinstance(default, tuple) else str(default),
        " and ".join(f"{words} {rules[bound]}" for bound, (_, words) in BOUNDS.items() if bound in rules),
        list(map(str, names() if callable(names) else names)),
    )


def _meaning(field: dataclasses.Field) -> str:
    return field.metadata["doc"] + (f" [{field.metadata['source']}]" if "source" in field.metadata else "")


def _line(name: str, field: dataclasses.Field) -> str:
    """Describe a number in a line of text."""
    default, bounds, names = _facts(field)
    allowed = f" ({bounds})" if bounds else f" (of {', '.join(names)})" if names else ""
    unit = f" {field.metadata['unit']}" if "unit" in field.metadata else ""
    return f"      {name} = {default}{unit}{allowed}: {_meaning(field)}"


def _cells(name: str, field: dataclasses.Field, is_axis: bool = True) -> tuple[str, ...]:
    """Describe a field or a number in the cells of a row in Markdown."""
    default, bounds, names = _facts(field)
    unit = f" {field.metadata['unit']}" if "unit" in field.metadata else ""
    axis = "" if not is_axis else "traced" if field.metadata.get("traced") else "static"
    allowed = bounds or ", ".join(f"`{each}`" if each else "empty" for each in names)
    return f"`{name}`", f"`{default}`{unit}" if default else "empty", allowed, axis, _meaning(field)
