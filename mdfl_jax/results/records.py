"""Records of runs: one file for each finished run, a sweep point under one seed. A study is a set of such files.

A record has the metrics of the run, its facts, its lines of metrics.jsonl, and in its header the resolved
configuration, the seed, and how it was made. It is written once and never changes, and its name tells all that its
numbers depend on (`mdfl_jax.study.identity`). All else that a study shows is made of records
(`mdfl_jax.results.results`). The config.json of a study says which runs it has; where only records are there, the same
is made of them.
"""

import contextlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.metric import CLASSES, CLIENT_BYTES, CLIENTS, ROUNDS, SCHEMA, Metric, Shown
from mdfl_jax.core.outcomes import enumerated, name_of
from mdfl_jax.metrics import BUILT_IN
from mdfl_jax.storage import array_files
from mdfl_jax.storage.array_files import SUFFIX, Arrays
from mdfl_jax.storage.disk import dumps
from mdfl_jax.storage.study_files import (
    CONFIG,
    RUN,
    STUDY_SCHEMA,
    check_numbers,
    read_config,
    require,
    run_files,
    run_name,
    run_path,
    runs_in,
)

if TYPE_CHECKING:
    from mdfl_jax.core.types import RunFacts
    from mdfl_jax.metrics.history import Metrics

FACTS: Mapping[str, tuple[str, ...]] = {
    "label_counts": ("client", "label"),
    "is_mobile": ("client",),
    "reached": ("client",),
}
"""The axes of the arrays that are no metrics (`mdfl_jax.core.types.RunFacts`)."""
RECORD_FORMAT = "run 2"
_LINES = "lines/json"  # the array with the text of the lines; a metric's name has no slash


class Measured(NamedTuple):
    """What a run has measured.

    Attributes:
      seed: The seed.
      rounds: [E] int32, the rounds of the evaluations.
      arrays: The metrics that were measured, by their key in history.npz: [E, ...], or with one row a round.
      facts: The facts of the run by name (`mdfl_jax.core.types.RunFacts`).
      lines: The run's lines of metrics.jsonl without the id of the point, in the order of the evaluations.
      compile_seconds: The seconds of compiling, if the run was the first one of its program.
      run_seconds: The seconds of its rounds. Runs that were on the devices together share their seconds equally.
    """

    seed: int
    rounds: np.ndarray
    arrays: dict[str, np.ndarray]
    facts: dict[str, np.ndarray]
    lines: list[dict[str, Any]]
    compile_seconds: float
    run_seconds: float


def from_devices(
    seed: int,
    metrics: "Metrics",
    facts: "RunFacts",
    lines: Sequence[Mapping[str, Any]],
    compile_seconds: float,
    run_seconds: float,
) -> Measured:
    """Return what a run has measured, from the arrays that the devices have returned.

    Args:
      seed: The seed.
      metrics: The history of the run, NumPy leaves [E, ...].
      facts: The facts of the run.
      lines: Its lines of metrics.jsonl.
      compile_seconds, run_seconds: As in `Measured`.
    """
    arrays = {
        metric.in_files: metric.reduction.on_host(metrics[metric.name])
        for metric in metrics.declared
        if len(metrics[metric.name]) and not (metric.optional and metric.unknown(metrics[metric.name]))
    }
    own = [{key: value for key, value in line.items() if key != "point"} for line in lines]
    return Measured(seed, metrics.round, arrays, dict(facts._asdict()), own, compile_seconds, run_seconds)


def joined(earlier: Measured, later: Measured, declared: Sequence[Metric]) -> Measured:
    """Return what a run has measured that went on after its end.

    Args:
      earlier: The run until then.
      later: The further rounds. Its first evaluation, and the first row of what has one row a round, are the last ones
        of ``earlier``.
      declared: The metrics of the run.

    Returns:
      The whole run. Where only one of them has a metric, it was unknown in all evaluations of the other, as the
      divergence is before it and the objective after it. A record of the rounds that only one has is left out: its size
      is bounded.
    """
    assert earlier.rounds[-1] == later.rounds[0]

    def part(of: Measured, key: str, other: Measured) -> np.ndarray:
        if key in of.arrays:
            return of.arrays[key]
        like = other.arrays[key]
        return np.full((len(of.rounds), *like.shape[1:]), np.nan, like.dtype)

    by_round = {metric.in_files: metric.by_round for metric in declared}
    kept = [
        key
        for key, of_rounds in by_round.items()
        if (key in earlier.arrays) + (key in later.arrays) > of_rounds  # both, or one if it is of evaluations
    ]
    return Measured(
        earlier.seed,
        np.concatenate([earlier.rounds, later.rounds[1:]]),
        {key: np.concatenate([part(earlier, key, later), part(later, key, earlier)[1:]]) for key in kept},
        earlier.facts,
        earlier.lines + later.lines[1:],
        earlier.compile_seconds + later.compile_seconds,
        earlier.run_seconds + later.run_seconds,
    )


