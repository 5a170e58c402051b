"""Runs studies from Python: ``run`` does the same as the command `launch.sweep`, and returns `mdfl_jax.Results`."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ml_collections import ConfigDict

from mdfl_jax.config.config_files import Config, as_config
from mdfl_jax.core.errors import UserError, check_path
from mdfl_jax.report.results import Results

if TYPE_CHECKING:
    from mdfl_jax.study.callback import OnEvaluation
    from mdfl_jax.study.study import Study


def run(
    config: Config,
    workdir: str | Path | None = None,
    overwrite: bool = False,
    progress: bool = True,
    on_evaluation: "OnEvaluation | None" = None,
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
    from mdfl_jax.core import devices

    devices.use_all_cores()
    study = _made(as_config(config), data)
    if workdir is not None:
        check_path("workdir", workdir)
        left = f"the same call, without overwrite, goes on where {workdir} was left"
        return _run_in(Path(workdir), left, progress, study, overwrite, on_evaluation, extend)
    _check_writes_nothing(study)
    left = "nothing is saved; with a workdir, mdfl_jax.run(config, workdir) could go on from here"
    with tempfile.TemporaryDirectory() as folder:
        return _run_in(Path(folder), left, progress, study, overwrite, on_evaluation, extend).without_workdir()


def _run_in(
    workdir: Path,
    left: str,
    progress: bool,
    study: "Study",
    overwrite: bool,
    on_evaluation: "OnEvaluation | None",
    extend: bool,
) -> Results:
    """Run a study into a folder. ``left`` says in words what a stopped study has left; the others are as in `run`."""
    from mdfl_jax.storage import disk
    from mdfl_jax.study import Interrupted
    from mdfl_jax.study.alone import alone
    from mdfl_jax.study.resume import check, run_or_resume, to_stderr

    log = to_stderr if progress else _no_log
    check(study, workdir, overwrite, extend)
    try:
        with disk.on_full_disk(study.experiment.engine.on_full_disk, to_stderr), alone(workdir, to_stderr):
            run_or_resume(study, workdir, overwrite, log, _no_plan, progress, on_evaluation, extend)
    except Interrupted:
        raise Interrupted(f"the study was stopped; {left}") from None
    return Results.load(workdir)


def _check_writes_nothing(study: "Study") -> None:
    """Refuse settings that ask for files in a workdir."""
    for field, what in (("save", "kept models"), ("loggers", "the lines of loggers")):
        if value := getattr(study.experiment, field):
            raise UserError(f"{field} is {value!r}; {what} are files in a workdir, and none is given")


def _made(config: ConfigDict, data: Mapping[str, Any] | None) -> "Study":
    """Make the study of a configuration, with arrays as its data source if they are given."""
    from mdfl_jax.study import make_study

    if data is None:
        return make_study(config)
    from mdfl_jax.config.resolve import default_config
    from mdfl_jax.data import sources

    if config.data.name != default_config().data.name:
        raise UserError(f"data is given and data.name is {config.data.name!r}; allowed: one of them")
    with sources.given(data) as name:
        complete = config.copy_and_resolve_references()
        complete.data.name = name
        return make_study(complete)


def _no_plan(study: "Study", resume: bool) -> None:
    """Show no plan before a study begins."""


def _no_log(line: str) -> None:
    """Drop a line for the user."""
