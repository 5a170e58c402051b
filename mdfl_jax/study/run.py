"""Run a study in a workdir: from Python (`run`), or a checked study (`run_or_resume`).

What is missing is run; then the views are written. The runs are computed by `Runner`, evaluation after evaluation.
"""

import contextlib
import dataclasses
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mdfl_jax.config.checks import LOGGERS, parse_loggers
from mdfl_jax.config.resolve import Config, as_config
from mdfl_jax.core import devices, hosts, program_cache
from mdfl_jax.core.errors import UserError, check_path
from mdfl_jax.results.records import read_records
from mdfl_jax.results.results import Results, write_views
from mdfl_jax.storage import disk
from mdfl_jax.storage.disk import write_arrays, write_json
from mdfl_jax.storage.study_files import (
    CONFIG,
    LOGGER_FOLDER,
    METRICS_FILE,
    STREETS,
    VIEW_FILES,
    locked,
    read_config,
    runs_in,
)
from mdfl_jax.study import memory
from mdfl_jax.study import workdir as workdirs
from mdfl_jax.study.events import Callback, MetricsFile, OnEvaluation, Sink
from mdfl_jax.study.identity import differences_in_words
from mdfl_jax.study.objects import known_objects
from mdfl_jax.study.plan import noted
from mdfl_jax.study.progress import Progress
from mdfl_jax.study.runner import Interrupted, Runner
from mdfl_jax.study.signals import apart, handled
from mdfl_jax.study.study import Study, callers_switches, make_study, set_precision
from mdfl_jax.study.workdir import RunFiles, WorkdirContent
from mdfl_jax.study.workers import Crew, Worker, Workers


def print_to_stderr(line: str) -> None:
    """Print a line for the user on standard error."""
    print(line, file=sys.stderr, flush=True)


def ignore(*_: Any) -> None:
    """Ignore a line for the user, or the beginning of a study."""


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """How a study is run: everything that its results do not depend on.

    Attributes:
      overwrite: whether to replace the study in the workdir.
      progress: whether to show a bar in a terminal or in a notebook, or lines elsewhere.
      log: a function that takes lines for the user.
      on_evaluation: a function that is called with an `EvaluationInfo` at each evaluation. If it returns True, the
        study is stopped.
      begins: a function of (study, whether it continues), called before anything is compiled.
      workers: the number of processes that share the runs, this one included; 0: as many as are at work.
      is_worker: whether this process is one of a crew, whose own process writes the views.
      crew: the processes that compute the runs in place of this one.
    """

    overwrite: bool = False
    progress: bool = True
    log: Callable[[str], None] = print_to_stderr
    on_evaluation: OnEvaluation | None = None
    begins: Callable[[Study, bool], None] = ignore
    workers: int = 0
    is_worker: bool = False
    crew: Crew | None = None


