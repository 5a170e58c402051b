"""Run a study in a workdir: from Python (`run`), or a checked study (`run_or_resume`), from its beginning or further.

`run` makes the study of a configuration and reserves the workdir. `run_or_resume` looks what the workdir holds, and
runs, continues, extends or only reads the study there. `run_study` runs all batches and writes the results.
"""

import contextlib
import dataclasses
import gc
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
from ml_collections import ConfigDict

from mdfl_jax.config.config_files import Config, as_config
from mdfl_jax.config.resolve import default_config
from mdfl_jax.config.sections import flat
from mdfl_jax.core import devices
from mdfl_jax.core.errors import UserError, check_path
from mdfl_jax.core.outcomes import seeds_of
from mdfl_jax.data import sources
from mdfl_jax.report.results import Results
from mdfl_jax.results.records import Record, Stored, from_devices, in_order, lines_of_runs, read
from mdfl_jax.results.write import rewrite, write_results
from mdfl_jax.storage import disk
from mdfl_jax.storage.checkpoint import Checkpoints
from mdfl_jax.storage.checksums import CHECKSUMS, check_texts, known_checksums
from mdfl_jax.storage.disk import PART, plain, write_arrays, write_json
from mdfl_jax.storage.provenance import provenance, started
from mdfl_jax.storage.study_files import CHECKPOINTS, HALVED, PUBLISHING, STREETS, read_json, read_lines
from mdfl_jax.study import workdir as workdirs
from mdfl_jax.study.ahead import memory
from mdfl_jax.study.alone import alone
from mdfl_jax.study.batch import BatchResult
from mdfl_jax.study.events import Callback, MetricsFile, ModelFiles, Notes, OnEvaluation, Sink
from mdfl_jax.study.extend import extend as extend_study
from mdfl_jax.study.extend import put_together
from mdfl_jax.study.halving import OutOfMemoryError, adopt, halved
from mdfl_jax.study.identity import DIGESTS, in_words, typed
from mdfl_jax.study.loggers import loggers_of
from mdfl_jax.study.manifest import accuracy_is, manifest_of, own_metrics, places, wanted
from mdfl_jax.study.progress import Progress
from mdfl_jax.study.runner import Interrupted, Runner
from mdfl_jax.study.signals import handled
from mdfl_jax.study.states import StateFiles
from mdfl_jax.study.study import Run, Study, make_study, set_precision
from mdfl_jax.study.whole import Source, publish
from mdfl_jax.study.workdir import WorkdirContent

LEFT = (CHECKPOINTS, HALVED + PART)  # in the folder of a finished study if a command was killed while it removed them


def print_to_stderr(line: str) -> None:
    """Print a line for the user on standard error."""
    print(line, file=sys.stderr, flush=True)


def ignore(*_: Any) -> None:
    """Ignore a line for the user, or the beginning of a study."""


@dataclasses.dataclass(frozen=True)
class RunOptions:
    """How a study is run: everything that its results do not depend on.

    Attributes:
      overwrite: whether to replace the content of the workdir, whatever it is.
      extend: whether a study in the workdir that has only some of the wanted runs or rounds is extended to this one.
      progress: whether to show a bar in a terminal or in a notebook, or lines elsewhere.
      log: a function that takes lines for the user.
      on_evaluation: a function that is called with an `EvaluationInfo` at each evaluation. If it returns True, the
        study is stopped.
      begins: a function of (study, whether it continues), called before anything is compiled.
      more_follows: whether the study is a part of one that is extended, and another part follows. A stop at the last
        evaluation of this part then stops the whole.
      loggers_in: the workdir in which loggers write, if it is another one: a part continues the loggers of the whole.
    """

    overwrite: bool = False
    extend: bool = False
    progress: bool = True
    log: Callable[[str], None] = print_to_stderr
    on_evaluation: OnEvaluation | None = None
    begins: Callable[[Study, bool], None] = ignore
    more_follows: bool = False
    loggers_in: Path | None = None


