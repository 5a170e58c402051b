"""Configurations drawn from the registry of fields: each compiles and runs two rounds, or is refused in one line."""

import re
import shutil

import jax
import pytest
from forked import Started
from tiny import run_study, tiny_config

from mdfl_jax.config.resolve import all_fields
from mdfl_jax.core.errors import UserError
from mdfl_jax.study import make_study
from tests.faults.drawn import drawn

TWO_ROUNDS = {"rounds": 2, "eval_every": 1, "seeds": 1, "data.limit_train": 60, "data.limit_test": 30}


def configured(changes):
    """A tiny configuration with these values, set one by one as a config file does; ml_collections refuses some."""
    config = tiny_config(**TWO_ROUNDS)
    for path, value in changes.items():
        section, _, name = path.rpartition(".")
        setattr(config[section] if section else config, name, value)
    return config


def refused(error, changes):
    """The verdict on an error of a user: it has one line, and names a field."""
    names = {path.split(".")[-1] for path in (*all_fields(), *changes)}
    named = names & set(re.findall(r"[a-z_0-9]+", str(error)))
    return "refused" if named and "\n" not in str(error) else f"no field is named, or several lines: {error}"


def tried(changes, folder):
    """What becomes of a drawn configuration. A TypeError or the like is the refusal of ml_collections."""
    try:
        config = configured(changes)
    except (TypeError, ValueError, AttributeError, KeyError, OverflowError):
        return None
    try:
        run_study(make_study(config), folder)
    except UserError as error:
        return refused(error, changes)
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:600]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        jax.clear_caches()
    return "equal"


def try_drawn(tally, tmp_path, number, seed):
    for changes in drawn(number, seed):
        if verdict := tried(changes, tmp_path / "run"):
            tally.add("drawn configuration", "ran" if verdict == "equal" else verdict, changes)
    tally.check(number // 3)


@pytest.mark.long
def test_a_few_drawn_configurations(tally, tmp_path, seed):
    try_drawn(tally, tmp_path, 8, seed)


@pytest.mark.faults
@pytest.mark.parametrize("part", range(20))
def test_five_hundred_drawn_configurations(tally, tmp_path, seed, part):
    try_drawn(tally, tmp_path, 25, f"{seed}-{part}")


@pytest.mark.parametrize(
    "number", [pytest.param(3, marks=pytest.mark.long), pytest.param(30, marks=pytest.mark.faults)]
)
def test_what_is_refused_is_one_line_of_the_command_too(tally, study, tmp_path, seed, number):
    """As flags: texts that the parser of the flags takes or refuses."""
    for k, changes in enumerate(drawn(number, f"{seed}-flags")):
        flags = [f"--config.{path}={value}" for path, value in changes.items() if value is not None]
        words = ("sweep", f"--config={study}", f"--workdir={tmp_path / str(k)}", "--dry_run", *flags)
        ended = Started(tmp_path / "log", *words).ended()
        said, good = ended.said(), ended.status == 0
        if ended.status == 2 and said.startswith("error: ") and said.count("\n") == 1:
            good = True
        tally.add("drawn flags", ("refused" if ended.status else "ran") if good else f"{ended.status}: {said}", flags)
        assert not (tmp_path / str(k)).exists()
    tally.check(number)
