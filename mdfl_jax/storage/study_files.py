"""The files in the workdir of a study: their names, how its texts are read, and which runs its config.json names.

A study is the set of its runs: ``runs/RUN.safetensors`` is one finished run, and never changes. Everything else is made
of these files at any time (`mdfl_jax.results.results`), or is needed by runs that are under way. No JAX is needed.
"""

import contextlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from mdfl_jax.core.errors import UserError, errors_about
from mdfl_jax.core.metric import SCHEMA
from mdfl_jax.core.outcomes import seeds_of, selected_fields
from mdfl_jax.storage import disk
from mdfl_jax.storage.array_files import SUFFIX
from mdfl_jax.storage.disk import check_npz
from mdfl_jax.storage.given import LARGE, open_file, read_text

CONFIG = "config.json"  # which runs a study has, and how it was made
RUNS = "runs"  # the records and the states of runs
MODEL_FOLDER = "models"  # the checkpoints
LOGGER_FOLDER = "loggers"  # each logger has a folder of its name there
WORKERS = "workers"  # who computes which runs at present
LOCK = ".mdfl_jax.lock"
TABLES, FIGURES = "tables", "figures"
FOLDERS = (RUNS, MODEL_FOLDER, LOGGER_FOLDER, WORKERS, TABLES, FIGURES)
"""The folders of a study. No file is written or removed through a link in place of one."""
METRICS_FILE = "metrics.jsonl"
STREETS = "streets.npz"  # the streets of the map, [K, 4] "streets": straight pieces from (x, y) to (x, y)
_OF_LOGGERS = ("events.out.tfevents.*", "seed-*.json")  # the last: what the logger of wandb remembers
VIEW_FILES = (METRICS_FILE, "summary.json", "history.npz")  # made of the records, beside tables, figures and the page
STUDY_SCHEMA = 2  # the version of the format of config.json and of the records
RUN = re.compile(r"[a-z0-9_.+]+-[0-9a-f]{16}-s\d{1,10}-r\d{1,9}")
"""The name of a run: the algorithm and the movement in short, a digest of its settings, its seed and its rounds."""
STATE_SUFFIX = ".state" + SUFFIX

_TEXT, _NUMBER = (str,), (int, float)
_KINDS: dict[str, tuple[type, ...]] = {
    "config": (dict,), "overrides": (dict,),
    "points": (list,), "seeds": (list,), "metrics": (list,), "files": (list,),
    "runs": (list,), "status": _TEXT, "id": _TEXT, "point": _TEXT, "accuracy_is": _TEXT,
    "seed": (int,), "round": (int,),
}  # fmt: skip
_OF_A_LINE = ("point", "seed", "round")
_OF_A_POINT = ("id", "overrides", "seeds", "runs")
"""The types of those entries of the JSON files by which everything else is found (`_check_kinds`)."""


@contextlib.contextmanager
def locked(workdir: Path) -> Iterator[None]:
    """Lock a workdir for a moment: to take runs, or to write views. Other processes wait meanwhile.

    Raises:
      DiskError: If the lock cannot be made.
    """
    lock = FileLock(workdir / LOCK)
    with disk.writing(workdir / LOCK):
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def run_path(workdir: Path, run: str) -> Path:
    """Return the file of a finished run."""
    return workdir / RUNS / f"{run}{SUFFIX}"


def state_path(workdir: Path, run: str) -> Path:
    """Return the file of the last saved state of a run."""
    return workdir / RUNS / f"{run}{STATE_SUFFIX}"


def model_path(workdir: Path, run: str, at_round: int) -> Path:
    """Return the file of the models of a run after a round."""
    return workdir / MODEL_FOLDER / f"{run}@{at_round}{SUFFIX}"


def run_name(of_point: str, seed: int, rounds: int) -> str:
    """Return the name of a run, from the part that tells its settings (`RUN`)."""
    return f"{of_point}-s{seed}-r{rounds}"


def run_files(workdir: Path) -> Iterator[tuple[str, Path]]:
    """Yield (name, path) of each record in a workdir, in the order of their names."""
    for path in sorted((workdir / RUNS).glob("*" + SUFFIX)):
        name = path.name.removesuffix(SUFFIX)
        if RUN.fullmatch(name) and path.is_file():
            yield name, path