def run(
    config: Config,
    workdir: str | Path | None = None,
    overwrite: bool = False,
    progress: bool = True,
    on_evaluation: OnEvaluation | None = None,
    data: Mapping[str, Any] | tuple[Any, Any] | None = None,
    model: Any = None,
    graph: Any = None,
    trace: Any = None,
    cache: str | Path | None = None,
) -> Results:
    """Run a study on all CPU cores or accelerators, as the command `mdfl sweep` does.

    Args:
      config: a configuration made from `mdfl_jax.config.default_config`; or a dictionary of the values that differ
        from the defaults ({"rounds": 100, "network": {"mobility": "dcm"}} or {"network.mobility": "dcm"}); or the path
        of a config file.
      workdir: the folder for the results. Runs that are there are not run again: an unfinished study is continued, one
        with fewer seeds, sweep points or rounds is extended (docs/growing.md), a finished one is read. None: a
        temporary folder.
      overwrite: whether to replace an earlier study in the workdir.
      progress: True: a progress bar in a terminal or in a notebook, elsewhere a line in half a minute, and notes about
        the study, on standard error. False: nothing is printed.
      on_evaluation: a function that is called on the host at each evaluation of each sweep point, with an
        `mdfl_jax.EvaluationInfo`. If it returns True, the study is stopped after this evaluation. An evaluation that an
        earlier run of the study has saved is not shown again.
      data: arrays x_train, y_train, x_test, y_test, ... (docs/data.md) in place of the data set of ``data.name``; or a
        pair (x, y), of which every fifth sample of a label is for testing.
      model: a module of flax linen, the class of a module of flax nnx or a function of ``rngs`` that makes one, or a
        pair of functions (init, apply), in place of ``model.name``. It returns logits [B, C] of samples [B, ...].
      graph: a graph of networkx (its weights do not count), a matrix [N, N] (bool: links; floats: mixing weights) or
        [T, N, N], or a list of tuples (i, j), in place of ``graph.file``. Its nodes are the N clients. An edge i, j
        says that i hears j.
      trace: a `pandas.DataFrame` in place of ``trace.file``: time, id, x, y in metres (or lon, lat in degrees), or a
        contact list round, i, j.
      cache: the folder in which compiled programs are kept for later calls and processes; "": none. None: the one that
        JAX is set to, or else that of the commands (`mdfl info` prints it).

    Returns:
      The results, which equal those of the command with the same configuration.

    Raises:
      UserError: if anything is wrong with the configuration, an object or the folder.
      mdfl_jax.Interrupted: if ``on_evaluation`` has returned True before the last evaluation of the study, or on
        Ctrl-C. With a workdir the state is saved, and the same call continues the study. Without one it is lost.
      Exception: whatever ``on_evaluation`` raises, unchanged, after the state is saved.

    >>> import mdfl_jax
    >>> results = mdfl_jax.run({"rounds": 4, "eval_every": 2, "seeds": 1, "model.name": "linear"})
    >>> results.array("accuracy").shape
    (1, 3, 20)
    """
    if on_evaluation is not None and not callable(on_evaluation):
        raise UserError(f"on_evaluation is {on_evaluation!r}; it must be a function of an mdfl_jax.EvaluationInfo")
    devices.use_all_cores()
    log = print_to_stderr if progress else ignore

    def begins(study: Study, _: bool) -> None:
        for line in noted(study):
            log(f"note: {line}")

    options = RunOptions(overwrite, progress, log, on_evaluation, begins)
    with contextlib.ExitStack() as stack:
        stack.enter_context(callers_switches())
        stack.enter_context(program_cache.programs_kept(None if cache is None else str(cache)))
        objects = {"data": data, "model": model, "graph": graph, "trace": trace}
        study = make_study(stack.enter_context(known_objects(as_config(config), **objects)))
        if workdir is not None:
            check_path("workdir", workdir)
            left = f"the same call, without overwrite, goes on where {workdir} was left"
        else:
            _check_writes_nothing(study)
            left = "nothing is saved; with a workdir, mdfl_jax.run(config, workdir) could go on from here"
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()) if workdir is None else workdir)
        try:
            run_or_resume(study, folder, options)
        except Interrupted:
            raise Interrupted(f"the study was stopped; {left}") from None
        results = Results.load(folder)
        return results.without_workdir() if workdir is None else results


def _check_writes_nothing(study: Study) -> None:
    """Refuse settings that ask for files in a workdir."""
    for field, what in (("save", "checkpoints"), ("loggers", "the lines of loggers")):
        if value := getattr(study.experiment, field):
            raise UserError(f"{field} is {value!r}; {what} are files in a workdir, and none is given")


def run_or_resume(
    study: Study, workdir: Path, options: RunOptions = RunOptions(), **changes: Any
) -> tuple[Results | None, bool]:
    """Run what is missing of a study in a workdir, and write its results.

    A study is the set of its runs. So this begins a study, goes on with one, adds seeds, sweep points or rounds to one,
    or computes what other processes do not.

    Args:
      study: The study, from `make_study`.
      workdir: The directory for its results.
      options: How it is run. Batches that would not fit the memory are made smaller after ``begins`` was called, with
        a line for the user.
      changes: Fields of `RunOptions` that differ from ``options``.

    Returns:
      (the results, None for a worker; whether all runs were there before).

    Raises:
      Interrupted: On SIGINT, SIGTERM or SIGHUP, or if ``on_evaluation`` has returned True. The state is saved.
      Exception: Whatever ``on_evaluation`` raises, unchanged. The state is saved.
      UserError: If the workdir holds something else, or cannot be written, or if the memory is not enough for one run.
    """
    options = dataclasses.replace(options, **changes)
    log, files = options.log, RunFiles(study, workdir, options.log)
    held = workdirs.inspect_workdir(workdir, files.manifest, options.overwrite)
    there = set() if options.overwrite else files.finished()
    missing = [run for run in study.runs if study.name(run) not in there]
    if not missing and options.is_worker:
        return None, True
    if not missing:
        with locked(workdir):
            if not Workers(workdir).others():
                files.tidy()
            return _as_wanted(files, held), True
    for run in study.runs:
        if study.name(run) in there:
            files.record(run)  # what cannot be read is told before anything is written
    further = {} if options.overwrite else files.check_more_rounds(missing)
    wanted, told = len(study.runs), len(missing) < len(study.runs)
    if told:
        log(f"{workdir} has {wanted - len(missing)} of {wanted} runs; {len(missing)} are to be run")
    for at_round, count in further.items():
        log(f"{count} of the runs in {workdir} go on from round {at_round}")
    options.begins(study, held.manifest is not None and not told and not further)
    if not options.crew:
        hosts.tell("fit")
        files.set_study(apart(lambda: memory.fit(study, log)) or study)
        set_precision(study.experiment)
    with disk.writing(workdir):
        workdir.mkdir(parents=True, exist_ok=True)

    def begin(others: Sequence[Worker]) -> None:
        if not options.is_worker:
            _begin(files, others, options.overwrite)

    if options.crew:
        with options.crew:  # what is wrong in its settings is found before anything is removed
            with locked(workdir):
                begin(Workers(workdir).others())
            options.crew.run(study, workdir, log, options.progress)
    else:
        with Workers(workdir) as workers:
            with locked(workdir):
                others = workers.others()
                begin(others)
            _run_missing(files, workers, options, not others)
    if options.is_worker:
        return None, False
    with locked(workdir):
        if not Workers(workdir).others():
            files.tidy()
        return _write_views(files), False


