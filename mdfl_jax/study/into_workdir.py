"""Runs a study into its workdir (config.json, metrics.jsonl, history.npz, summary.json)."""

import contextlib
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from mdfl_jax.results.records import Record, Stored, from_devices, in_order, lines_of_runs
from mdfl_jax.results.write import write_results
from mdfl_jax.storage import disk
from mdfl_jax.storage.checkpoint import Checkpoints
from mdfl_jax.storage.disk import write_arrays, write_json
from mdfl_jax.storage.provenance import provenance
from mdfl_jax.storage.study_files import CHECKPOINTS, STREETS, read_lines
from mdfl_jax.study import workdir as workdirs
from mdfl_jax.study.batch import BatchResult
from mdfl_jax.study.callback import Callback, OnEvaluation
from mdfl_jax.study.events import Sink
from mdfl_jax.study.halving import OutOfMemoryError, halved
from mdfl_jax.study.loggers import loggers_of
from mdfl_jax.study.manifest import accuracy_is, manifest_of, own_metrics, places
from mdfl_jax.study.progress import Progress
from mdfl_jax.study.runner import Interrupted, Runner
from mdfl_jax.study.signals import handled
from mdfl_jax.study.sinks import MetricsFile, ModelFiles, Notes
from mdfl_jax.study.states import StateFiles
from mdfl_jax.study.study import Run, Study, set_precision

__all__ = ["Interrupted", "run_study"]


def _records(study: Study, workdir: Path, batches: list[tuple[list[Run], BatchResult]]) -> list[list[Record]]:
    """Make the records of each sweep point in the files, with the seeds in order. The lines are those of the sink."""
    lines = lines_of_runs(read_lines(workdir / "metrics.jsonl"))
    found: dict[int, dict[int, Record]] = {point: {} for point in places(study)}
    for runs, result in batches:
        for i, (point, seed) in enumerate(runs):
            metrics, facts = jax.tree.map(lambda leaf, i=i: leaf[i], (result.metrics, result.facts))
            compiling, seconds = 0.0 if i else result.compile_seconds, result.run_seconds / len(runs)
            of_run = lines[study.points[point].id, seed]
            found[point][seed] = from_devices(seed, metrics, facts, of_run, compiling, seconds)
    return [[of_point[seed] for seed in sorted(of_point)] for of_point in found.values()]


def run_study(
    study: Study,
    workdir: Path,
    resume: bool = False,
    log: Callable[[str], None] = print,
    progress: bool = True,
    on_evaluation: OnEvaluation | None = None,
    more_follows: bool = False,
    loggers_in: Path | None = None,
) -> dict[str, Any]:
    """Run a study into a workdir: config.json, metrics.jsonl, history.npz, summary.json.

    Args:
      study: The study, from `make_study`.
      workdir: The directory for its files, checked by `workdir.look`.
      resume: Whether to continue the unfinished run that the workdir holds.
      log: A function that takes lines for the user.
      progress: Whether to show a progress bar in a terminal or in a notebook.
      on_evaluation: A function that is called with an `EvaluationInfo` at each evaluation. If it returns
        True, the study is stopped.
      more_follows: Whether this is a part of a study that another part follows. A stop at the last evaluation of this
        part then stops the study.
      loggers_in: The workdir in which loggers write, if it is another one: a part of a study that is extended continues
        the loggers of the whole.

    Returns:
      The content of summary.json.

    Raises:
      Interrupted: On SIGINT, SIGTERM or SIGHUP, or if ``on_evaluation`` has returned True. The state is saved.
      Exception: Whatever ``on_evaluation`` raises, unchanged. The state is saved.
      UserError: If the workdir cannot be written, or if the memory is not enough for one run.
    """
    set_precision(study.experiment)
    while True:
        try:
            return _run(study, workdir, resume, log, progress, on_evaluation, more_follows, loggers_in)
        except OutOfMemoryError as error:
            study, resume = halved(study, error, workdir, log), True
        gc.collect()  # what the error held is on the devices no more


def _run(
    study: Study,
    workdir: Path,
    resume: bool,
    log: Callable[[str], None],
    progress: bool,
    on_evaluation: OnEvaluation | None,
    more_follows: bool,
    loggers_in: Path | None,
) -> dict[str, Any]:
    """Run a study, or continues it, with batches of the sizes that it has. The arguments are those of `run_study`."""
    workdirs.prepare(workdir, resume)
    manifest = manifest_of(study, provenance())
    checkpoints = Checkpoints(workdir / CHECKPOINTS, log)
    sinks: list[Sink] = [MetricsFile(study, workdir / "metrics.jsonl"), ModelFiles(study, workdir)]
    sinks.append(StateFiles(study, workdir))
    sinks += [*loggers_of(study, loggers_in or workdir, log), Progress(study, log, progress), Notes(study, log)]
    runner = Runner(study, checkpoints, sinks)
    if on_evaluation:
        sinks.append(Callback(study, on_evaluation, runner.stop))
    with disk.until(lambda: runner.stopping):
        finished = runner.read_back()
        write_json(workdir / "config.json", manifest)
        if study.streets is not None:
            write_arrays(workdir / STREETS, {"streets": study.streets})
        with handled(runner.stop, log), contextlib.ExitStack() as stack:
            for sink in sinks:
                stack.enter_context(sink)
            batches = runner.run(finished)
        records = _records(study, workdir, batches)
        stored = Stored(manifest, records, in_order(own_metrics(study), records), accuracy_is(study))
        summary = write_results(workdir, stored, with_lines=False)
        checkpoints.remove()
    if more_follows and runner.stopping:
        raise Interrupted
    return summary