def begun_runs(workdir: Path) -> set[str]:
    """Return the names of the runs of which anything is in a workdir: a record or a state."""
    files = (workdir / RUNS).glob("*" + SUFFIX)
    names = {path.name.removesuffix(STATE_SUFFIX).removesuffix(SUFFIX) for path in files}
    return {name for name in names if RUN.fullmatch(name)}


def written_files(workdir: Path, listed: Collection[str]) -> Iterator[Path]:
    """Yield the files of a workdir that a study has written: no other one may ever be removed.

    Nothing is found behind a link.

    Args:
      workdir: The folder.
      listed: The files that config.json lists. Only tables, figures and pages count.
    """

    def is_own(path: Path) -> bool:
        return not any((workdir / of).is_symlink() for of in path.relative_to(workdir).parents if str(of) != ".")

    for folder, pattern in ((RUNS, rf"({RUN.pattern})(\.state)?"), (MODEL_FOLDER, rf"({RUN.pattern})@\d+")):
        for path in filter(is_own, sorted((workdir / folder).glob("*" + SUFFIX))):
            if re.fullmatch(pattern, path.name.removesuffix(SUFFIX)):
                yield path
    for pattern in _OF_LOGGERS:
        yield from filter(is_own, sorted((workdir / LOGGER_FOLDER).rglob(pattern)))
    pages = [name for name in listed if re.fullmatch(r"(tables|figures)/[^/]+|[^/]+\.html", name)]
    for name in (*pages, STREETS, *VIEW_FILES, CONFIG):
        path = workdir / name
        if is_own(path) and (path.is_file() or path.is_symlink()):
            yield path


def _read_text(path: Path) -> str:
    if not path.exists():
        raise UserError(f"{path}: no such file; is the run finished?")
    with errors_about(str(path)):
        return read_text(path, LARGE)


def _parse(text: str, where: str, schema: int, keys: Collection[str] = _KINDS) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except RecursionError:
        raise UserError(f"{where}: it is nested too deeply") from None
    except ValueError as error:  # also a number of thousands of digits
        raise UserError(f"{where}: not valid JSON: {error}") from None
    if not isinstance(content, dict):
        raise UserError(f"{where}: not a JSON object")
    if content.get("schema") != schema:
        older = "; commit 1816172 reads the studies of earlier versions" if content.get("schema") == 1 else ""
        raise UserError(
            f"{where}: schema is {_short(content.get('schema'))}; this version reads schema {schema}{older}"
        )
    _check_kinds(content, where, keys)
    return content


def _check_kinds(content: dict[str, Any], where: str, keys: Collection[str]) -> None:
    """Refuse an entry of another kind than a study writes, in an object and in each of its points.

    Only these keys are looked at: metrics of the user's own, in lines and points, may have any other name.
    """
    for key in content.keys() & set(keys):
        if not isinstance(content[key], _KINDS[key]) or isinstance(content[key], bool):
            raise UserError(f"{where}: {key} is {_short(content[key])}; no study writes such a value")
    if "seeds" in keys and (wrong := [seed for seed in content.get("seeds", ()) if type(seed) is not int]):
        raise UserError(f"{where}: one of seeds is {_short(wrong[0])}; a seed is a whole number")
    for point in content.get("points", ()) if "points" in keys else ():
        if not isinstance(point, dict) or "id" not in point:
            raise UserError(f"{where}: one of points is {_short(point)}; a point has an id")
        _check_kinds(point, where, _OF_A_POINT)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "..."


def require(content: Any, keys: Sequence[str], path: Path) -> None:
    """Check that an object of a file has the given keys.

    Raises:
      UserError: if it lacks one.
    """
    missing = [key for key in keys if not isinstance(content, dict) or key not in content]
    if missing:
        raise UserError(f"{path}: lacks {', '.join(map(repr, missing))}")


