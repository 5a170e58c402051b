"""Lists each member of every family: its description and its numbers with default, bounds, unit, meaning and source."""

from typing import Any

from mdfl_jax.data.sources import SOURCES
from mdfl_jax.errors import UserError, unknown_name
from mdfl_jax.experiments.config.families import FAMILIES, Family
from mdfl_jax.numbers import BOUNDS, Numbers, fields_of

_ALL = (*FAMILIES, Family(SOURCES, "data", "data.name"))


def listing(only: str = "") -> str:
    """Lists the families with their members and numbers, as text.

    Args:
      only: The name of a family or a member, such as 'algorithm' or 'algorithm.pame'; empty: all families.

    Raises:
      UserError: If the name is unknown. The message suggests the nearest name.
    """
    kind, _, member = only.partition(".")
    known = {family.registry.kind.replace(" ", "_"): family for family in _ALL}
    if kind and kind not in known:
        raise UserError(unknown_name("family", kind, known))
    lines = []
    for name, family in known.items():
        if kind in ("", name):
            lines.append(f"{name}: {family.field}, numbers {family.section}.*")
            usual = [] if member else _rows(family.registry.usual)
            lines += ["  usual numbers, of which a member may lack some"] * bool(usual) + usual
            for each in [member] if member else family.registry:
                rows = _rows(family.registry.numbers(each))
                lines.append(f"  {each}  {family.registry.doc(each)}".rstrip())
                lines += [row for row in rows if row not in usual]
    return "\n".join(lines)


def _rows(numbers: type[Numbers]) -> list[str]:
    return [_row(name, field.default, field.metadata) for name, field in fields_of(numbers).items()]


def _row(name: str, default: Any, rules: Any) -> str:
    bounds = " and ".join(f"{BOUNDS[bound][1]} {rules[bound]}" for bound in BOUNDS if bound in rules)
    allowed = f" ({bounds})" if bounds else f" (of {', '.join(rules['names'])})" if "names" in rules else ""
    shown = "x".join(map(str, default)) if isinstance(default, tuple) else default
    unit = f" {rules['unit']}" if "unit" in rules else ""
    source = f" [{rules['source']}]" if "source" in rules else ""
    return f"      {name} = {shown}{unit}{allowed}: {rules['doc']}{source}"
