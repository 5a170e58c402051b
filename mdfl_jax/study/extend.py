"""Extends the study in a workdir by further runs and rounds, without running again what is there.

The missing runs, and the further rounds of those that are there, are run as parts of the wanted study in folders of
their own, in `extension` of the workdir. Until they have ended, the files of the workdir stay as they are. Then the
whole is written to `extension/result`, the folder gets the name `publishing`, and the files take the place of the
earlier ones; until they all have, the workdir is not read. A kill at any instant loses nothing: the same command goes
on. An extension to another study is refused meanwhile.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mdfl_jax.core.errors import UserError
from mdfl_jax.results.records import Record, joined, read
from mdfl_jax.storage import disk
from mdfl_jax.storage.disk import plain, write_json
from mdfl_jax.storage.provenance import merged_provenance, started
from mdfl_jax.storage.study_files import EXTENSION, FURTHER_ROUNDS, FURTHER_RUNS
from mdfl_jax.study import more_rounds
from mdfl_jax.study.identity import Comparison, compare
from mdfl_jax.study.manifest import manifest_of, places, wanted
from mdfl_jax.study.study import Run, Study
from mdfl_jax.study.whole import Source, gathered, records_by_run, replace_study

RunPart = Callable[[Study, Path, bool], Any]
_PLAN = "plan.json"  # in the folder of the extension: the wanted study


def extend(
    study: Study, workdir: Path, compared: Comparison, log: Callable[[str], None], run_part: RunPart
) -> dict[str, Any]:
    """Extend a finished study to a wanted one.

    Args:
      study: The wanted study, with batches that fit the memory.
      workdir: The folder of the finished study.
      compared: How the wanted study differs from it.
      log: A function that takes lines for the user.
      run_part: A function that runs a part of the study into a folder, or continues it there. Its third argument tells
        whether another part follows.

    Returns:
      The content of summary.json.

    Raises:
      UserError: If rounds are to be added and cannot be, if an extension to another study is unfinished, or if a file
        cannot be read.
      Interrupted: As ``run_part``. What was done is saved.
    """
    in_study = list(places(study))
    missing = {Run(in_study[p], seed) for p, seed in compared.missing}
    there = [run for run in study.to_do() if run not in missing]
    folder, sources = workdir / EXTENSION, [Source(workdir, read(workdir))]
    before, after = compared.rounds
    if after > before:
        _begin(study, workdir, lambda: more_rounds.prepare(study.part(there), workdir, folder / FURTHER_ROUNDS, before))
        log(f"{_count(there)} in {workdir} {'go' if len(there) > 1 else 'goes'} on from round {before} to {after}")
        run_part(study.part(there), folder / FURTHER_ROUNDS, bool(missing))
        sources.append(Source(folder / FURTHER_ROUNDS, read(folder / FURTHER_ROUNDS)))
    else:
        _begin(study, workdir, lambda: None)
    if missing:
        log(f"{_count(missing)} {'are' if len(missing) > 1 else 'is'} added to the {len(there)} in {workdir}")
        run_part(study.part(missing), folder / FURTHER_RUNS, False)
        sources.append(Source(folder / FURTHER_RUNS, read(folder / FURTHER_RUNS)))
    return put_together(study, workdir, sources, extended=True)


def put_together(study: Study, workdir: Path, sources: list[Source], extended: bool = False) -> dict[str, Any]:
    """Write a whole study from workdirs with its runs, in place of what a workdir holds, and returns the summary.

    Args:
      study: The whole study.
      workdir: The folder.
      sources: The workdirs. The records of a run that is in several of them are joined in their order.
      extended: As in `replace_study`.
    """
    there = [source.stored.manifest for source in sources]
    if len(sources) > 1:
        how_made = merged_provenance(there)
    else:  # nothing was run
        entries = ("commit", "versions", "devices", "parts")
        how_made = {"command": started()} | {name: there[0][name] for name in entries if name in there[0]}
    manifest = plain(manifest_of(study, how_made))
    records: dict[tuple[str, int], Record] = {}
    for source in sources:
        for run, record in records_by_run(source.stored):
            records[run] = joined(records[run], record) if run in records else record
    return replace_study(workdir, gathered(manifest, records, sources), sources, extended)


def _count(runs: Any) -> str:
    return f"{len(runs)} run{'s' if len(runs) > 1 else ''}"


def _begin(study: Study, workdir: Path, prepare: Callable[[], None]) -> None:
    """Begin an extension, or check that the one under way has the same runs and rounds.

    Args:
      study: The wanted study.
      workdir: The folder of the study that is extended.
      prepare: A function that makes the parts of the extension that begin with saved states. If it raises an error,
        since the study cannot be extended, nothing stays written.

    Raises:
      UserError: As ``prepare``, or if an extension to another study is under way.
    """
    folder, content = workdir / EXTENSION, plain(wanted(study))
    if not (folder / _PLAN).exists():
        shutil.rmtree(folder, ignore_errors=True)  # nothing is run without a plan
        disk.attempt(folder, folder.mkdir)
        try:
            prepare()
        except UserError:
            shutil.rmtree(folder)
            raise
        write_json(folder / _PLAN, content)
        return
    try:
        compared = compare(json.loads((folder / _PLAN).read_text()), content)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{folder / _PLAN}: it cannot be read; remove {folder} to begin the extension anew") from error
    if not compared.is_same:
        raise UserError(
            f"{folder} holds an unfinished extension to another study: {compared}; finish it with its own command, or "
            f"remove {folder} to drop it"
        )
