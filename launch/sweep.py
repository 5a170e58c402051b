"""Runs a study: every point of a config's sweep under every seed, then the tables, figures and report.

python -m launch.sweep --config=configs/digits.py [--workdir=DIR] [--config.network.radius=2.0] [--overwrite]
"""

import json
import sys
from pathlib import Path

from absl import flags

from launch import common

_CONFIG = common.config_flag()
flags.declare_key_flag("config")  # so that --help lists it
_WORKDIR = flags.DEFINE_string("workdir", "", "Where results go; runs/<name of the study> where left out.")
_OVERWRITE = flags.DEFINE_bool("overwrite", False, "Replace whatever the workdir holds of an earlier study.")
_CACHE = flags.DEFINE_string("cache", common.default_cache(), "Folder of compiled programs; '' keeps none.")
_DRY_RUN = flags.DEFINE_bool("dry_run", False, "Compile, say what the study takes, and write nothing.")
_REPORT = flags.DEFINE_bool("report", True, "Make tables, figures and report.html at the end.")


def main() -> int:
    """Checks, plans, runs, reports. Exit status 130 where the user stopped it."""
    from mdfl_jax.errors import UserError
    from mdfl_jax.experiments import Interrupted, make_study, memory, plan, run_study
    from mdfl_jax.experiments import workdir as workdirs
    from mdfl_jax.report import tables

    if _CONFIG.value is None:
        raise UserError("--config=FILE is missing, for example --config=configs/digits.py")
    common.setup_jax(_CACHE.value)
    study = make_study(_CONFIG.value)
    log = lambda line: print(line, file=sys.stderr, flush=True)  # noqa: E731
    if _DRY_RUN.value:
        print(plan(study))
        print(memory.describe(study))
        return 0
    workdir = Path(_WORKDIR.value or Path("runs") / study.experiment.name)
    if not _OVERWRITE.value and workdirs.is_finished(workdir, study.config):
        print(f"{workdir} holds this study, finished; --overwrite runs it again")
        print(tables.text(json.loads((workdir / "summary.json").read_text()), study.config))
        return _report(workdir)
    resume = workdirs.check(workdir, study.config, _OVERWRITE.value)
    if resume:
        sizes = workdirs.batch_sizes(workdir)
        study = study._replace(groups=[g._replace(runs_per_batch=n) for g, n in zip(study.groups, sizes)])
    else:
        study = memory.fit(study, log)
    print(plan(study), flush=True)
    if resume:
        print(f"going on with the unfinished run in {workdir} (--overwrite starts anew)", flush=True)
    try:
        summary = run_study(study, workdir, resume, log)
    except Interrupted:
        print(f"stopped; the same command, without --overwrite, goes on where {workdir} was left", file=sys.stderr)
        return 130
    print(tables.text(summary, study.config))
    for point in summary["points"]:
        for seed, round_index in point["diverged"].items():
            print(f"warning: {point['id']}, seed {seed}: diverged by round {round_index}", file=sys.stderr)
    return _report(workdir)


def _report(workdir: Path) -> int:
    if _REPORT.value:
        from mdfl_jax.report.page import write_report

        print(f"report: {write_report(workdir)}")
    return 0


if __name__ == "__main__":
    common.run(main)
