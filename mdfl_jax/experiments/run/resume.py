"""A study run into a folder that may hold it already: finished, unfinished or not at all."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mdfl_jax.experiments.ahead import memory
from mdfl_jax.experiments.processes.hosts import Lead
from mdfl_jax.experiments.results import workdir as workdirs
from mdfl_jax.experiments.run.loop import run_study
from mdfl_jax.experiments.run.study import Study


def to_stderr(line: str) -> None:
    """A line for the user."""
    print(line, file=sys.stderr, flush=True)


def run_or_resume(
    study: Study,
    workdir: Path,
    overwrite: bool = False,
    log: Callable[[str], None] = to_stderr,
    lead: Lead | None = None,
    begins: Callable[[Study, bool], None] = lambda study, resume: None,
) -> tuple[dict[str, Any], bool]:
    """Runs a study, goes on with it where it is unfinished, or reads it where it is finished.

    Args:
      study: from `make_study`.
      workdir: where its results go.
      overwrite: replace whatever the workdir holds.
      log: takes lines for the user.
      lead: as `run_study`.
      begins: (study, whether it goes on) is called before the first run; the study may have smaller batches than the
        given one, as memory allows.

    Returns:
      (the summary, whether it was finished before).

    Raises:
      UserError: where the workdir holds something else, or cannot be written.
    """
    if not overwrite and workdirs.is_finished(workdir, study.config):
        if lead:
            lead.close()
        return json.loads((workdir / "summary.json").read_text()), True
    resume = workdirs.check(workdir, study.config, overwrite)
    if resume:
        sizes = workdirs.batch_sizes(workdir)
        study = study._replace(groups=[g._replace(runs_per_batch=n) for g, n in zip(study.groups, sizes)])
    else:
        study = memory.fit(study, log)
    begins(study, resume)
    return run_study(study, workdir, resume, log, lead), False
