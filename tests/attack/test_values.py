"""Values of the declared fields, alone and in pairs: of other types, not finite, beyond their bounds, hostile.

A value is refused in a line that names its field, the value or the field that it does not fit, or the study is made
ready; nothing is written.
"""

import itertools
import math
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tiny import TINY

from mdfl_jax.config.resolve import all_fields, as_config, parse_text
from mdfl_jax.core.errors import UserError
from mdfl_jax.study import make_study
from tests.attack.test_formats import judged

ANY: tuple[Any, ...] = (
    *(math.nan, math.inf, -math.inf, -0.0, 1e308, 5e-324, 0, -1, 1, 2**31, 2**63, 10**400, 1.5, True, None, [], [1, 2]),
    *((), (1,), {}, {"a": 1}, b"x", "", "x", "nan", "1e999", "9" * 400, " ", "a,b", "a=b", "é\n"),
    *("\x1b[31m", "\0", "../..", "x" * 5000, "\udcff", "a;b", "$(id)", range(3), object()),
    *(np.float32("nan"), np.int64(2**62), np.array([1, 2])),
)
TEXTS = ("nan", "inf", "-0", "1e308", "", "9223372036854775808", "true", "1x2", "x", "\n", "[]", "1_0", "٣", "0x1f")


def own_values(field: Any) -> list[Any]:
    """Return the values at the bounds of a field and beyond them, and its names."""
    found = list[Any]()
    for rules in field.metadata.get("declared", (field.metadata,)):
        bounds = [rules[bound] for bound in ("at_least", "above", "at_most", "below") if bound in rules]
        found += [value for bound in bounds for value in (bound, bound - 1, bound + 1, math.nextafter(bound, math.inf))]
        names = rules.get("names", ())
        found += [*(names() if callable(names) else names)]
    return found


def planned(changes: dict[str, Any], are_texts: bool) -> None:
    """Make a tiny study ready with some values, as `mdfl_jax.run` or as a command line does."""
    try:
        values = {path: parse_text(path, text) for path, text in changes.items()} if are_texts else changes
        make_study(as_config(TINY | values))
    except UserError as error:
        named = [text for path, value in changes.items() for text in (path.rpartition(".")[2], str(value))]
        named += [path for path in all_fields() if "." in path]
        if not str(error).isprintable() or not any(text in str(error) for text in named):
            raise AssertionError(f"a control character, or no field is named: {error!r}") from None
        raise


def drawn(draw: random.Random) -> Iterator[tuple[dict[str, Any], bool]]:
    """Yield each value of each field in a random order, then pairs of them without end, and whether they are texts."""
    fields = all_fields()
    values = {path: [*ANY, *own_values(field)] for path, field in fields.items()}
    singles = [({path: value}, False) for path, of in values.items() for value in of]
    singles += [({path: text}, True) for path in fields for text in TEXTS]
    draw.shuffle(singles)
    yield from singles
    while True:
        pair = draw.sample(sorted(fields), 2)
        yield {path: draw.choice(values[path]) for path in pair}, False


@pytest.mark.parametrize("number", [40, pytest.param(6000, marks=pytest.mark.faults)])
def test_values_of_fields(tally, tmp_path, monkeypatch, seed, number):
    monkeypatch.chdir(tmp_path)
    for changes, are_texts in itertools.islice(drawn(random.Random(seed)), number):
        verdict = judged(lambda _, changes=changes, are_texts=are_texts: planned(changes, are_texts), tmp_path)
        tally.add("values of fields", verdict, changes)
        assert not list(tmp_path.iterdir()), changes
    tally.check(number)