def write_record(path: Path, found: Measured, header: Mapping[str, Any]) -> None:
    """Write the record of a run.

    Args:
      path: Its file, whose name is that of the run.
      found: What the run has measured.
      header: What is known of the run beside: ``config``, ``metrics``, ``accuracy_is`` and how it was made.

    Raises:
      DiskError: If the file cannot be written.
    """
    text = np.frombuffer(dumps(found.lines).encode(), np.uint8)
    about = {
        "run": path.name.removesuffix(SUFFIX),
        "seed": found.seed,
        "rounds": found.rounds.tolist(),
        "facts": list(found.facts),
        "compile_seconds": found.compile_seconds,
        "run_seconds": found.run_seconds,
        **header,
    }
    array_files.write(path, RECORD_FORMAT, about, found.arrays | found.facts | {_LINES: text}, compress=True)


_BUILT_IN = {metric.in_files: metric for metric in BUILT_IN}
_ALWAYS = [key for key, metric in _BUILT_IN.items() if not (metric.optional or metric.by_round)]  # each run has these


@cache
def _tails(clients: int) -> dict[str, tuple[int, ...]]:
    """Return the shape of one row of each metric that is built in, by its key, for so many clients."""
    rows = {key: metric.dims(clients)[metric.by_round :] for key, metric in _BUILT_IN.items()}
    return {
        key: _BUILT_IN[key].reduction.on_host(np.zeros((0, *row), np.uint32)).shape[1:] for key, row in rows.items()
    }


