"""Puts the results of several workdirs together as one study, for `launch.merge` and for ``--extend``."""

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from mdfl_jax.core.outcomes import seeds_of
from mdfl_jax.results.records import Record, Stored, in_order
from mdfl_jax.results.write import write_results
from mdfl_jax.storage import disk, model_files
from mdfl_jax.storage.disk import dumps
from mdfl_jax.storage.study_files import EXTENSION, MODELS, PUBLISHING, RESULT, STATES, STREETS
from mdfl_jax.study.identity import point_digests, state_names


class Source(NamedTuple):
    """A workdir and what it holds."""

    workdir: Path
    stored: Stored


def records_by_run(stored: Stored, with_numbers: bool = True) -> Iterator[tuple[tuple[str, int], Record]]:
    """Yield (what tells the run from all others, its record) for each run of a study."""
    for name, records in zip(point_digests(stored.manifest, with_numbers), stored.records):
        yield from (((name, record.seed), record) for record in records)


def restricted(manifest: Mapping[str, Any], runs: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """Return the content of config.json for a part of a study.

    Args:
      manifest: That of the whole study.
      runs: (index of the point, seed) of each run of the part.

    Returns:
      The same, if these are all runs. Otherwise ``points`` and ``seeds`` are those of the part: a point with other
      seeds than the others has its own entry ``seeds``, and the entry ``whole`` has the points and the seeds of the
      whole study.
    """
    points, seeds, wanted = manifest["points"], manifest["seeds"], set(runs)
    if len(wanted) == len(points) * len(seeds):
        return dict(manifest)
    own = {p: [seed for seed in seeds if (p, seed) in wanted] for p in range(len(points))}
    shared = [seed for seed in seeds if any(seed in of_point for of_point in own.values())]
    there = [points[p] | ({"seeds": of} if of != shared else {}) for p, of in own.items() if of]
    whole = {"points": [{key: point[key] for key in ("id", "overrides")} for point in points], "seeds": seeds}
    return {**manifest, "points": there, "seeds": shared, "whole": whole}


def gathered(
    manifest: dict[str, Any],
    records: Mapping[tuple[str, int], Record],
    sources: Sequence[Source],
    with_numbers: bool = True,
) -> Stored:
    """Gather the records of a whole study.

    Args:
      manifest: The content of its config.json. It says which points and seeds the study has.
      records: The records, by the run as in `records_by_run`.
      sources: The workdirs from which they are.
      with_numbers: As in `point_digests`.
    """
    names = point_digests(manifest, with_numbers)
    of_points = [[records[name, seed] for seed in seeds_of(manifest, p)] for p, name in enumerate(names)]
    known = [metric for source in sources for metric in source.stored.own]
    meanings = dict.fromkeys(source.stored.accuracy_is for source in sources if source.stored.accuracy_is)
    return Stored(manifest, of_points, in_order(known, of_points), "; ".join(meanings))


def replace_study(workdir: Path, stored: Stored, sources: Sequence[Source], extended: bool = False) -> dict[str, Any]:
    """Write a study in place of the one that a workdir holds.

    Args:
      workdir: The workdir.
      stored: The study.
      sources: As in `write_whole`.
      extended: Whether the extension in the workdir has led to this study. It is removed then; otherwise an unfinished
        extension stays.

    Returns:
      The content of summary.json.
    """
    folder = workdir / (EXTENSION if extended else PUBLISHING)
    summary = write_whole(folder / RESULT, stored, sources)
    if extended:
        folder.replace(workdir / PUBLISHING)  # from here on, the extension is done
    publish(workdir)
    return summary


def write_whole(folder: Path, stored: Stored, sources: Sequence[Source]) -> dict[str, Any]:
    """Write the files of a study with the models and the last states of its parts.

    Args:
      folder: The folder. It appears when it is complete, in place of an earlier one. It has empty folders of models
        and of last states if there are none.
      stored: The whole study.
      sources: The workdirs of its parts. If two have a file of the same run, the one of the later workdir is taken.

    Returns:
      The content of summary.json.
    """
    making = folder.with_name(folder.name + ".tmp")
    shutil.rmtree(making, ignore_errors=True)
    for name in (MODELS, STATES):
        disk.attempt(making / name, partial((making / name).mkdir, parents=True, exist_ok=True))
    for source in sources:
        _take_models(making, stored.manifest, source)
        _take_states(making, stored.manifest, source)
        if (source.workdir / STREETS).is_file():
            disk.write(making / STREETS, partial(shutil.copy, source.workdir / STREETS))
    wanted = sum(len(of_point) for of_point in stored.records)
    if len(list((making / STATES).glob("*.npz"))) < wanted:  # rounds can be added to all runs or to none
        shutil.rmtree(making / STATES)
        (making / STATES).mkdir()
    summary = write_results(making, stored)
    shutil.rmtree(folder, ignore_errors=True)
    making.replace(folder)
    return summary


def publish(workdir: Path) -> None:
    """Move the files of `publishing/result` to the workdir, in place of earlier ones, and remove `publishing`.

    An empty folder there removes the earlier one. The report of the earlier files is removed. If this is interrupted,
    the next call goes on. Without such a folder nothing is done.

    Raises:
      DiskError: If the files cannot be moved.
    """
    if (workdir / PUBLISHING).exists():
        disk.attempt(workdir / PUBLISHING, partial(_publish, workdir))


def _publish(workdir: Path) -> None:
    publishing = workdir / PUBLISHING
    if (publishing / RESULT).is_dir():
        (workdir / "report.html").unlink(missing_ok=True)
    for new in sorted((publishing / RESULT).glob("*")):
        old = workdir / new.name
        if old.is_dir():
            shutil.rmtree(publishing / "old", ignore_errors=True)
            old.replace(publishing / "old")
        if new.is_dir() and not any(new.iterdir()):
            new.rmdir()
        else:
            new.replace(old)
    shutil.rmtree(publishing, ignore_errors=True)


def _places(manifest: Mapping[str, Any]) -> dict[str, tuple[int, set[int]]]:
    """Return the index and the seeds of each sweep point, by what tells it from all others."""
    names = point_digests(manifest)
    return {name: (p, set(seeds_of(manifest, p))) for p, name in enumerate(names)}


def _take_models(folder: Path, manifest: Mapping[str, Any], source: Source) -> None:
    """Copy the kept models of the runs of a study, with the name and the place that their points have there."""
    places = _places(manifest)
    study = hashlib.sha256(dumps(manifest["config"]).encode()).hexdigest()[:16]
    for name, (there, _) in _places(source.stored.manifest).items():
        if name not in places:
            continue
        p, seeds = places[name]
        for path in sorted((source.workdir / MODELS / str(there)).glob("*.safetensors")):
            header, _ = model_files.read_header(path)
            if header.seed in seeds:
                point = manifest["points"][p]["id"]
                of_study = header._replace(study=study, name=manifest["name"], point=point, point_index=p)
                model_files.write(folder / MODELS / str(p) / path.name, of_study, model_files.read(path))


def _take_states(folder: Path, manifest: Mapping[str, Any], source: Source) -> None:
    """Take over the last states of the runs of a study, as links where the file system has them.

    The states of a study of fewer rounds are not the last ones.
    """
    if source.stored.manifest["config"].get("rounds") != manifest["config"].get("rounds"):
        return
    places, here, there = _places(manifest), state_names(manifest), state_names(source.stored.manifest)
    for name, (q, _) in _places(source.stored.manifest).items():
        p, seeds = places.get(name, (0, set[int]()))
        for seed in seeds:
            path = source.workdir / STATES / f"{there[q]}-{seed}.npz"
            if path.is_file():
                new = folder / STATES / f"{here[p]}-{seed}.npz"
                new.unlink(missing_ok=True)
                try:
                    os.link(path, new)
                except OSError:
                    disk.write(new, partial(shutil.copy2, path))
