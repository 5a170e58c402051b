"""Lists each member of every family: its description and its numbers with default, bounds, unit, meaning and source.

`fact_of` collects the facts of a field or a number. `mdfl_jax.cli.reference` shows the same facts as a
page of the documentation.
"""

from typing import Any, NamedTuple

from mdfl_jax.config.families import FAMILIES, Family
from mdfl_jax.config.texts import LOGGERS
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
