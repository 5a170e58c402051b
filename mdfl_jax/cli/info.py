"""Prints versions, devices and folders; with --list, the members of all families, such as algorithms and models.

mdfl info [--list] [--fields] [algorithm | algorithm.pame]
python -m launch.info [--list] [--fields] [--of=algorithm | --of=algorithm.pame] [--use=FILE]
"""

import dataclasses
import os
import platform
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TypeVar

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

_LIST = flags.DEFINE_bool("list", False, "Every member of every family with its numbers.")
_FIELDS = flags.DEFINE_bool("fields", False, "Every field and every member as a page in Markdown.")
_OF = flags.DEFINE_string("of", "", "With --list: of a family (algorithm) or a member (algorithm.pame) alone.")
common.use_flag()
WORDS, DOES = ("of",), "asking JAX for its devices and members"
PACKAGES = ("mdfl_jax", "jax", "jaxlib", "flax", "optax", "ml_collections", "numpy", "scipy")
OPTIONAL = ("tensorflow-datasets", "array_record")
T = TypeVar("T")
_ALL = (*FAMILIES, Family(SOURCES, "data", "data.name"), Family(LOGGERS, "", "loggers"))
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
_COLUMNS = ("default", "allowed", "axis", "meaning")


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


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def families() -> dict[str, Family]:
    """Return the families, and the data sources, by the names that `mdfl info --of=NAME` takes."""
    return {family.registry.kind.replace(" ", "_"): family for family in _ALL}


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
            usual = [] if member else _numbers(family.registry.usual, _line)
            lines += ["  usual numbers, of which a member may lack some", *usual] if usual else []
            for each in [member] if member else family.registry:
                lines.append(f"  {each}  {family.registry.doc(each)}".rstrip())
                lines += [line for line in _numbers(family.registry.numbers(each), _line) if line not in usual]
    return "\n".join(lines)


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
    fields = {prefix + each.name: each for each in dataclasses.fields(kind) if "doc" in each.metadata}
    rows = [_cells(path, each, can_be_axis(path)) for path, each in fields.items()]
    return _table(("field", *_COLUMNS), rows)


def _family(name: str, family: Family) -> list[str]:
    """Return the heading, the members and the numbers of a family."""
    registry = family.registry
    usual = _numbers(registry.usual, _cells)
    lines = [f"### {name.replace('_', ' ').capitalize()}", ""]
    numbers = f" The numbers are fields of the section `{family.section}`." if family.section else ""
    lines += [f"`{family.field}` chooses the member.{numbers}", ""]
    if usual:
        lines += ["Usual numbers, of which a member may lack some:", "", *_table(("number", *_COLUMNS), usual), ""]
    own = {each: [row for row in _numbers(registry.numbers(each), _cells) if row not in usual] for each in registry}
    members = [(f"`{each}`", registry.doc(each), ", ".join(name for name, *_ in rows)) for each, rows in own.items()]
    lines += _table(("member", "meaning", "its own numbers"), members)
    declared: dict[tuple[str, ...], list[str]] = {}
    for each, rows in own.items():
        for row in rows:
            declared.setdefault(row, []).append(each)
    shared = [(", ".join(of), *row) for row, of in declared.items()]
    return [*lines, "", *_table(("of", "number", *_COLUMNS), shared)] if shared else lines


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a table in Markdown. A vertical bar would begin the next cell, and "<" an element of HTML."""
    cells = [[cell.replace("|", "\\|").replace("<", "&lt;") for cell in row] for row in rows]
    return [f"| {' | '.join(row)} |" for row in (head, [":--"] * len(head), *cells)]


def _numbers(kind: type[Numbers], described: Callable[[str, dataclasses.Field], T]) -> list[T]:
    """Return the numbers of a member, each as a function of its name and field describes it."""
    return [described(name, field) for name, field in fields_of(kind).items()]


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