def read_config(workdir: Path) -> dict[str, Any]:
    """Read the config.json of a workdir.

    Raises:
      UserError: if the file cannot be read, or if it is none of a study.
    """
    path = workdir / CONFIG
    content = _parse(_read_text(path), str(path), STUDY_SCHEMA)
    require(content, ("config", "points", "seeds", "status"), path)
    own = content["config"]
    kinds: dict[str, Any] = {"sweep": str, "own_files": dict, "inputs": dict, "switches": dict}
    kinds |= {"target": int | float | None, "select": str, "select_by": str}
    for key, kind in kinds.items():
        if key in own and not isinstance(own[key], kind):
            raise UserError(f"{path}: {key} is {_short(own[key])}; no study writes such a value")
    ids = [str(point["id"]) for point in content["points"]]
    if twice := next((name for name in ids if ids.count(name) > 1), ""):
        raise UserError(f"{path}: two points are called {_short(twice)}")
    for point in content["points"]:
        require(point, ("overrides", "runs"), path)
        odd = [value for value in point["overrides"].values() if not _is_of_a_field(value)]
        if odd:
            raise UserError(f"{path}: one of overrides is {_short(odd[0])}; no study writes such a value")
        if lacks := [field for field in selected_fields(own.get("select")) if field not in point["overrides"]]:
            raise UserError(f"{path}: select is {_short(own['select'])}; {lacks[0]} is not swept")
        if not isinstance(point.get("numbers", {}), dict):
            raise UserError(f"{path}: numbers is {_short(point['numbers'])}; no study writes such a value")
        wrong = [run for run in point["runs"] if not (isinstance(run, str) and RUN.fullmatch(run))]
        if wrong or len(point["runs"]) != len(point.get("seeds", content["seeds"])):
            raise UserError(f"{path}: the runs of point {_short(point['id'])} are {_short(wrong or point['runs'])}")
    if type(content["config"].get("rounds")) is not int:
        raise UserError(f"{path}: rounds is {_short(content['config'].get('rounds'))}; it must be a whole number")
    return content


def _is_of_a_field(value: Any) -> bool:
    """Tell whether a JSON value may be that of a field: a text, a number, or a list of them."""
    return all(not isinstance(part, dict | list) for part in (value if isinstance(value, list) else [value]))


def runs_in(manifest: Mapping[str, Any]) -> Iterator[tuple[int, int, str]]:
    """Yield (index of the point, seed, name of the run) for each run of a config.json."""
    for p, point in enumerate(manifest["points"]):
        for seed, run in zip(seeds_of(manifest, p), point["runs"]):
            yield p, seed, run


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read the lines of the metrics.jsonl of a study that still runs, as dictionaries.

    A last line that is incomplete, since it is just being written, is left out.

    Raises:
      UserError: if the file cannot be read; the message names the line.
    """
    text = _read_text(path)
    text = text[: text.rfind("\n") + 1]
    numbered = [(n, line) for n, line in enumerate(text.splitlines(), start=1) if line.strip()]
    lines = [(n, _parse(line, f"{path}:{n}", SCHEMA, _OF_A_LINE)) for n, line in numbered]
    for n, line in lines:
        require(line, _OF_A_LINE, Path(f"{path}:{n}"))
        check_numbers(line, f"{path}:{n}")
    return [line for _, line in lines]


def check_numbers(line: dict[str, Any], where: str) -> None:
    """Check that a line of metrics.jsonl has numbers, where null stands for NaN and a text for an infinity.

    Raises:
      UserError: if it has something else; the message begins with ``where``.
    """
    for key, value in line.items():
        if isinstance(value, dict | list) or (isinstance(value, str) and key != "point" and value[-3:] != "inf"):
            raise UserError(f"{where}: {key} is {_short(value)}; it must be a number or null")


def no_streets() -> np.ndarray:
    """Return the streets of a study that has none, [0, 4]."""
    return np.zeros((0, 4))


def read_streets(workdir: Path) -> np.ndarray:
    """Return the streets of a study's map: straight pieces from (x, y) to (x, y), [K, 4]; [0, 4] if it has none.

    Raises:
      UserError: if their file cannot be read.
    """
    path = workdir / STREETS
    if not path.is_file():
        return no_streets()
    try:
        with open_file(path, LARGE) as stream:
            check_npz(stream)
            stream.seek(0)
            found = np.load(stream)["streets"].astype(float)
    except Exception as error:  # whatever the readers make of damaged bytes
        raise UserError(f"{path}: cannot be read: {error}") from None
    if found.ndim != 2 or found.shape[1] != 4:
        raise UserError(f"{path}: streets has shape {found.shape}; [K, 4] is needed")
    return found
