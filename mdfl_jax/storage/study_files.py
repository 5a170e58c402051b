"""The files in the workdir of a study: their names, and how each is read, with errors that name the file.

No JAX is needed.
"""

import contextlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.metric import SCHEMA
from mdfl_jax.storage import model_files
from mdfl_jax.storage.limits import check_npz

CHECKPOINTS = "checkpoints"  # the saved states of an unfinished study
EXTENSION = "extension"  # the parts by which a finished study is extended:
FURTHER_ROUNDS, FURTHER_RUNS = "rounds", "runs"  # these folders are there, each like a workdir
HALVED = "checkpoints.halved"  # checkpoints of smaller batches, which take the place of the others
LOCK = ".mdfl_jax.lock"  # who writes to the workdir at present
LOGGERS = "loggers"  # each logger has a folder of its name there
MODELS = model_files.FOLDER
PUBLISHING = "publishing"  # what takes the place of the earlier files, in the folder `RESULT` of it
RESULT = "result"
STATES = "states"  # the last states of the runs
STREETS = "streets.npz"  # the streets of the map, [K, 4] "streets": straight pieces from (x, y) to (x, y)
WRITTEN = (
    "config.json",
    "metrics.jsonl",
    "history.npz",
    STREETS,
    "summary.json",
    "tables",
    "figures",
    "report.html",
    MODELS,
    LOGGERS,
    STATES,
    CHECKPOINTS,
    HALVED,
    f"{HALVED}.part",
    EXTENSION,
    PUBLISHING,
)
"""Everything that a study may write to its workdir."""
_TEXT, _NUMBER = (str,), (int, float)
_KINDS: dict[str, tuple[type, ...]] = {
    "config": (dict,), "checksums": (dict,), "whole": (dict,), "overrides": (dict,), "final_accuracy": (dict,),
    "points": (list,), "seeds": (list,), "metrics": (list,), "runs_per_batch": (list,),
    "status": _TEXT, "id": _TEXT, "point": _TEXT, "accuracy_is": _TEXT, "baseline": (str, type(None)),
    "seed": (int,), "round": (int,), "compile_seconds": _NUMBER, "run_seconds": _NUMBER,
}  # fmt: skip
_OF_A_LINE = ("point", "seed", "round")
_OF_A_POINT = ("id", "overrides", "seeds", "final_accuracy", "baseline", "compile_seconds", "run_seconds")
"""The types of those entries of the JSON files by which everything else is found (`_check_kinds`)."""


def check_whole(workdir: Path) -> None:
    """Check that the files of a workdir are those of one study.

    Raises:
      UserError: If a command was stopped while new files took the place of the earlier ones.
    """
    if (workdir / PUBLISHING / RESULT).is_dir():
        raise UserError(
            f"{workdir}: a command was stopped while new results took the place of the earlier ones; repeat that "
            "command, which goes on"
        )


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; is the run finished?") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None


def _parse(text: str, where: str, keys: Collection[str] = _KINDS) -> dict[str, Any]:
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"{where}: not valid JSON: {error}") from None
    if not isinstance(content, dict):
        raise UserError(f"{where}: not a JSON object")
    if content.get("schema") != SCHEMA:
        raise UserError(f"{where}: schema is {content.get('schema')!r}; this version reads schema {SCHEMA}")
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


def read_json(path: Path, keys: Sequence[str]) -> dict[str, Any]:
    """Read a file with one JSON object of schema 1, which must have the given keys.

    Raises:
      UserError: if the file cannot be read, or if it lacks a key.
    """
    content = _parse(_read_text(path), str(path))
    require(content, keys, path)
    return content


def read_lines(path: Path, torn: bool = False) -> list[dict[str, Any]]:
    """Read a file with one JSON object of schema 1 in each line.

    Args:
      path: the file.
      torn: whether the last line may be incomplete, since the file is being written; it is then left out.

    Raises:
      UserError: if the file cannot be read; the message names the line.
    """
    text = _read_text(path)
    if torn:
        text = text[: text.rfind("\n") + 1]
    numbered = [(n, line) for n, line in enumerate(text.splitlines(), start=1) if line.strip()]
    lines = [(n, _parse(line, f"{path}:{n}", _OF_A_LINE)) for n, line in numbered]
    for n, line in lines:
        require(line, _OF_A_LINE, Path(f"{path}:{n}"))
        for key, value in line.items():
            if isinstance(value, dict | list) or (isinstance(value, str) and key != "point" and value[-3:] != "inf"):
                raise UserError(f"{path}:{n}: {key} is {_short(value)}; it must be a number or null")
    return [line for _, line in lines]


class History(Mapping[str, np.ndarray]):
    """The arrays of history.npz by name. Each is read when it is asked for.

    Raises:
      UserError: if the file or an array cannot be read.
    """

    def __init__(self, path: Path):
        if not path.is_file():
            raise UserError(f"{path}: no such file; is the run finished?")
        self.path = path
        with self._naming_file():
            check_npz(path, together=False)
            self._file = np.load(path)

    def __getitem__(self, name: str) -> np.ndarray:
        with self._naming_file():
            return self._file[name]

    def __contains__(self, name: object) -> bool:
        return name in self._file

    def __iter__(self) -> Iterator[str]:
        return iter(self._file.files)

    def __len__(self) -> int:
        return len(self._file.files)

    @contextlib.contextmanager
    def _naming_file(self) -> Iterator[None]:
        try:
            yield
        except KeyError:  # there is no such array
            raise
        except Exception as error:  # whatever the readers make of damaged bytes
            said = error if isinstance(error, UserError) else f"cannot be read: {error}"
            raise UserError(f"{self.path}: {said}") from None


def read_results(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]], Mapping[str, np.ndarray]]:
    """Read summary.json, metrics.jsonl and history.npz of a finished study, whose config.json the caller has read.

    `mdfl_jax.storage.checksums.check_texts` is for the caller too, after all that tells a user more than a checksum
    does.

    Raises:
      UserError: if a file cannot be read, or if new files are just taking the place of the earlier ones.
    """
    check_whole(folder)
    summary, lines = read_json(folder / "summary.json", ("points", "baseline")), read_lines(folder / "metrics.jsonl")
    return summary, lines, History(folder / "history.npz")


def no_streets() -> np.ndarray:
    """Return the streets of a study that has none, [0, 4]."""
    return np.zeros((0, 4))


def read_streets(workdir: Path) -> np.ndarray:
    """Return the streets of a study's map: straight pieces from (x, y) to (x, y), [K, 4]; [0, 4] if it has none.

    Raises:
      UserError: if their file cannot be read.
    """
    path = workdir / STREETS
    found = History(path).get("streets") if path.is_file() else None
    if found is not None and (found.ndim != 2 or found.shape[1] != 4):
        raise UserError(f"{path}: streets has shape {found.shape}; [K, 4] is needed")
    return no_streets() if found is None else found.astype(float)
