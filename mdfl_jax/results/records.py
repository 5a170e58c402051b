"""Records: what the files of a study hold of its runs. A record is one run, a sweep point under one seed.

history.npz, metrics.jsonl and summary.json are made from records (`mdfl_jax.results.write`), whether these
come from the devices or from the files of one or several workdirs. So a study can be extended, and parts of it can be
put together, without running again what is there.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.metric import Shown
from mdfl_jax.core.outcomes import by_run
from mdfl_jax.core.parts import RunFacts
from mdfl_jax.metrics.built_in.every_study import DIVERGENCE
from mdfl_jax.metrics.history import Metrics
from mdfl_jax.results.results import StudyResults
from mdfl_jax.storage.checksums import check_texts


class Record(NamedTuple):
    """One run, as the files hold it.

    Attributes:
      seed: The seed.
      rounds: [E] int32, the rounds of the evaluations.
      arrays: The metrics that were measured, by their key in history.npz: [E, ...], or with one row a round.
      facts: The facts of the run by name (`mdfl_jax.core.parts.RunFacts`).
      lines: The run's lines of metrics.jsonl, in the order of the evaluations.
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


class Stored(NamedTuple):
    """A study, read from its files.

    Attributes:
      manifest: The content of config.json.
      records: The records of each sweep point of config.json, in the order of the seeds.
      own: The description of each metric that is not built in.
      accuracy_is: What is called accuracy, if it is not the share of labels that are right.
    """

    manifest: dict[str, Any]
    records: list[list[Record]]
    own: list[Shown]
    accuracy_is: str


def lines_of_runs(lines: Sequence[dict[str, Any]]) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """Group the lines of metrics.jsonl by run, (id of the sweep point, seed), each sorted by the round."""
    runs = ((point, seed, of) for point, seeds in by_run(lines).items() for seed, of in seeds.items())
    return {(point, seed): [dict(of[r]) for r in sorted(of)] for point, seed, of in runs}


def from_devices(
    seed: int,
    metrics: Metrics,
    facts: RunFacts,
    lines: list[dict[str, Any]],
    compile_seconds: float,
    run_seconds: float,
) -> Record:
    """Make the record of a run from what the devices have measured.

    Args:
      seed: The seed.
      metrics: The history of the run, NumPy leaves [E, ...].
      facts: The facts of the run.
      lines: Its lines of metrics.jsonl.
      compile_seconds, run_seconds: As in `Record`.
    """
    arrays = {
        metric.in_files: metric.on_host(metrics[metric.name])
        for metric in metrics.declared
        if len(metrics[metric.name]) and not (metric.optional and metric.unknown(metrics[metric.name]))
    }
    return Record(seed, metrics.round, arrays, dict(facts._asdict()), lines, compile_seconds, run_seconds)


def read(workdir: Path) -> Stored:
    """Read the records of a finished study, or of a part of one.

    Raises:
      UserError: If the folder holds no finished study, or if its files do not fit together.
    """
    study = StudyResults.open(workdir)
    of_runs = lines_of_runs(study.lines)
    records = [
        list(_of_point(workdir, study.arrays, of_runs, p, point, study.seeds_of(p)))
        for p, point in enumerate(study.summary["points"])
    ]
    check_texts(study.manifest, workdir)
    own = [Shown(**entry) for entry in study.summary.get("metrics", ())]
    return Stored(study.manifest, records, own, study.summary.get("accuracy_is", ""))


def _of_point(
    workdir: Path,
    arrays: Mapping[str, np.ndarray],
    lines: Mapping[tuple[str, int], list[dict[str, Any]]],
    p: int,
    point: Mapping[str, Any],
    seeds: Sequence[int],
) -> Iterator[Record]:
    """Yield the records of the p-th sweep point from the files."""
    stacked = {key.partition("/")[2]: arrays[key] for key in arrays if key.startswith(f"{p}/")}
    if wrong := [key for key, values in stacked.items() if len(values) != len(seeds)]:
        raise UserError(f"{workdir / 'history.npz'}: {p}/{wrong[0]} is not of the {len(seeds)} seeds of config.json")
    for s, seed in enumerate(seeds):
        of_run = lines.get((point["id"], seed), [])
        if [line["round"] for line in of_run] != arrays["rounds"].tolist():
            raise UserError(f"{workdir / 'metrics.jsonl'}: lines of point {point['id']!r}, seed {seed}, are missing")
        own = {key: values[s] for key, values in stacked.items()}
        facts = {name: own.pop(name) for name in RunFacts._fields if name in own}
        # The seconds of a point are those of its runs together, and only one of them has compiled.
        compiling = point["compile_seconds"] if s == 0 else 0.0
        yield Record(seed, arrays["rounds"], own, facts, of_run, compiling, point["run_seconds"] / len(seeds))


def in_order(metrics: Iterable[Shown], records: Sequence[Sequence[Record]]) -> list[Shown]:
    """Return metrics in the order in which the points have measured them, and then by name, each once."""
    known = {metric.key: metric for metric in sorted(metrics, key=lambda metric: metric.key)}
    measured = dict.fromkeys(key for of_point in records for key in (*of_point[0].arrays, *of_point[0].lines[0]))
    return [known[key] for key in dict.fromkeys([*measured, *known]) if key in known]


def joined(earlier: Record, later: Record) -> Record:
    """Return the record of a run that went on after its end.

    Args:
      earlier: The run until then.
      later: The further rounds. Its first evaluation, and the first row of what has one row a round, are the last ones
        of ``earlier``.

    Returns:
      The whole run. A metric that only one of them has is left out: a record of the rounds whose size is bounded. But
      a run that diverges in the further rounds has no divergence before.

    Raises:
      UserError: If the further rounds do not begin where the earlier ones end.
    """
    if earlier.rounds[-1] != later.rounds[0]:
        raise UserError(
            f"the further rounds of seed {earlier.seed} begin at round {later.rounds[0]}, and the earlier ones end at "
            f"round {earlier.rounds[-1]}; they cannot be joined"
        )

    def part(record: Record, key: str) -> np.ndarray:
        return record.arrays[key] if key in record.arrays else np.full(len(record.rounds), np.nan, np.float32)

    kept = [key for key in later.arrays if key in earlier.arrays or key in DIVERGENCE]
    return Record(
        earlier.seed,
        np.concatenate([earlier.rounds, later.rounds[1:]]),
        {key: np.concatenate([part(earlier, key), part(later, key)[1:]]) for key in kept},
        earlier.facts,
        earlier.lines + later.lines[1:],
        earlier.compile_seconds + later.compile_seconds,
        earlier.run_seconds + later.run_seconds,
    )


def difference(here: Record, there: Record) -> str:
    """Name what two records of the same run do not have in common to the bit, or '' if they agree.

    Seconds may differ. The two may also differ in the id of their sweep point.
    """
    if not np.array_equal(here.rounds, there.rounds):
        return "rounds"
    for name in dict.fromkeys([*here.arrays, *there.arrays, *here.facts, *there.facts]):
        one, other = ((record.arrays | record.facts).get(name) for record in (here, there))
        if one is None or other is None or one.dtype != other.dtype or one.shape != other.shape:
            return name
        if one.tobytes() != other.tobytes():
            return name
    for ours, theirs in zip(here.lines, there.lines):
        for key in dict.fromkeys([*ours, *theirs]):
            if key != "point" and ours.get(key) != theirs.get(key):
                return f"{key} of metrics.jsonl"
    return ""
