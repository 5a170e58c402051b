"""What is known of the registries and their entries, as text for a terminal, and of all fields, in Markdown.

Everything is read from the declarations: an entry's description, formula and papers are those of its registration.
"""

import dataclasses
import re
from collections.abc import Callable
from typing import TypeVar

from mdfl_jax.config.checks import LOGGERS
from mdfl_jax.config.points import can_be_axis
from mdfl_jax.config.resolve import all_fields
from mdfl_jax.config.sections import entry_registries, schema
from mdfl_jax.core import papers
from mdfl_jax.core.errors import UserError, nearest
from mdfl_jax.core.numbers import BOUNDS, Numbers, fields_of
from mdfl_jax.core.section import Family
from mdfl_jax.data.sources import SOURCES

_T = TypeVar("_T")
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
or from Python (`{"network.radius": 2.0}`). A sweep can vary the fields with a mark at the end. Sweep points that
differ only in `network.mobility` and in fields marked (traced) share one compiled program. Sweep points that differ in
a field marked (static) are compiled separately.

These are the fields that every study has. A hyperparameter of an entry, such as `algorithm.lr` or `data.alpha`, is a
field too, and stands on the page of the registry. If a configuration does not set it, it has the default of the entry
in use.
"""


def families() -> dict[str, Family]:
    """Return the registries, and the data sources, by the names that `mdfl info NAME` takes."""
    return {re.sub(r"\W", "_", family.registry.kind): family for family in (*entry_registries(), *_OTHERS)}


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
        return "\n".join(_of_members(only)) or line_of(only, fields[only]).strip()
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
            usual = [] if member else numbers_of(family, family.registry.usual, line_of)
            lines += ["  usual hyperparameters, of which an entry may lack some", *usual] if usual else []
            for each in [member] if member else family.registry:
                contrib = " (contrib)" * family.registry.member(each).is_contrib
                lines += [f"  {each}{contrib}  {family.registry.doc(each)}".rstrip(), *_said(family, each)]
                lines += [f"      {line}".rstrip() for line in family.registry.told(each).split("\n")] * bool(member)
                numbers = family.registry.numbers(each)
                lines += [line for line in numbers_of(family, numbers, line_of) if line not in usual]
    return "\n".join(lines)


def _of_members(path: str) -> list[str]:
    """Return a line for each declaration of a number, with the entries that have it."""
    found: dict[str, list[str]] = {}
    for family in families().values():
        for each in family.registry:
            for of, line in numbers_of(
                family, family.registry.numbers(each), lambda of, field: (of, line_of(of, field))
            ):
                if of == path:
                    found.setdefault(line.strip(), []).append(each)
    return [f"{line} (of {', '.join(members)})" for line, members in found.items()]


def _said(family: Family, name: str) -> list[str]:
    """Return the lines of text with the formula of an entry, its papers and what it needs."""
    member = family.registry.member(name)
    lines = [f"      formula: {line}" for line in formulas(member.formula)]
    lines += [f"      source: {papers.in_words(member.cite)}"] * bool(member.cite)
    needs = family.needs(name)
    return lines + [f"      {needs}"] * bool(needs)


def formulas(text: str) -> list[str]:
    """Return the parts of a formula, a line for each."""
    return list(filter(None, re.split(r";  |\n", text)))


def fields() -> str:
    """Return the page in Markdown of the fields that every study has, with the list of the registries."""
    whole = schema()
    nested = [each for each in dataclasses.fields(whole) if dataclasses.is_dataclass(each.type)]
    lines = [_FIELDS, "## The study", "", *_section(whole, "")]
    for section in nested:
        doc = (section.type.__doc__ or "").strip()
        lines += ["", f"## {section.name}", "", *(line.strip() for line in doc.splitlines()), ""]
        lines += _section(section.type, f"{section.name}.")  # type: ignore[arg-type]
    lines += ["", "## Registries", ""]
    for name, of in families().items():
        entries = ", ".join(f"`{each}`" for each in of.registry)
        lines.append(f"- [{of.title}]({FOLDER}/{name}.md), chosen by `{of.field}`: {entries}")
    return "\n".join(lines) + "\n"


def _section(kind: type, prefix: str) -> list[str]:
    """Return the list of the fields of a section that are no hyperparameters of entries, with the kind of axis."""
    declared = {prefix + of.name: of for of in dataclasses.fields(kind) if "doc" in of.metadata}
    lines = []
    for path, field in declared.items():
        axis = "traced" if field.metadata.get("traced") else "static"
        if "own" not in field.metadata:
            lines.append(item(line_of(path, field)) + (f" ({axis})" if can_be_axis(path) else ""))
    return lines


def item(line: str) -> str:
    """Return a line about a hyperparameter or a field as an item of a list in Markdown."""
    path, equals, rest = line.strip().partition(" = ")
    return f"- `{path}`{equals}{prose(rest)}"


def prose(text: str) -> str:
    """Return a text as Markdown: outside of code, "*" would be an emphasis and "<" an element of HTML."""
    parts = re.split(r"(`+[^`]*`+)", text)
    return "".join(of if k % 2 else of.replace("*", "\\*").replace("<", "&lt;") for k, of in enumerate(parts))


def numbers_of(family: Family, kind: type[Numbers], described: Callable[[str, dataclasses.Field], _T]) -> list[_T]:
    """Return the hyperparameters of an entry, each as a function of its path and field describes it."""
    return [described(f"{family.section}.{name}", field) for name, field in fields_of(kind).items()]


def line_of(name: str, field: dataclasses.Field) -> str:
    """Describe a number in a line of text: its default, its bounds or the names that it may have, its meaning."""
    rules, default, names = field.metadata, field.default, field.metadata.get("names", ())
    bounds = " and ".join(f"{words} {rules[bound]}" for bound, (_, words) in BOUNDS.items() if bound in rules)
    known = ", ".join(map(str, names() if callable(names) else names))
    allowed = f" ({bounds})" if bounds else f" (of {known})" if known else ""
    value = "x".join(map(str, default)) if isinstance(default, tuple) else str(default)
    unit = f" {rules['unit']}" if "unit" in rules else ""
    source = f" [{rules['source']}]" if "source" in rules else ""
    return f"      {name} = {value}{unit}{allowed}: {rules['doc']}{source}"
