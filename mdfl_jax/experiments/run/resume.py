"""Runs a study into a workdir, which may already hold a finished or unfinished run of it."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mdfl_jax.experiments.ahead import memory
from mdfl_jax.experiments.processes.hosts import Lead
from mdfl_jax.experiments.results import workdir as workdirs
from mdfl_jax.experiments.run.callback import OnEvaluation
from mdfl_jax.experiments.run.into_workdir import run_study
from mdfl_jax.experiments.run.study import Study


def to_stderr(line: str) -> None:
    """Prints a line for the user on stderr."""
    print(line, file=sys.stderr, flush=True)


def run_or_resume(
    study: Study,
    workdir: Path,
    overwrite: bool = False,
    log: Callable[[str], None] = to_stderr,
    lead: Lead | None = None,
    begins: Callable[[Study, bool], None] = lambda study, resume: None,
    progress: bool = True,
    on_evaluation: OnEvaluation | None = None,
) -> tuple[dict[str, Any], bool]:
    """Runs a study, continues it if it is unfinished, or reads its summary if it is finished.

    Args:
      study: The study, from `make_study`.
      workdir: The directory for its results.
      overwrite: Whether to replace the content of the workdir, whatever it is.
      log: A function that takes lines for the user.
      lead: As in `run_study`.
      begins: A function of (study, whether it continues), called before anything is compiled. Batches that would not
        fit the memory are made smaller afterwards, with a line for the user.
      progress, on_evaluation: As in `run_study`.

    Returns:
      (the summary, whether the study was finished before).

    Raises:
      UserError: If the workdir holds something else, or cannot be written.
    """
    if not overwrite and workdirs.is_finished(workdir, study.config):
        if lead:
            lead.close()
        return json.loads((workdir / "summary.json").read_text()), True
    resume = workdirs.check(workdir, study.config, overwrite)
    if resume:
        sizes = workdirs.batch_sizes(workdir)
        study = study._replace(groups=[g._replace(runs_per_batch=n) for g, n in zip(study.groups, sizes)])
    begins(study, resume)
    if not resume:
        study = memory.fit(study, log)
    return run_study(study, workdir, resume, log, lead, progress, on_evaluation), False
