"""Runs a study into a workdir, which may already hold a finished or unfinished run of it, or less of the same study."""

import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mdfl_jax.config.field import flat
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.outcomes import seeds_of
from mdfl_jax.results.records import read
from mdfl_jax.results.write import rewrite
from mdfl_jax.storage.checksums import CHECKSUMS, check_texts, known_checksums
from mdfl_jax.storage.disk import PART, plain
from mdfl_jax.storage.provenance import started
from mdfl_jax.storage.study_files import CHECKPOINTS, HALVED, PUBLISHING, read_json
from mdfl_jax.study import workdir as workdirs
from mdfl_jax.study.ahead import memory
from mdfl_jax.study.callback import OnEvaluation
from mdfl_jax.study.extend import extend as extend_study
from mdfl_jax.study.extend import put_together
from mdfl_jax.study.halving import adopt
from mdfl_jax.study.identity import DIGESTS, in_words, typed
from mdfl_jax.study.into_workdir import run_study
from mdfl_jax.study.manifest import wanted
from mdfl_jax.study.study import Run, Study, make_study
from mdfl_jax.study.whole import Source, publish
from mdfl_jax.study.workdir import Held

LEFT = (CHECKPOINTS, HALVED + PART)  # in the folder of a finished study if a command was killed while it removed them


def to_stderr(line: str) -> None:
    """Print a line for the user on stderr."""
    print(line, file=sys.stderr, flush=True)


def _nothing(study: Study, resume: bool) -> None:
    """Do nothing when a study begins."""


def check(study: Study, workdir: Path, overwrite: bool, extend: bool) -> None:
    """Check what a workdir holds before it is reserved, so that nothing is written to one that is refused.

    Raises:
      UserError: As `run_or_resume`.
    """
    if not (workdir / PUBLISHING).exists():  # the files there are those of a study
        workdirs.look(workdir, wanted(study), overwrite, extend)


def run_or_resume(
    study: Study,
    workdir: Path,
    overwrite: bool = False,
    log: Callable[[str], None] = to_stderr,
    begins: Callable[[Study, bool], None] = _nothing,
    progress: bool = True,
    on_evaluation: OnEvaluation | None = None,
    extend: bool = False,
    more_follows: bool = False,
    loggers_in: Path | None = None,
) -> tuple[dict[str, Any], bool]:
    """Run a study, continue it if it is unfinished, extend it, or reads its summary if it is finished.

    Args:
      study: The study, from `make_study`.
      workdir: The directory for its results.
      overwrite: Whether to replace the content of the workdir, whatever it is.
      log: A function that takes lines for the user.
      begins: A function of (study, whether it continues), called before anything is compiled. Batches that would not
        fit the memory are made smaller afterwards, with a line for the user.
      progress, on_evaluation, more_follows, loggers_in: As in `run_study`.
      extend: Whether a study in the workdir that has only some of the wanted runs or rounds is extended to this one.

    Returns:
      (the summary, whether the study was finished before).

    Raises:
      UserError: If the workdir holds something else, or cannot be written.
    """
    if not overwrite:
        publish(workdir)  # a command was killed while its files took the place of the earlier ones
        adopt(workdir)
    content = wanted(study)
    held = workdirs.look(workdir, content, overwrite, extend)
    _remove_left(workdir, held)

    def run_part(part: Study, folder: Path, more_follows: bool) -> None:
        run_or_resume(part, folder, False, log, _nothing, progress, on_evaluation, False, more_follows, workdir)

    if held.grows:
        if not held.is_finished:
            log(f"{workdir} holds an unfinished study; it is finished first, and then extended")
            run_part(_study_there(held), workdir, True)
            held = workdirs.look(workdir, content, overwrite, extend)
        assert held.compared is not None
        if held.compared.others:
            log(f"{workdir}: {in_words(held.compared.others)}; the results are written with what is here")
        begins(study, False)
        return extend_study(memory.fit(study, log), workdir, held.compared, log, run_part), False
    if held.is_finished:
        return _as_wanted(study, content, workdir, held, log), True
    if held.goes_on:
        _check_order(content, workdir, held)
        sizes = workdirs.batch_sizes(workdir)
        study = study._replace(groups=[g._replace(runs_per_batch=n) for g, n in zip(study.groups, sizes)])
    begins(study, held.goes_on)
    if not held.goes_on:
        study = memory.fit(study, log)
    return run_study(study, workdir, held.goes_on, log, progress, on_evaluation, more_follows, loggers_in), False


def _remove_left(workdir: Path, held: Held) -> None:
    for name in LEFT if held.is_finished else ():
        shutil.rmtree(workdir / name, ignore_errors=True)


def _is_in_order(content: Mapping[str, Any], held: Held) -> bool:
    """Tell whether the sweep points have the same names and the same order in a workdir as in the wanted study."""
    there = (held.manifest or {}).get("points") or []
    return [point["id"] for point in there] == [point["id"] for point in content["points"]]


def _check_order(content: Mapping[str, Any], workdir: Path, held: Held) -> None:
    """Refuse to continue an unfinished study whose sweep points have other names or another order."""
    if held.compared is not None and not _is_in_order(content, held):
        raise UserError(
            f"--workdir={workdir}: the study there is not finished, and {in_words(held.compared.grown)}; finish it as "
            "it is there, choose another, or add --overwrite"
        )


def _as_wanted(
    study: Study, content: Mapping[str, Any], workdir: Path, held: Held, log: Callable[[str], None]
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


def _study_there(held: Held) -> Study:
    """Make the study of which a workdir holds an unfinished run, from its config.json."""
    from mdfl_jax.config.config_files import as_config

    assert held.manifest is not None
    fields = flat({name: value for name, value in held.manifest["config"].items() if name not in DIGESTS})
    study = make_study(as_config({path: typed(path, value) for path, value in fields.items()}))
    if "whole" not in held.manifest:
        return study
    index = {point.id: p for p, point in enumerate(study.points)}
    entries = enumerate(held.manifest["points"])
    return study.part([Run(index[point["id"]], seed) for p, point in entries for seed in seeds_of(held.manifest, p)])
