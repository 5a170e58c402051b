"""Configurations: the defaults, and what each field takes and refuses."""

import numpy as np
import pytest

from mdfl_jax.config import default_config
from mdfl_jax.config.resolve import all_fields, checked_value, resolve
from mdfl_jax.config.sections import schema
from mdfl_jax.core.errors import UserError


def test_the_defaults_are_those_of_the_dataclasses_and_locked():
    config = default_config()
    assert resolve(config) == schema()()
    for path, field in all_fields().items():
        assert checked_value(path, field.default) == field.default
        assert field.metadata["doc"]
        assert (field.default is None) == ("own" in field.metadata)


def takes(rules, value):
    """Whether the declared bounds of a field let a value pass."""
    return (
        value >= rules.get("at_least", value)
        and value <= rules.get("at_most", value)
        and ("above" not in rules or value > rules["above"])
        and ("below" not in rules or value < rules["below"])
        and not (rules.get("finite") and np.isinf(value))
        and not np.isnan(value)
        and not (isinstance(value, int) and value >= 2**31)
    )


def test_every_number_is_taken_within_its_bounds_and_refused_beyond_them():
    """Of every field of every member: the line names the field, its value and what is allowed, all in one line."""
    refused = 0
    for path, field in all_fields().items():
        declared = field.metadata.get("declared", [field.metadata])
        bounds = {
            rules[name] for rules in declared for name in ("at_least", "at_most", "above", "below") if name in rules
        }
        if field.type not in (int, float, tuple[int, ...]) or not bounds:
            continue
        near = {bound + step * max(1, abs(bound) // 2**20) for bound in bounds for step in (-1, 0, 1)}
        for value in near if field.type is not float else near | {float("inf"), float("nan")}:
            given = (value,) if field.type == tuple[int, ...] else field.type(value)
            if any(takes(rules, value) for rules in declared):
                if not any(rules.get("odd") and value % 2 == 0 for rules in declared):
                    assert checked_value(path, given) == given
                continue
            with pytest.raises(UserError) as caught:
                checked_value(path, given)
            assert str(caught.value).startswith(
                f"{path} is {float(value) if field.type is float else value}; it must be "
            )
            assert "\n" not in str(caught.value)
            refused += 1
    assert refused > 150


def test_numbers_of_numpy_and_sequences_of_words_are_taken():
    given = {"network.radius": np.float32(2.5), "seeds": np.array(2), "data.flip": np.True_, "data.drop": ("a", "b")}
    given |= {"data.name": np.str_("digits"), "data.limit_train": np.uint8(100), "trace.times": [0, 60]}
    values = {path: checked_value(path, value) for path, value in given.items()}
    assert values == {"network.radius": 2.5, "seeds": 2, "data.flip": True, "data.drop": "a,b", "data.name": "digits",
                      "data.limit_train": 100, "trace.times": "0,60"}  # fmt: skip
    assert {type(value) for value in values.values()} == {float, int, bool, str}
