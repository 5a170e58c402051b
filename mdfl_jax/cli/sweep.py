"""Runs a study: every point of a config's sweep under every seed. Then it makes the tables, figures and report.

mdfl sweep digits [--workdir=DIR] [--config.network.radius=2.0] [--overwrite]

In place of digits there may be the name of another shipped study or the path of a config file, as in ./my_study.py.

--workers=4 shares the runs among four processes of this machine, with --on=slurm or --on=ray among machines of a
cluster. The same command may also be started several times on one folder, on any machines that share it. With --hosts
the devices of several machines share each run.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from absl import flags

from mdfl_jax.cli import common
from mdfl_jax.cli.commands import DRY_RUNS
from mdfl_jax.core import program_cache
from mdfl_jax.core.errors import check_path

if TYPE_CHECKING:
    from ml_collections import ConfigDict

    from mdfl_jax.core.devices import Wanted
    from mdfl_jax.study.study import Study

WORDS, DOES = ("config",), ""
common.study_flags()
_WORKDIR = flags.DEFINE_string("workdir", "", "Where results go; runs/<name of the study> where left out.")
_OVERWRITE = flags.DEFINE_bool("overwrite", False, "Replace the study that the workdir holds.")
_WORKERS = flags.DEFINE_integer("workers", 1, "Processes that share the runs.", lower_bound=1, upper_bound=1000)
_ON = flags.DEFINE_string("on", "here", "Where the workers run: here, slurm or ray.")
_HOSTS = flags.DEFINE_string(
    "hosts", "", "Hosts whose devices share each run: I/K@HOST:PORT on the I-th of K hosts; auto: as the cluster says."
)
_CLUSTER = flags.DEFINE_string("cluster", "", "Settings of the cluster, such as partition=gpu,time=120,cpus=4,gpus=1.")
_CACHE = flags.DEFINE_string("cache", program_cache.default_folder(), "Folder of compiled programs; '' keeps none.")
_DRY_RUN = flags.DEFINE_bool("dry_run", False, "Compile, say what the study takes, and write nothing.")
_TARGET = flags.DEFINE_string(
    "target", "", "With --dry_run: the device to compile for, such as tpu-v5e:2x2 or h100; it need not be there."
)
_EFFORT = flags.DEFINE_enum(
    "effort",
    "quick",
    ["least", "quick", "full"],
    "With --target: how hard a TPU's compiler tries; on other devices, and of studies, always in full.",
)
_QUICK = flags.DEFINE_bool(
    "quick", False, "First look: one seed, 20 rounds, a linear model, few samples; swept values stay."
)
_REPORT = flags.DEFINE_bool("report", True, "Make tables, figures and report.html at the end.")


def main() -> int:
    """Check, plans, run and reports a study, or only plans it with --dry_run.

    Returns exit status 130 if the user stopped the study. With --dry_run, status 1 means that a program does not
    compile or does not fit.
    """
    from mdfl_jax.core import hosts
    from mdfl_jax.study import Interrupted, make_study
    from mdfl_jax.study.runner import about, follow
    from mdfl_jax.study.workers import as_worker

    config = common.config_of_flags(_QUICK.value)
    _check_not_swept(config)
    _check_together()
    wanted, worker = _wanted(), as_worker()
    has_crew = worker is None and (_WORKERS.value > 1 or _ON.present > 0)
    common.setup_jax(_CACHE.value, only_cpu=wanted is not None or has_crew)
    hosts.start_hosts(_HOSTS.value)
    if _DRY_RUN.value:
        return DRY_RUNS[wanted.kind if wanted else "here"](wanted, config, _EFFORT.value)
    study = hosts.agree(lambda: make_study(config), about)
    if not hosts.is_first():
        with hosts.together():
            follow(study)
        return 0
    if worker is not None:
        return _work(study, worker)
    try:
        with hosts.together():
            return _run(study, has_crew)
    except Interrupted:
        goes_on = f"the same command, without --overwrite, goes on where {_workdir(study)} was left"
        print(f"stopped; {goes_on}", file=sys.stderr)
        return 130


def _check_together() -> None:
    """Refuse flags that do not go with several workers, and a place that is not there."""
    from mdfl_jax.core.errors import UserError
    from mdfl_jax.study.workers import CREWS

    if _ON.present:
        CREWS.member(_ON.value)
    if _HOSTS.value:
        for flag in (_WORKERS, _ON, _DRY_RUN):
            if flag.value != flag.default:
                raise UserError(f"--hosts={_HOSTS.value} is given with --{flag.name}: hosts compute one study together")
    asked = f"--on={_ON.value}" if _ON.present else f"--workers={_WORKERS.value}" if _WORKERS.value > 1 else ""
    if _CLUSTER.value and _ON.value == _ON.default:
        raise UserError(f"--cluster={_CLUSTER.value} is for --on=slurm and --on=ray")
    for flag in (_TARGET, _DRY_RUN):
        if asked and flag.value:
            raise UserError(f"{asked} is given with --{flag.name}: it runs nothing")


def _check_not_swept(config: "ConfigDict") -> None:
    """Refuse a value for a field that the sweep varies, which would have no effect."""
    from mdfl_jax.config.points import parse_axes
    from mdfl_jax.core.errors import UserError

    sweep = config.get("sweep", "")
    swept = {path for paths in parse_axes(sweep) for path in paths}
    for path in common.fields_given():
        if path in swept:
            raise UserError(
                f"--config.{path} is given, and the sweep varies this field; change the sweep, which is "
                f"--config.sweep={sweep!r}"
            )


def _wanted() -> "Wanted | None":
    """Return the target of --dry_run, or None if none is named."""
    from mdfl_jax.core import devices
    from mdfl_jax.core.errors import UserError

    if not _TARGET.value:
        if _EFFORT.present:
            raise UserError(f"--effort={_EFFORT.value} is for --dry_run --target; studies are compiled in full")
        return None
    if not _DRY_RUN.value:
        raise UserError(f"--target={_TARGET.value} is for --dry_run; a study runs on the devices that are there")
    return devices.parse(_TARGET.value)


def _workdir(study: "Study") -> Path:
    """Return the folder for the results."""
    folder = Path(_WORKDIR.value or Path("runs") / study.experiment.name)
    check_path("--workdir", folder)
    return folder


def _work(study: "Study", many: int) -> int:
    """Compute runs as one of several workers, which print nothing but errors. Return the exit status."""
    from mdfl_jax.study import Interrupted, RunOptions, run_or_resume
    from mdfl_jax.study.run import ignore

    options = RunOptions(progress=False, log=ignore, workers=many, is_worker=True)
    try:
        run_or_resume(study, _workdir(study), options)
    except Interrupted:
        return 130
    return 0


def _run(study: "Study", has_crew: bool) -> int:
    """Run the study, continue it, or read what is finished, and print its results. Return the exit status."""
    from mdfl_jax.report import tables
    from mdfl_jax.study.plan import plan
    from mdfl_jax.study.run import RunOptions, run_or_resume
    from mdfl_jax.study.workers import CREWS

    workdir = _workdir(study)
    crew = CREWS[_ON.value](_WORKERS.value, _CLUSTER.value, workdir) if has_crew else None

    def begins(study: "Study", resume: bool) -> None:
        given = common.fields_of_user(common.flag_value("config"))
        print(plan(study, crew.words if crew else "", given), flush=True)
        if resume:
            print(f"going on with the unfinished study in {workdir} (--overwrite starts anew)", flush=True)

    results, was_finished = run_or_resume(study, workdir, RunOptions(_OVERWRITE.value, begins=begins, crew=crew))
    assert results is not None  # this process is no worker
    if was_finished:
        print(f"{workdir} holds this study, finished; --overwrite runs it again")
    print(tables.text(results))
    for p, outcome in enumerate(results.outcomes):
        if outcome["diverged"] and not was_finished:
            print(f"warning: {tables.divergence_warning(results, p)}", file=sys.stderr)
    if _REPORT.value:
        common.make_report(results)
    return 0