def _begin(files: RunFiles, others: Sequence[Worker], overwrite: bool) -> None:
    """Write which runs a study has, after removing what is not to stay. The caller has locked the workdir.

    Raises:
      UserError: If it is to be replaced, and others compute its runs; or if another command has begun another study.
    """
    manifest, workdir, streets = files.manifest, files.workdir, files.study.streets
    if overwrite and others:
        raise UserError(f"--workdir={workdir}: {others[0]} computes runs there; --overwrite waits for nobody")
    held = workdirs.inspect_workdir(workdir, manifest, overwrite, bool(others))  # another command may just have begun
    if overwrite:
        workdirs.clear(workdir)
    if not others:
        files.tidy()
    write_json(workdir / CONFIG, manifest | {"files": (held.manifest or {}).get("files", [])})
    if streets is not None:
        write_arrays(workdir / STREETS, {"streets": streets})


def _run_missing(files: RunFiles, workers: Workers, options: RunOptions, is_first: bool) -> None:
    """Run what is missing, with all that sees how the study goes on."""
    study, workdir, log = files.study, files.workdir, options.log
    sinks: list[Sink] = [
        MetricsFile(study, workdir / METRICS_FILE, is_first),
        *(
            LOGGERS[name](study, workdir / LOGGER_FOLDER / name, log)
            for name in parse_loggers(study.experiment.loggers)
        ),
        Progress(study, log, options.progress),
    ]
    runner = Runner(files, workers, sinks, is_first, options.workers)
    if options.on_evaluation:
        sinks.append(Callback(study, options.on_evaluation, runner.stop))
    with (
        handled(runner.stop, log, options.is_worker or hosts.many() > 1),
        contextlib.ExitStack() as stack,
    ):
        for sink in sinks:
            stack.enter_context(sink)
        runner.run()


def _write_views(files: RunFiles) -> Results:
    """Write the views of a study whose runs are all there, and return its results.

    If another command has extended the study meanwhile, that command writes them.
    """
    manifest, workdir = files.manifest, files.workdir
    there = read_config(workdir) if (workdir / CONFIG).is_file() else manifest
    if {run for _, _, run in runs_in(there)} <= {run for _, _, run in runs_in(manifest)}:
        return write_views(workdir, manifest | {"files": there.get("files", [])})
    more = "another command has added runs to this study, and writes the files of all when they are there"
    files.log(f"{workdir}: {more}")
    return Results.of_records(manifest, read_records(workdir, manifest), workdir)


def _as_wanted(files: RunFiles, held: WorkdirContent) -> Results:
    """Return the results of a study whose runs are all there. Views of another one are written anew before."""
    manifest, there, workdir = files.manifest, held.manifest or {}, files.workdir
    differs = any(there.get(name) != manifest[name] for name in ("config", "points", "seeds", "name", "title"))
    whole = there.get("status") == "finished" and all((workdir / name).is_file() for name in VIEW_FILES)
    if whole and not differs:
        return Results.open(workdir)
    why = differences_in_words(held.changed) or ("in another order" if whole else "all runs are there")
    files.log(f"{workdir}: {why}; the results are written anew, and nothing is run")
    return write_views(workdir, manifest | {"files": there.get("files", [])})
