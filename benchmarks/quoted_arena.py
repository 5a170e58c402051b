"""The tables of the arena's results files (`benchmarks/arena.py`).

Their names are `arena_NAME`, `arena_NAME, settings` and `arena_NAME, beside`.
"""

from collections.abc import Mapping
from typing import Any

from benchmarks.quoted import markdown, results, rule_named
from mdfl_jax.contrib.panels.rivals import EQUAL
from mdfl_jax.core.errors import UserError, unknown_name

SHORT = {
    "mean over the evaluations": "over all rounds",
    "worst client at the end": "worst client",
    EQUAL["bits_sent"]: "equal bits",
    EQUAL["distance_moved"]: "equal distance",
}

LETTERS = {"num mobile": "M", "radius": "Rc", "max step": "Rm"}
RIVALS = {"network.movers": "who moves", "network.relay_places": "where relays stand"}  # others are mobility rules


def _renamed(found: Any) -> Any:
    """Return the content of a results file with today's names of its rivals."""
    if isinstance(found, dict):
        named = ("rival", "reference")
        return {key: rule_named(value) if key in named else _renamed(value) for key, value in found.items()}
    return [_renamed(item) for item in found] if isinstance(found, list) else found


def of_arena(name: str) -> list[str]:
    """Return a table: the rivals over all settings, or the paired differences at the end in each setting."""
    file, _, what = name.partition(", ")
    tables = {"": _rivals, "settings": _settings, "beside": _beside}
    if what not in tables:
        raise UserError(unknown_name(f"table of {file}", what, tables))
    return tables[what](_renamed(results(file)))


def first_measure(found: Mapping[str, Any]) -> str:
    """Return the measure that comes first: that of the clients with data where there are relays."""
    return next(iter(found["measures"]))


def _signed(value: float, half: float) -> str:
    return f"{value:+.1f} ± {half:.1f}"


def _difference(row: Mapping[str, Any]) -> str:
    of = row.get("difference")
    return _signed(of["mean"], of["half"]) if of else ""


def _rivals(found: Mapping[str, Any]) -> list[str]:
    """Return rivals by measures: means over all settings; the best at the end come first."""
    measures = found["measures"]
    first = first_measure(found)
    reference, *seconds = measures[first]
    others = [name for name in SHORT if name in measures]
    header = [RIVALS.get(found.get("rivals", ""), "rule"), "accuracy (%)"]
    header += [f"over `{reference['reference']}`", "better, worse in"]
    header += [f"over `{second['reference']}`" for second in seconds] + [SHORT[name] for name in others]
    lines = []
    for c, row in sorted(enumerate(reference["rows"]), key=lambda pair: -pair[1]["level"]):
        told = f"{row['better']}, {row['worse']} of {row['of']}" if "of" in row else ""
        line = [f"`{row['rival']}`", f"{row['level']:.1f}", _difference(row), told]
        line += [_difference(second["rows"][c]) for second in seconds]
        lines.append(line + [_difference(measures[name][0]["rows"][c]) for name in others])
    return markdown(header, lines)


def _shortened(setting: str) -> str:
    """Return a setting in the papers' letters."""
    for words, letters in LETTERS.items():
        setting = setting.replace(f"{words} = ", f"{letters} ")
    return setting


def _settings(found: Mapping[str, Any]) -> list[str]:
    """Return settings by rivals: differences with intervals that hold together, bold where they leave out zero."""
    reference = found["measures"][first_measure(found)][0]
    rivals = [row for row in reference["rows"] if "mean" in row]
    lines = []
    for r, setting in enumerate(found["settings"]):
        cells = []
        for row in rivals:
            value, half = row["mean"][r], row["halves"][r]
            cells.append(f"**{_signed(value, half)}**" if abs(value) > half else _signed(value, half))
        lines.append([_shortened(setting), *cells])
    return markdown([f"over `{reference['reference']}`", *(f"`{row['rival']}`" for row in rivals)], lines)


def _beside(found: Mapping[str, Any]) -> list[str]:
    """Return rivals by points of another study: differences over all settings; the best come first."""
    others = found["beside"]
    names = ["over " + ", ".join(f"`{value}`" for value in other["point"].values()) for other in others]
    order = sorted(range(len(others[0]["rows"])), key=lambda c: -others[0]["rows"][c]["difference"]["mean"])
    lines = [[f"`{others[0]['rows'][c]['rival']}`", *(_difference(of["rows"][c]) for of in others)] for c in order]
    return markdown([RIVALS.get(found.get("rivals", ""), "rule"), *names], lines)
