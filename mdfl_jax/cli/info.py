"""Prints versions, devices and folders; with --list, the members of all families, such as algorithms and models.

mdfl info [--list] [--fields] [algorithm | algorithm.pame]
python -m launch.info [--list] [--fields] [--of=algorithm | --of=algorithm.pame] [--use=FILE]
"""

import dataclasses
import os
import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import jax
from absl import flags

from mdfl_jax.cli import common
from mdfl_jax.config.checks import LOGGERS
from mdfl_jax.config.points import can_be_axis
from mdfl_jax.config.sections import FAMILIES, Experiment, Family
from mdfl_jax.core import devices
from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.core.numbers import BOUNDS, Numbers, fields_of
from mdfl_jax.data.sources import SOURCES

_ALL = (*FAMILIES, Family(SOURCES, "data", "data.name"), Family(LOGGERS, "", "loggers"))


class Fact(NamedTuple):
    """A field of a configuration or a number of a member, in words.

    Attributes:
      name: the name, without its section.
      default: the default as a text; an empty text has no characters.
      unit: the unit, or "".
      bounds: the bounds in words, as "at least 0 and at most 1"; "" if there are none.
      names: the allowed values of a text, or ().
      doc: one line of help.
      source: the place in a paper, or "".
      traced: whether sweep points may differ in it without compiling again.
    """

    name: str
    default: str
    unit: str
    bounds: str
    names: tuple[str, ...]
    doc: str
    source: str
    traced: bool


def fact_of(name: str, default: Any, rules: Any) -> Fact:
    """Return the facts of a field or a number.

    Args:
      name: its name.
      default: its default.
      rules: its rules, as `mdfl_jax.core.numbers.number` and `mdfl_jax.config.sections.field` keep them.
    """
    bounds = " and ".join(f"{BOUNDS[bound][1]} {rules[bound]}" for bound in BOUNDS if bound in rules)
    names = rules.get("names", ())
    return Fact(
        name,
        "x".join(map(str, default)) if isinstance(default, tuple) else str(default),
        rules.get("unit", ""),
        bounds,
        tuple(map(str, names() if callable(names) else names)),
        rules["doc"],
        rules.get("source", ""),
        bool(rules.get("traced")),
    )


def families() -> dict[str, Family]:
    """Return the families, and the data sources, by the names that `mdfl info --of=NAME` takes."""
    return {family.registry.kind.replace(" ", "_"): family for family in _ALL}


def facts_of(numbers: type[Numbers]) -> list[Fact]:
    """Return the facts of each number of a member."""
    return [fact_of(name, field.default, field.metadata) for name, field in fields_of(numbers).items()]


def listing(only: str = "") -> str:
    """List the families with their members and numbers, as text.

    Args:
      only: The name of a family or a member, such as 'algorithm' or 'algorithm.pame'; empty: all families.

    Raises:
      UserError: If the name is unknown. The message suggests the nearest name.
    """
    kind, _, member = only.partition(".")
    known = families()
    if kind and kind not in known:
        raise UserError(unknown_name("family", kind, known))
    lines = []
    for name, family in known.items():
        if kind in ("", name):
            lines.append(f"{name}: {family.field}{f', numbers {family.section}.*' if family.section else ''}")
            usual = [] if member else facts_of(family.registry.usual)
            lines += ["  usual numbers, of which a member may lack some"] * bool(usual) + [_row(fact) for fact in usual]
            for each in [member] if member else family.registry:
                facts = facts_of(family.registry.numbers(each))
                lines.append(f"  {each}  {family.registry.doc(each)}".rstrip())
                lines += [_row(fact) for fact in facts if fact not in usual]
    return "\n".join(lines)


def _row(fact: Fact) -> str:
    allowed = f" ({fact.bounds})" if fact.bounds else f" (of {', '.join(fact.names)})" if fact.names else ""
    unit = f" {fact.unit}" if fact.unit else ""
    source = f" [{fact.source}]" if fact.source else ""
    return f"      {fact.name} = {fact.default}{unit}{allowed}: {fact.doc}{source}"


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


_LIST = flags.DEFINE_bool("list", False, "Every member of every family with its numbers.")
_FIELDS = flags.DEFINE_bool("fields", False, "Every field and every member as a page in Markdown.")
_OF = flags.DEFINE_string("of", "", "With --list: of a family (algorithm) or a member (algorithm.pame) alone.")
common.use_flag()
WORDS, DOES = ("of",), "asking JAX for its devices and members"

PACKAGES = ("mdfl_jax", "jax", "jaxlib", "flax", "optax", "ml_collections", "numpy", "scipy")
OPTIONAL = ("tensorflow-datasets", "array_record")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def main() -> int:
    """Print the facts that a bug report or a paper's appendix needs, or the members of the families."""
    common.setup_jax("")
    common.import_own_files()
    if _FIELDS.value:
        print(page(), end="")
        return 0
    if _LIST.value or _OF.value:
        print(listing(_OF.value))
        return 0
    print(f"python {platform.python_version()} on {platform.platform()}, {devices.num_cores()} cores")
    for name in (*PACKAGES, *OPTIONAL):
        print(f"{name} {_version(name)}")
    for device in jax.devices():
        print(f"device {device.platform}:{device.id} {device.device_kind}")
    print(f"compilation cache {common.default_cache()}")
    print(f"data directory {os.environ.get('MDFL_DATA_DIR') or 'not set (MDFL_DATA_DIR)'}")
    return 0
