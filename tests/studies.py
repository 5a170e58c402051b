"""Studies of a second in this process, and what of their folders is compared."""

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from tiny import tiny_config

from mdfl_jax.config.points import program_key
from mdfl_jax.config.resolve import all_fields, replace_all
from mdfl_jax.engine.simulation import Simulation
from mdfl_jax.metrics import METRICS
from mdfl_jax.results.records import RunRecord
from mdfl_jax.results.results import models_of
from mdfl_jax.storage import array_files
from mdfl_jax.storage.model_files import MODEL_FORMAT
from mdfl_jax.storage.study_files import read_config, run_path, runs_in, state_path
from mdfl_jax.study import make_study, run_or_resume
from mdfl_jax.study.identity import JAX_SWITCHES, not_in_runs
from mdfl_jax.study.states import SECONDS, STATE_FORMAT
from mdfl_jax.study.study import Group, RunBatch, Study

SIMULATIONS: dict[Any, Simulation] = {}
PROGRAMS: dict[int, Any] = {}
"""What programs are made from, by the id of each of `SIMULATIONS`: equal ones are compiled once (conftest.py)."""


def ignore(line: str) -> None:
    """Take a line for the user."""


def _told(study: Study, group: Group, but: tuple[str, ...] = ("seeds", "first_seed")) -> str:
    """Tell what a simulation is made from, but for some fields, and for those on which no run depends."""
    key = program_key(study.points[group.points[0]].experiment)
    alike = {path: all_fields()[path].default for path in (*not_in_runs(), *but)}
    return repr((replace_all(key.settings, alike), key.switches, group.rules, group.simulation.mesh))


@functools.lru_cache(maxsize=64)
def _made(state: tuple[Any, ...], changes: Any) -> Study:
    """Make a tiny study, one that reads no files once: as long as nothing else is registered or switched on in JAX.

    Studies whose simulations would be equal have one, and programs are compiled once for any number of rounds.
    """
    study, groups = make_study(tiny_config(**dict(changes))), []
    algorithm = study.experiment.algorithm
    counts_rounds = algorithm.name != "dpsgd" or algorithm.lr_schedule != "constant"  # how many there are in all
    for group in study.groups:
        told = _told(study, group)
        one = SIMULATIONS.setdefault((state, told), group.simulation)
        PROGRAMS[id(one)] = state, told if counts_rounds else _told(study, group, ("seeds", "first_seed", "rounds"))
        groups.append(group._replace(simulation=one))
    return study._replace(groups=groups)


def study_of(**changes: Any) -> Study:
    """Return a tiny study, changed by path."""
    reads_files = "use" in changes or any(name.endswith((".dir", ".file", ".table", ".pretrained")) for name in changes)
    state = (*METRICS, *(repr(getattr(jax.config, name)) for name in JAX_SWITCHES))
    return _made.__wrapped__(state, changes) if reads_files else _made(state, tuple(sorted(changes.items())))


def go(
    folder: Path,
    log: Callable[[str], None] = ignore,
    on_evaluation: Any = None,
    overwrite: bool = False,
    **changes: Any,
) -> tuple[dict[str, Any], bool]:
    """Do what `mdfl sweep` does with a tiny study. Return its summary, and whether all was there before."""
    options = {"log": log, "progress": False, "on_evaluation": on_evaluation, "overwrite": overwrite}
    results, was_finished = run_or_resume(study_of(**changes), folder, **options)
    assert results is not None  # this process is no worker
    return results.summary, was_finished


def stop_at(number: int) -> Callable[[Any], bool]:
    """Return a function that stops a study at its evaluation of this number, counted from 1."""
    seen: list[Any] = []
    return lambda info: seen.append(info) or len(seen) == number


def without_seconds(value: Any) -> Any:
    """Return a JSON tree without the entries that are seconds."""
    if isinstance(value, dict):
        return {k: without_seconds(v) for k, v in value.items() if k not in ("compile_seconds", "run_seconds")}
    return [without_seconds(each) for each in value] if isinstance(value, list) else value


def names_of(folder: Path) -> list[str]:
    """Return the names of the runs that a study has."""
    return [run for _, _, run in runs_in(read_config(folder))]


def arrays_of(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a state without its seconds; {} if it is not there."""
    return {k: v for k, v in array_files.read(path, STATE_FORMAT)[1].items() if k != SECONDS} if path.is_file() else {}


def assert_trees(ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray], what: object) -> None:
    """Check that arrays are equal to the bit."""
    assert ours.keys() == theirs.keys(), what
    for name, values in theirs.items():
        assert (ours[name].dtype, ours[name].tobytes()) == (values.dtype, values.tobytes()), (what, name)


def assert_same(folder: Path, expected: Path, states: bool = True) -> None:
    """Check that two folders hold one study: records, states, models and views, without seconds and how it was made."""
    ours, theirs = (read_config(of) for of in (folder, expected))
    for entry in ("name", "title", "status", "config", "points", "seeds"):
        assert ours[entry] == theirs[entry], entry
    for name in ("history.npz", "metrics.jsonl"):
        assert (folder / name).read_bytes() == (expected / name).read_bytes(), name
    mine, other = (without_seconds(json.loads((of / "summary.json").read_text())) for of in (folder, expected))
    assert mine == other
    for name in names_of(expected):
        assert not RunRecord(run_path(folder, name)).difference(RunRecord(run_path(expected, name))), name
        if states:
            kept, wanted = (arrays_of(state_path(of, name)) for of in (folder, expected))
            assert bool(kept) == bool(wanted)
            both = kept.keys() & wanted.keys()  # a program with further mobility rules has further leaves
            assert_trees(*({key: of[key] for key in both} for of in (kept, wanted)), name)
        kept, wanted = (models_of(of, name) for of in (folder, expected))
        assert kept.keys() == wanted.keys(), name
        for at_round, path in wanted.items():
            found = (array_files.read(of, MODEL_FORMAT)[1] for of in (kept[at_round], path))
            assert_trees(*found, path)
    assert not [path for path in folder.rglob("*") if path.name.endswith(".part") or path.name == "workers"]


def contents(folder: Path) -> dict[Path, bytes | None]:
    """Return the bytes of all files below a folder, and None for each folder."""
    return {path: None if path.is_dir() else path.read_bytes() for path in folder.rglob("*")}


def batches_of(study: Study) -> list[RunBatch]:
    """Return the batches of a study of which nothing is there, in their order."""
    return [RunBatch(group, runs) for group in study.groups for runs in group.batches(group.runs(study.seeds))]