def run(
    config: Config,
    workdir: str | Path | None = None,
    overwrite: bool = False,
    progress: bool = True,
    on_evaluation: OnEvaluation | None = None,
    data: Mapping[str, Any] | None = None,
    extend: bool = False,
) -> Results:
    """Run a study on all CPU cores or accelerators, as the command `launch.sweep` does.

    Args:
      config: a configuration made from `mdfl_jax.config.default_config`; or a dictionary of the values that differ
        from the defaults ({"rounds": 100, "network": {"mobility": "dcm"}} or {"network.mobility": "dcm"}); or the path
        of a config file.
      workdir: the folder for the results. If it holds an unfinished study, that study is continued; if it holds a
        finished one, its results are read. None: a temporary folder.
      overwrite: whether to replace an earlier study in the workdir.
      progress: True: a progress bar in a terminal or in a notebook, elsewhere a line in half a minute, and notes about
        the study, on standard error. False: nothing is printed.
      on_evaluation: a function that is called on the host at each evaluation of each sweep point, with an
        `mdfl_jax.EvaluationInfo`. If it returns True, the study is stopped after this evaluation. An evaluation that an
        earlier run of the study has saved is not shown again.
      data: arrays x_train, y_train, x_test, y_test, ... (docs/data.md) in place of the data set of ``data.name``.
      extend: whether to extend a study in the workdir that has fewer seeds, sweep points or rounds (docs/growing.md).

    Returns:
      The results, which equal those of the command with the same configuration.

    Raises:
      UserError: if anything is wrong with the configuration or the folder.
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
    options = RunOptions(overwrite, extend, progress, log, on_evaluation)
    study = _make_study_of(as_config(config), data)
    with contextlib.ExitStack() as stack:
        if workdir is not None:
            check_path("workdir", workdir)
            left = f"the same call, without overwrite, goes on where {workdir} was left"
        else:
            _check_writes_nothing(study)
            left = "nothing is saved; with a workdir, mdfl_jax.run(config, workdir) could go on from here"
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()) if workdir is None else workdir)
        try:
            with reserved(study, folder, options):
                run_or_resume(study, folder, options)
        except Interrupted:
            raise Interrupted(f"the study was stopped; {left}") from None
        results = Results.load(folder)
        return results.without_workdir() if workdir is None else results


def _check_writes_nothing(study: Study) -> None:
    """Refuse settings that ask for files in a workdir."""
    for field, what in (("save", "kept models"), ("loggers", "the lines of loggers")):
        if value := getattr(study.experiment, field):
            raise UserError(f"{field} is {value!r}; {what} are files in a workdir, and none is given")


def _make_study_of(config: ConfigDict, data: Mapping[str, Any] | None) -> Study:
    """Make the study of a configuration, with arrays as its data source if they are given."""
    if data is None:
        return make_study(config)
    if config.data.name != default_config().data.name:
        raise UserError(f"data is given and data.name is {config.data.name!r}; allowed: one of them")
    with sources.given(data) as name:
        complete = config.copy_and_resolve_references()
        complete.data.name = name
        return make_study(complete)


@contextlib.contextmanager
def reserved(study: Study, workdir: Path, options: RunOptions = RunOptions()) -> Iterator[None]:
    """Reserve a workdir for this process, after a check, so that nothing is written to one that is refused.

    Raises:
      UserError: As `run_or_resume`, or if another process writes to the workdir.
    """
    if not (workdir / PUBLISHING).exists():  # the files there are those of a study
        workdirs.inspect_workdir(workdir, wanted(study), options.overwrite, options.extend)
    on_full = study.experiment.engine.on_full_disk
    with disk.on_full_disk(on_full, print_to_stderr), alone(workdir, print_to_stderr):
        yield


def run_or_resume(
    study: Study, workdir: Path, options: RunOptions = RunOptions(), **changes: Any
) -> tuple[dict[str, Any], bool]:
    """Run a study, continue it if it is unfinished, extend it, or read its summary if it is finished.

    Args:
      study: The study, from `make_study`.
      workdir: The directory for its results.
      options: How it is run. Batches that would not fit the memory are made smaller after ``begins`` was called, with
        a line for the user.
      changes: Fields of `RunOptions` that differ from ``options``.

    Returns:
      (the summary, whether the study was finished before).

    Raises:
      UserError: If the workdir holds something else, or cannot be written.
    """
    options = dataclasses.replace(options, **changes)
    overwrite, log = options.overwrite, options.log
    if not overwrite:
        publish(workdir)  # a command was killed while its files took the place of the earlier ones
        adopt(workdir)
    content = wanted(study)
    held = workdirs.inspect_workdir(workdir, content, overwrite, options.extend)
    for name in LEFT if held.is_finished else ():
        shutil.rmtree(workdir / name, ignore_errors=True)
    part_options = dataclasses.replace(options, overwrite=False, extend=False, begins=ignore, loggers_in=workdir)

    def run_part(part: Study, folder: Path, more_follows: bool) -> None:
        run_or_resume(part, folder, part_options, more_follows=more_follows)

    if held.grows:
        if not held.is_finished:
            log(f"{workdir} holds an unfinished study; it is finished first, and then extended")
            run_part(_study_there(held), workdir, True)
            held = workdirs.inspect_workdir(workdir, content, overwrite, options.extend)
        assert held.compared is not None
        if held.compared.others:
            log(f"{workdir}: {in_words(held.compared.others)}; the results are written with what is here")
        options.begins(study, False)
        return extend_study(memory.fit(study, log), workdir, held.compared, log, run_part), False
    if held.is_finished:
        return _as_wanted(study, content, workdir, held, log), True
    if held.goes_on:
        _check_order(content, workdir, held)
        sizes = workdirs.batch_sizes(workdir)
        study = study._replace(groups=[g._replace(runs_per_batch=n) for g, n in zip(study.groups, sizes)])
    options.begins(study, held.goes_on)
    if not held.goes_on:
        study = memory.fit(study, log)
    return run_study(study, workdir, held.goes_on, options), False


def _is_in_order(content: Mapping[str, Any], held: WorkdirContent) -> bool:
    """Tell whether the sweep points have the same names and the same order in a workdir as in the wanted study."""
    there = (held.manifest or {}).get("points") or []
    return [point["id"] for point in there] == [point["id"] for point in content["points"]]


def _check_order(content: Mapping[str, Any], workdir: Path, held: WorkdirContent) -> None:
    """Refuse to continue an unfinished study whose sweep points have other names or another order."""
    if held.compared is not None and not _is_in_order(content, held):
        raise UserError(
            f"--workdir={workdir}: the study there is not finished, and {in_words(held.compared.grown)}; finish it as "
            "it is there, choose another, or add --overwrite"
        )


def _as_wanted(
    study: Study, content: Mapping[str, Any], workdir: Path, held: WorkdirContent, log: Callable[[str], None]
) -> dict[str, Any]:
    """Return the summary of a finished study, after writing it anew if fields differ on which no run depends.

    Args:
      study: The wanted study.
      content: What config.json says of it (`wanted`).
      workdir, held: The folder and what it holds.
      log: A function that takes lines for the user.
    """
    assert held.compared is not None
    changed = [*held.compared.others, *held.compared.grown]
    in_order = _is_in_order(content, held)
    manifest = held.manifest or {}
    stopped = CHECKSUMS in manifest and "summary.json" not in known_checksums(manifest)  # by `rewrite`
    if not changed and in_order and not stopped:
        summary = read_json(workdir / "summary.json", ("points", "baseline"))
        check_texts(manifest, workdir)
        return summary
    why = in_words(changed) or ("a command was stopped while it wrote them" if stopped else "in another order")
    log(f"{workdir}: {why}; the results are written anew, and nothing is run")
    source = Source(workdir, read(workdir))
    if not in_order:
        return put_together(study, workdir, [source])
    names = {"name": study.experiment.name, "title": study.experiment.title, "command": started()}
    return rewrite(workdir, source.stored, plain({**content, **names}))


def _study_there(held: WorkdirContent) -> Study:
    """Make the study of which a workdir holds an unfinished run, from its config.json."""
    assert held.manifest is not None
    fields = flat({name: value for name, value in held.manifest["config"].items() if name not in DIGESTS})
    study = make_study(as_config({path: typed(path, value) for path, value in fields.items()}))
    if "whole" not in held.manifest:
        return study
    index = {point.id: p for p, point in enumerate(study.points)}
    entries = enumerate(held.manifest["points"])
    return study.part([Run(index[point["id"]], seed) for p, point in entries for seed in seeds_of(held.manifest, p)])


def run_study(
    study: Study, workdir: Path, resume: bool = False, options: RunOptions = RunOptions(), **changes: Any
) -> dict[str, Any]:
    """Run a study into a workdir: config.json, metrics.jsonl, history.npz, summary.json.

    If the memory is not enough for a batch, the study goes on with batches of half as many runs.

    Args:
      study: The study, from `make_study`.
      workdir: The directory for its files, checked by `workdir.inspect_workdir`.
      resume: Whether to continue the unfinished run that the workdir holds.
      options: How it is run; ``overwrite``, ``extend`` and ``begins`` have no effect here.
      changes: Fields of `RunOptions` that differ from ``options``.

    Returns:
      The content of summary.json.

    Raises:
      Interrupted: On SIGINT, SIGTERM or SIGHUP, or if ``on_evaluation`` has returned True. The state is saved.
      Exception: Whatever ``on_evaluation`` raises, unchanged. The state is saved.
      UserError: If the workdir cannot be written, or if the memory is not enough for one run.
    """
    options = dataclasses.replace(options, **changes)
    set_precision(study.experiment)
    while True:
        try:
            return _run_batches(study, workdir, resume, options)
        except OutOfMemoryError as error:
            study, resume = halved(study, error, workdir, options.log), True
        gc.collect()  # what the error held is on the devices no more


def _run_batches(study: Study, workdir: Path, resume: bool, options: RunOptions) -> dict[str, Any]:
    """Run a study, or continue it, with batches of the sizes that it has. The arguments are those of `run_study`."""
    log = options.log
    workdirs.prepare(workdir, resume)
    manifest = manifest_of(study, provenance())
    checkpoints = Checkpoints(workdir / CHECKPOINTS, log)
    sinks: list[Sink] = [
        MetricsFile(study, workdir / "metrics.jsonl"),
        ModelFiles(study, workdir),
        StateFiles(study, workdir),
        *loggers_of(study, options.loggers_in or workdir, log),
        Progress(study, log, options.progress),
        Notes(study, log),
    ]
    runner = Runner(study, checkpoints, sinks)
    if options.on_evaluation:
        sinks.append(Callback(study, options.on_evaluation, runner.stop))
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
    if options.more_follows and runner.stopping:
        raise Interrupted
    return summary


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
