"""Every family of movement gives the history that is kept in the repository."""

import re

import numpy as np
import pytest

from tests.golden import FILE, STUDIES, TOLERANCE, history

SHORT = "dpsgd"  # the others take longer


def differences(found, wanted):
    """The arrays that are not as they were, each with what is the matter."""
    told = [f"{key} is {'gone' if key in wanted else 'new'}" for key in found.keys() ^ wanted.keys()]
    for key in found.keys() & wanted.keys():
        a, b = found[key], wanted[key]
        if a.dtype != b.dtype or a.shape != b.shape:
            told.append(f"{key} is {a.dtype} {a.shape}, and was {b.dtype} {b.shape}")
        elif a.dtype == np.float32:  # float64 has counts that are too large for 32 bits
            if not np.allclose(a, b, **TOLERANCE, equal_nan=True):
                told.append(f"{key} differs by up to {np.nanmax(np.abs(a - b)):.1e}")
        elif not np.array_equal(a, b):
            told.append(f"{key} differs in {np.sum(a != b)} of {a.size} numbers")
    return told


@pytest.mark.parametrize(
    "name", [name if name == SHORT else pytest.param(name, marks=pytest.mark.long) for name in STUDIES]
)
def test_the_history_is_the_golden_one(tmp_path, name):
    with np.load(FILE) as kept:
        wanted = {key.partition("/")[2]: kept[key] for key in kept.files if key.startswith(f"{name}/")}
    assert wanted, f"python -m tests.golden {name} writes it"
    assert not differences(history(name, tmp_path), wanted)


def test_the_file_has_no_study_that_is_gone_and_is_small():
    with np.load(FILE) as kept:
        assert {re.match(r"[^/]+", key).group() for key in kept.files} == STUDIES.keys()
    assert FILE.stat().st_size < 64 * 1024