def _fits(row: tuple[int, ...], declared: Sequence[str | int] | None, clients: int) -> bool:
    """Tell whether the shape of one row can be that of a metric, which may have fewer axes in files."""
    if declared is None:  # of an earlier version
        return True
    sizes: dict[str | int, str | int] = {CLIENTS: clients, CLIENT_BYTES: -(-clients // 8)}
    axes = list(declared)[1:] if tuple(declared[:1]) == (ROUNDS,) else list(declared)
    return len(row) <= len(axes) and all(
        size == sizes.get(axis, axis) or axis == CLASSES for size, axis in zip(row, axes)
    )


def _shown(entry: Mapping[str, Any]) -> Shown:
    """Return the declaration of a metric from the header of a record."""
    found = Shown(**{**entry, "where": tuple(entry["where"]), "shape": tuple(entry["shape"])})
    texts = (found.name, found.key, found.title, found.unit, *found.where)
    if not all(isinstance(text, str) for text in texts) or not float(found.scale) or type(found.summary) is not bool:
        raise ValueError(f"the metric {found.name!r} is declared in another way")
    return found


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no number of JSON")


@contextlib.contextmanager
def _remedy(path: Path) -> Iterator[None]:
    """Add to the line about a damaged record what to do."""
    try:
        yield
    except UserError as error:
        if not path.exists():
            raise
        line = f"{error}; remove the file, and the command of the study runs it again"
        raise UserError(line) from error.__cause__


class RunRecord:
    """The record of a run in its file. Arrays and lines are read when they are asked for.

    Args:
      path: The file.

    Attributes:
      name: The name of the run.
      header: What the file says of the run.

    Raises:
      UserError: If the file is absent or damaged, or if it is not what a study writes.
    """

    def __init__(self, path: Path):
        self.path, self.name = path, path.name.removesuffix(SUFFIX)
        with _remedy(path):
            self.header, _ = array_files.read(path, RECORD_FORMAT, only=())
            self.shapes = array_files.shapes_in(self.header)
            try:
                self._check()
            except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
                raise UserError(f"{path}: no study writes such a record: {error}") from None

    def _check(self) -> None:
        """Check names, types and shapes against the declarations of the metrics."""
        header = self.header
        self.seed, self.rounds = header["seed"], np.array(header["rounds"], np.int32)
        if (
            type(self.seed) is not int
            or header["run"] != self.name
            or not self.name.endswith(f"-s{self.seed}-r{self.rounds[-1]}")
        ):
            raise ValueError(f"it is that of the run {header['run']!r}")
        if self.rounds.ndim != 1 or (np.diff(self.rounds) <= 0).any() or header["rounds"] != self.rounds.tolist():
            raise ValueError("its rounds do not rise")
        self.compile_seconds, self.run_seconds = float(header["compile_seconds"]), float(header["run_seconds"])
        if not (0 <= self.compile_seconds < math.inf and 0 <= self.run_seconds < math.inf):
            raise ValueError("its seconds are no times")
        kinds = {"config": dict, "other": dict, "made": dict, "accuracy_is": str, "goes_on_from": list}
        if wrong := [name for name, kind in kinds.items() if not isinstance(header[name], kind)]:
            raise ValueError(f"its {wrong[0]} is of another type")
        if not all(isinstance(name, str) and RUN.fullmatch(name) for name in header["goes_on_from"]):
            raise ValueError(f"it goes on from {header['goes_on_from']}")
        self.own = [_shown(entry) for entry in header["metrics"]]
        self._check_arrays()

    def _check_arrays(self) -> None:
        """Check that the arrays are those of a run of N clients, and have numbers."""
        shapes, facts = self.shapes, self.header["facts"]
        self.fact_names = [name for name in facts if name in FACTS]
        self.keys = [name for name in shapes if name != _LINES and name not in facts]
        (clients,) = shapes["is_mobile"]
        sizes = dict.fromkeys(FACTS, (clients,)) | {"label_counts": (clients, shapes["label_counts"][-1])}
        if any(shapes[name] != sizes[name] for name in self.fact_names) or self.dtype("is_mobile").kind != "b":
            raise ValueError("its facts are of different clients")
        if self.dtype(_LINES) != np.uint8 or len(shapes[_LINES]) != 1:
            raise ValueError("its lines are no text")
        if wrong := next((name for name in shapes if self.dtype(name).kind not in "biufV"), ""):
            raise ValueError(f"{wrong} has the type {self.dtype(wrong)}")
        if absent := [key for key in _ALWAYS if key not in self.keys]:
            raise ValueError(f"{absent[0]} is not there")
        rows, last = len(self.rounds), int(self.rounds[-1])
        built_in, own = _tails(clients), {metric.key: metric.shape for metric in self.own}
        for key in self.keys:
            by_round = (_BUILT_IN[key].shape if key in _BUILT_IN else own.get(key, ()))[:1] == (ROUNDS,)
            fits = (
                shapes[key][1:] == built_in[key] if key in _BUILT_IN else _fits(shapes[key][1:], own.get(key), clients)
            )
            if by_round and key in _BUILT_IN and self.dtype(key) != _BUILT_IN[key].rows.dtype:
                raise ValueError(f"{key} has the type {self.dtype(key)}")
            if not fits or shapes[key][0] not in ((last, last + 1) if by_round else (rows,)):
                raise ValueError(f"{key} has the shape {list(shapes[key])}")

    def array(self, key: str) -> np.ndarray:
        """Return a metric or a fact of the run.

        Raises:
          KeyError: If the run has not measured it.
          UserError: If the file is damaged.
        """
        if key not in self.shapes:
            raise KeyError(key)
        return self._read([key])[key]

    def _read(self, names: Iterable[str]) -> Arrays:
        with _remedy(self.path):
            return array_files.read_more(self.path, self.header, names)

    def dtype(self, key: str) -> np.dtype:
        """Return the type of an array, without reading the array."""
        return np.dtype(self.header["arrays"][key][0])

    @property
    def nbytes(self) -> int:
        """The bytes of all metrics of the run, without reading them."""
        return sum(math.prod(self.shapes[key]) * self.dtype(key).itemsize for key in self.keys)

    @cached_property
    def lines(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl, without the id of the sweep point, in the order of the evaluations."""
        with _remedy(self.path):
            return self._parsed(array_files.read_more(self.path, self.header, [_LINES])[_LINES].tobytes())

    def _parsed(self, text: bytes) -> list[dict[str, Any]]:
        """Return the lines, after a check that they are those of this run."""
        try:
            lines = json.loads(text, parse_constant=_refuse)
            if [(line["seed"], line["round"]) for line in lines] != [(self.seed, at) for at in self.rounds.tolist()]:
                raise ValueError("they are of other rounds, or of another seed")
            if absent := [key for key in _ALWAYS if any(key not in line for line in lines)]:
                raise ValueError(f"{absent[0]} is not there")
            for line in lines:
                check_numbers(line, str(self.path))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise UserError(f"{self.path}: no study writes such lines: {error}") from None
        return lines

    def measured(self) -> Measured:
        """Read all that the run has measured."""
        arrays = self._read([*self.keys, *self.fact_names])
        facts = {name: arrays.pop(name) for name in self.fact_names}
        return Measured(self.seed, self.rounds, arrays, facts, self.lines, self.compile_seconds, self.run_seconds)

    def difference(self, other: "RunRecord") -> str:
        """Name what two records of the same run do not have in common to the bit, or '' if they agree.

        Seconds and the way in which the runs were made may differ.
        """
        ours, theirs = (array_files.checksums_in(record.header) for record in (self, other))
        return next((key for key in dict.fromkeys([*ours, *theirs]) if ours.get(key) != theirs.get(key)), "")


def lines_of_point(point: str, record: RunRecord) -> Iterator[dict[str, Any]]:
    """Yield the lines of metrics.jsonl of a run of a sweep point, in the order of the evaluations."""
    yield from ({"schema": line.get("schema", SCHEMA), "point": point, **line} for line in record.lines)


class LazyArrays(Mapping[str, np.ndarray]):
    """Arrays by name, each made by its function when it is asked for."""

    def __init__(self, make: Mapping[str, Callable[[], np.ndarray]]):
        self._make = make

    def __getitem__(self, name: str) -> np.ndarray:
        return self._make[name]()

    def __contains__(self, name: object) -> bool:
        return name in self._make

    def __iter__(self) -> Iterator[str]:
        return iter(self._make)

    def __len__(self) -> int:
        return len(self._make)


class PointArrays(LazyArrays):
    """The arrays of a sweep point over its seeds, [S, ...] by their key in history.npz.

    If only some runs have measured a metric, it is NaN in the others. An array of whole numbers, which have no NaN, or
    a fact is left out then.

    Args:
      records: The records of the point, one for each seed.
    """

    def __init__(self, records: Sequence[RunRecord]):
        self.records = records
        most = max(records, key=lambda record: len(record.keys))
        first = {key: record for record in (most, *records)[::-1] for key in record.keys}
        known = dict.fromkeys(key for record in (most, *records) for key in record.keys)
        whole = lambda key: all(key in record.shapes for record in records)  # noqa: E731
        keys = [key for key in known if whole(key) or np.issubdtype(first[key].dtype(key), np.inexact)]
        facts = [name for name in records[0].fact_names if whole(name)]
        super().__init__({key: partial(self._stacked, key, first.get(key, records[0])) for key in (*keys, *facts)})

    def _stacked(self, key: str, first: RunRecord) -> np.ndarray:
        with np.errstate(invalid="ignore"):  # whole numbers have no NaN, and all runs have measured them
            absent = np.full(first.shapes[key], np.nan).astype(first.dtype(key))
        found = [record.array(key) if key in record.shapes else absent for record in self.records]
        try:
            return np.stack(found)
        except ValueError:
            shapes = " and ".join(dict.fromkeys(str(list(array.shape)) for array in found))
            raise UserError(f"{self.records[0].path}: {key} has different shapes in its seeds: {shapes}") from None


class StudyArrays(LazyArrays):
    """The arrays of history.npz: 'rounds' [E], and for the p-th point 'p/KEY'.

    KEY is each metric that was measured, [S, E, ...], and each fact of `mdfl_jax.core.types.RunFacts`, [S, ...].

    Args:
      points: The arrays of each sweep point.
    """

    def __init__(self, points: Sequence[PointArrays]):
        own = {f"{p}/{key}": partial(of.__getitem__, key) for p, of in enumerate(points) for key in of}
        super().__init__({"rounds": lambda: points[0].records[0].rounds, **own})


def metrics_in_order(records: Sequence[Sequence[RunRecord]]) -> list[Shown]:
    """Return the metrics that are not built in, in the order in which the points have measured them, each once."""
    known = {metric.key: metric for of_point in records for record in of_point for metric in record.own}
    known = {key: known[key] for key in sorted(known)}
    measured = dict.fromkeys(key for of_point in records for key in (*PointArrays(of_point), *of_point[0].lines[0]))
    return [known[key] for key in dict.fromkeys([*measured, *known]) if key in known]


def read_study(workdir: Path) -> dict[str, Any]:
    """Return the content of a study's config.json, or the like made of its records if it is not there.

    Raises:
      UserError: If the folder holds no study, or if a file cannot be read.
    """
    if not workdir.is_dir():
        why = "it is a file, not the folder of a study" if workdir.exists() else "no such directory"
        raise UserError(f"{workdir}: {why}")
    if (workdir / CONFIG).is_file():
        return read_config(workdir)
    records = [RunRecord(path) for _, path in run_files(workdir)]
    if not records:
        raise UserError(f"{workdir}: it holds no study: there is no config.json")
    try:
        found = study_of(records)
        float(found["config"]["target"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{workdir}: there is no config.json, and its records make no study: {error!r}") from None
    return found


def study_of(records: list[RunRecord]) -> dict[str, Any]:
    """Return the content of config.json for the study that has these runs.

    Its points are told by the fields in which they differ. Its name, title and so on are those of the first run. It has
    as many rounds as the longest of these runs, so that runs with fewer are not there yet.
    """
    most = max(int(record.rounds[-1]) for record in records)
    of_points: dict[str, dict[int, str]] = {}  # the names of the runs by seed; not all need be there
    records_of: dict[str, RunRecord] = {}
    for record in records:
        settings = record.name.rpartition("-s")[0]
        of_points.setdefault(settings, {})[record.seed] = run_name(settings, record.seed, most)
        records_of.setdefault(settings, record)
    configs = [of.header["config"] for of in records_of.values()]
    differ = [path for path in configs[0] if any(of.get(path) != configs[0][path] for of in configs)]
    seeds = sorted({seed for of in of_points.values() for seed in of})
    first = records[0]
    counts = {"rounds": most, "first_seed": seeds[0], "seeds": len(seeds), "sweep": ""}
    config: dict[str, Any] = {}
    for path, value in {**first.header["other"], **configs[0], **counts}.items():
        *sections, name = path.split(".")
        section = config
        for part in sections:
            section = section.setdefault(part, {})
            if not isinstance(section, dict):
                raise UserError(f"{first.path}: no study has the field {path}")
        section[name] = value
    points = []
    for of, own in zip(of_points.values(), configs):
        overrides = {path: own.get(path) for path in differ}
        point = {"id": name_of(overrides), "overrides": overrides, "runs": [of[seed] for seed in sorted(of)]}
        points.append(point | ({"seeds": sorted(of)} if sorted(of) != seeds else {}))
    require(config, ("target", "name", "title"), first.path)
    made = first.header["made"]
    head = {"schema": STUDY_SCHEMA, "name": config.get("name"), "title": config.get("title"), "status": "finished"}
    return {**head, "config": config, "points": points, "seeds": seeds, **made}


_DATA = "{data}"  # in a title: the data set in use
DATA_IN_WORDS = {
    "digits": "handwritten digits",
    "mnist": "MNIST",
    "fashion_mnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "svhn": "SVHN",
}


def title_of(manifest: Mapping[str, Any]) -> str:
    """Return the title of a study with the name of the data in use, else its name; "" if it has neither.

    >>> title_of({"title": "Clients learn {data}", "config": {"data": {"name": "cifar10"}}, "points": []})
    'Clients learn CIFAR-10'
    """
    title = str(manifest.get("title") or manifest.get("name") or "")
    if _DATA not in title:
        return title
    usual = ((manifest.get("config") or {}).get("data") or {}).get("name")
    used = dict.fromkeys(str(point["overrides"].get("data.name", usual)) for point in manifest.get("points") or ())
    names = [DATA_IN_WORDS.get(name, name.replace("_", " ")) for name in used or [str(usual)]]
    return title.replace(_DATA, enumerated(names))


def read_records(workdir: Path, manifest: Mapping[str, Any]) -> list[list[RunRecord]]:
    """Return the records of each sweep point of a config.json that are there, in the order of the seeds.

    Raises:
      UserError: If a record is damaged, or if it is not of the seed that config.json says.
    """
    found: list[list[RunRecord]] = [[] for _ in manifest["points"]]
    for p, seed, run in runs_in(manifest):
        path = run_path(workdir, run)
        if path.is_file():
            record = RunRecord(path)
            if record.seed != seed:
                raise UserError(f"{path}: it is of seed {record.seed}, and config.json says {seed}")
            found[p].append(record)
    return found
