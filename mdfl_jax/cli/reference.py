"""Writes the reference of all fields as a page in Markdown, `docs/fields.md`: mdfl info --fields

The page has the fields of each section, which are declared in `sections.py`, and the members of each
family with the numbers that they declare. The facts are those of `mdfl info --list`.
"""

import dataclasses
from collections.abc import Iterable

from mdfl_jax.cli.catalogue import Fact, fact_of, facts_of, families
from mdfl_jax.config.families import Family
from mdfl_jax.config.points import can_be_axis
from mdfl_jax.config.sections import Experiment

_HEAD = """# All fields

This page is made from the declarations in the code: `python -m launch.info --fields > docs/fields.md` writes it, and a
test compares the two. `python -m launch.info --list` prints the members as text.

A field is set in a config file (`config.network.radius = 2.0`), on the command line (`--config.network.radius=2.0`)
or from Python (`{"network.radius": 2.0}`). The column "axis" says whether a sweep can vary a field. Sweep points that
differ only in `network.mobility` and in fields marked "traced" share one compiled program. Sweep points that differ in
a field marked "static" are compiled separately.

The first part lists the fields that every study has. The second part lists the [families](#families) with their
members. A number of a member is a field of the section that is named there. If a configuration does not set it, it has
the default of the member in use.
"""
_COLUMNS = "| {} | default | allowed | axis | meaning |\n| :-- | :-- | :-- | :-- | :-- |"


def page() -> str:
    """Return the reference of all fields, and of all members registered so far, as Markdown."""
    nested = [each for each in dataclasses.fields(Experiment) if dataclasses.is_dataclass(each.type)]
    lines = [_HEAD, "## The study", "", *_section(Experiment, "")]
    for section in nested:
        kind = section.type
        doc = (kind.__doc__ or "").strip()
        lines += ["", f"## {section.name}", "", *(line.strip() for line in doc.splitlines()), ""]
        lines += _section(kind, f"{section.name}.")  # type: ignore[arg-type]
    lines += ["", "## Families"]
    for name, family in families().items():
        lines += ["", *_family(name, family)]
    return "\n".join(lines) + "\n"


def _section(kind: type, prefix: str) -> list[str]:
    """Return the table of the fields that a section declares itself."""
    fields = [each for each in dataclasses.fields(kind) if "doc" in each.metadata]
    facts = [fact_of(prefix + each.name, each.default, each.metadata) for each in fields]
    return _table("field", facts)


def _family(name: str, family: Family) -> list[str]:
    """Return the heading, the members and the numbers of a family."""
    usual = facts_of(family.registry.usual)
    lines = [f"### {name.replace('_', ' ').capitalize()}", ""]
    numbers = f" The numbers are fields of the section `{family.section}`." if family.section else ""
    lines += [f"`{family.field}` chooses the member.{numbers}"]
    if usual:
        lines += ["", "Usual numbers, of which a member may lack some:", "", *_table("number", usual)]
    lines += ["", "| member | meaning | its own numbers |", "| :-- | :-- | :-- |"]
    own = {
        each: [fact for fact in facts_of(family.registry.numbers(each)) if fact not in usual]
        for each in family.registry
    }
    for each, facts in own.items():
        named = ", ".join(f"`{fact.name}`" for fact in facts)
        lines.append(f"| `{each}` | {_cell(family.registry.doc(each))} | {named} |")
    declared: dict[Fact, list[str]] = {}
    for each, facts in own.items():
        for fact in facts:
            declared.setdefault(fact, []).append(each)
    if declared:
        lines += ["", *_table("number", declared, {fact: ", ".join(members) for fact, members in declared.items()})]
    return lines


def _table(what: str, facts: Iterable[Fact], members: dict[Fact, str] | None = None) -> list[str]:
    """Return a table with a row for each fact. If members are given, a first column names who declares the number."""
    head = _COLUMNS.format(what).splitlines()
    if members is not None:
        head = [f"| of {head[0]}", f"| :-- {head[1]}"]
    rows = []
    for fact in facts:
        allowed = fact.bounds or ", ".join(f"`{each}`" if each else "empty" for each in fact.names)
        default = f"`{fact.default}`{f' {fact.unit}' if fact.unit else ''}" if fact.default else "empty"
        meaning = fact.doc + (f" [{fact.source}]" if fact.source else "")
        axis = "" if not can_be_axis(fact.name) else "traced" if fact.traced else "static"
        cells = [f"`{fact.name}`", default, allowed, axis, meaning]
        cells = ([members[fact]] if members is not None else []) + cells
        rows.append("| " + " | ".join(map(_cell, cells)) + " |")
    return [*head, *rows]


def _cell(text: str) -> str:
    """Return a text for a cell: a vertical bar would begin the next cell, and "<" an element of HTML."""
    return text.replace("|", "\\|").replace("<", "&lt;")
