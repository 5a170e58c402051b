"""Runs a study: every point of a config's sweep under every seed. Then it makes the tables, figures and report.

mdfl sweep digits [--workdir=DIR] [--config.network.radius=2.0] [--overwrite]
python -m launch.sweep --config=configs/digits.py ...

In place of digits there may be the name of another shipped study or the path of a config file, as in ./my_study.py.

To use several machines, start the same command on each of them, with --shard=1/3, 2/3 and 3/3 added, or with
--shard=auto in a cluster. launch.merge then puts the parts together.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from absl import flags

from mdfl_jax.cli import ahead, common
from mdfl_jax.core.errors import check_path

if TYPE_CHECKING:
    from ml_collections import ConfigDict

    from mdfl_jax.core.devices import Wanted
    from mdfl_jax.study.shards import Shard
    from mdfl_jax.study.study import Study

WORDS, DOES = ("config",), ""
common.study_flags()
flags.adopt_module_key_flags(ahead)  # --help then lists them
_WORKDIR = flags.DEFINE_string("workdir", "", "Where results go; runs/<name of the study> where left out.")
_OVERWRITE = flags.DEFINE_bool("overwrite", False, "Replace the study that the workdir holds.")
_SHARD = flags.DEFINE_string(
    "shard", None, "K/N, such as 3/16: run only this part of the study, for launch.merge; auto: as the cluster says."
)
_CACHE = flags.DEFINE_string("cache", common.default_cache(), "Folder of compiled programs; '' keeps none.")
_DRY_RUN = flags.DEFINE_bool("dry_run", False, "Compile, say what the study takes, and write nothing.")
_REPORT = flags.DEFINE_bool("report", True, "Make tables, figures and report.html at the end.")


def main() -> int:
    """Check, plans, run and reports a study, or only plans it with --dry_run.

    Returns exit status 130 if the user stopped the study. With --target, status 1 means that a program does not compile
    or does not fit.
    """
    from mdfl_jax.core.errors import UserError
    from mdfl_jax.study import Interrupted, make_study
    from mdfl_jax.study.ahead import memory
    from mdfl_jax.study.plan import plan
    from mdfl_jax.study.shards import parse, part_of
    from mdfl_jax.study.signals import apart

    config = common.read_config()
    _check_not_swept(config)
    wanted, shard = _wanted(), None if _SHARD.value is None else parse(_SHARD.value)
    # A child uses no cache: a program that was compiled for an absent device can be stored, but not loaded again.
    common.setup_jax("" if ahead.is_child() else _CACHE.value, only_cpu=wanted is not None)
    if wanted and shard:
        raise UserError(f"--shard={shard} is given; --target={ahead.TARGET.value} is for a whole study, not for one")
    if wanted and wanted.kind != "cpu":
        return ahead.child(wanted, config) if ahead.is_child() else ahead.main(wanted)
    study = make_study(config)
    if shard:
        study = part_of(study, shard)
        if not study.to_do():
            num_runs = len(study.all_runs)
            print(f"shard {shard}: nothing is left to do, since the study has {num_runs} run{'s' * (num_runs > 1)}")
            return 0
    if _DRY_RUN.value:
        print(plan(study))
        print(apart(lambda: memory.describe(study)))
        return 0
    try:
        return _run(study, shard)
    except Interrupted:
        workdir = _workdir(study, shard)
        print(f"stopped; the same command, without --overwrite, goes on where {workdir} was left", file=sys.stderr)
        return 130


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

    if not ahead.TARGET.value:
        if ahead.EFFORT.present:
            raise UserError(f"--effort={ahead.EFFORT.value} is for --dry_run --target; studies are compiled in full")
        return None
    if not _DRY_RUN.value:
        raise UserError(f"--target={ahead.TARGET.value} is for --dry_run; a study runs on the devices that are there")
    return devices.parse(ahead.TARGET.value)


def _workdir(study: "Study", shard: "Shard | None" = None) -> Path:
    """Return the folder for the results. That of a shard is inside of that of the study."""
    folder = Path(_WORKDIR.value or Path("runs") / study.experiment.name)
    check_path("--workdir", folder)
    return folder / shard.folder if shard else folder


def _run(study: "Study", shard: "Shard | None") -> int:
    """Run the study, continue it, or read what is finished, and print its results. Return the exit status."""
    from mdfl_jax.report import tables
    from mdfl_jax.study.manifest import manifest_of
    from mdfl_jax.study.plan import plan
    from mdfl_jax.study.run import RunOptions, run_or_resume

    workdir = _workdir(study, shard)

    def begins(study: "Study", resume: bool) -> None:
        print(plan(study), flush=True)
        if resume:
            print(f"going on with the unfinished run in {workdir} (--overwrite starts anew)", flush=True)

    summary, was_finished = run_or_resume(study, workdir, RunOptions(_OVERWRITE.value, begins=begins))
    if was_finished:
        print(f"{workdir} holds this study, finished; --overwrite runs it again")
    print(tables.text(summary, study.config))
    lost = [] if was_finished else [point for point in summary["points"] if point["diverged"]]
    there = manifest_of(study, {})["points"] if lost else []
    for point in lost:
        values = tables.values_of(point, there, study.config)
        print(f"warning: {tables.divergence_warning(point, values)}", file=sys.stderr)
    if _REPORT.value:
        common.write_report(workdir)
    if shard:
        whole, merge = workdir.parent, "mdfl merge" if sys.argv[0].startswith("mdfl ") else "python -m launch.merge"
        print(f"shard {shard} is there; with the others: {merge} {whole / shard.all_folders} --workdir={whole}")
    return 0
