"""Configurations drawn from the registry of fields: each runs two rounds, or is refused in one line.

A study of one round that goes on has the same results. Lists and matrices, one device and two: tests/reference.
"""

import math
import re
import shutil

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from tiny import run_study, tiny_config

from mdfl_jax.config.resolve import all_fields
from mdfl_jax.config.sections import entry_registries
from mdfl_jax.core.errors import UserError
from mdfl_jax.study import make_study
from tests.attack.harness import results

TWO_ROUNDS = {"rounds": 2, "eval_every": 1, "seeds": 1, "data.limit_train": 60, "data.limit_test": 30}
HELD = (
    *("rounds", "eval_every", "seeds", "sweep", "baseline", "use", "loggers", "data.dir", "data.limit_train"),
    *("data.limit_test", "model.name"),
)
"""Fields that stay as they are: a study of two rounds, whose model is linear."""
SPAN = 5  # drawn whole numbers are at most so far above their lower bound: all else is a question of memory
JUNK = ["", "x", "é\n", "-1", "../..", "a=1", "final,", "every:0", "nan", "1e9"]
BAD = [None, "three", -1, 2**31, 10**400, 1.5, math.nan, math.inf, -math.inf, 1e300, True, (1, -1), [], {"a": 1}, b"x"]


@st.composite
def _value(draw, path, field):
    """Draws a value that the rules of a field allow, those at its bounds more often than others."""
    rules = draw(st.sampled_from(field.metadata["declared"])) if "own" in field.metadata else field.metadata
    names = rules.get("names") or ()
    if known := list(names() if callable(names) else names):
        return draw(st.sampled_from(known))
    if field.type is bool:
        return draw(st.booleans())
    if field.type is str:
        return draw(st.sampled_from([field.default or ""] * 20 + JUNK))
    if field.type is int or field.type == tuple[int, ...]:
        low = int(max(rules.get("at_least", -SPAN), rules.get("above", -math.inf) + 1))
        high = int(min(low + SPAN, rules.get("at_most", math.inf), rules.get("below", math.inf) - 1))
        whole = st.integers(low, high).map(lambda n: n + (not n % 2 if rules.get("odd") else 0))
        return draw(whole if field.type is int else st.lists(whole, min_size=1, max_size=2).map(tuple))
    low, high = (rules.get("at_least", rules.get("above", -10.0)), rules.get("at_most", rules.get("below", 10.0)))
    low, high = (float(np.float32(bound)) for bound in (low, max(low, high)))  # as the width below wants
    inner = st.floats(low, high, exclude_min="above" in rules and high > low,
                      exclude_max="below" in rules and high > low, width=32)  # fmt: skip
    default = field.default if isinstance(field.default, float) else low
    return draw(st.one_of(st.sampled_from([low, high, default]), inner))


@st.composite
def changes(draw):
    """Draws some members, some of their numbers and some other fields; in a fifth of the cases a wrong value."""
    fields = {path: field for path, field in all_fields().items() if path not in HELD}
    found, members = {}, {}
    for family in draw(
        st.lists(st.sampled_from(entry_registries()), max_size=3, unique_by=lambda family: family.field)
    ):
        if family.field not in HELD:
            found[family.field] = draw(st.sampled_from(sorted(family.registry)))
            members.setdefault(family.section, set()).add(found[family.field])
    own = [p for p, f in fields.items() if members.get(p.split(".")[0], set()) & set(f.metadata.get("own", ()))]
    other = [path for path, field in fields.items() if "own" not in field.metadata and path not in found]
    some = lambda paths, most: st.lists(st.sampled_from(paths), max_size=most, unique=True) if paths else st.just([])  # noqa: E731
    for path in [*draw(some(own, 3)), *draw(some(other, 3))]:
        found[path] = draw(_value(path, fields[path]))
    if draw(st.integers(0, 4)) == 0:
        found[draw(st.sampled_from(sorted(fields)))] = draw(st.sampled_from(BAD))
    return found


def drawn(number, seed):
    """Returns a number of drawn changes of a configuration."""
    found = []

    @seeded(seed)
    @settings(max_examples=number, deadline=None, database=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(changes())
    def collect(each):
        found.append(each)

    collect()
    return found[:number]


def numbers(folder):
    """What is compared of a study's results: all numbers, but not where and how they were made."""
    return {
        name: of for name, of in results(folder).items() if name in ("summary.json", "metrics.jsonl", "history.npz")
    }


def tried(changes, folder):
    """What becomes of a drawn configuration. A TypeError or the like is the refusal of ml_collections."""
    config = tiny_config(**TWO_ROUNDS)
    try:
        for path, value in changes.items():  # one by one as a config file does
            section, _, name = path.rpartition(".")
            setattr(config[section] if section else config, name, value)
    except (TypeError, ValueError, AttributeError, KeyError, OverflowError):
        return None
    try:
        run_study(make_study(config), folder)
        whole = numbers(folder)
        shutil.rmtree(folder)
        for config.rounds in (1, 2):
            run_study(make_study(config), folder)
        if numbers(folder) != whole:
            return "other results after one round and one more"
    except UserError as error:
        names = {path.split(".")[-1] for path in (*all_fields(), *changes)}
        named = names & set(re.findall(r"[a-z_0-9]+", str(error)))
        return "refused" if named and "\n" not in str(error) else f"no field is named, or several lines: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:600]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        jax.clear_caches()
    return "ran"


PARTS = [pytest.param(8, 0, marks=pytest.mark.long)]
PARTS += [pytest.param(25, part, marks=pytest.mark.faults) for part in range(20)]


@pytest.mark.parametrize(("number", "part"), PARTS)
def test_drawn_configurations(tally, tmp_path, seed, number, part):
    for changes in drawn(number, f"{seed}-{part}"):
        if verdict := tried(changes, tmp_path / "run"):
            tally.add("drawn configuration", verdict, changes)
    tally.check(number // 3)
