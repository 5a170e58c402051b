"""Puts the results of several workdirs together: other seeds, other sweep points, other machines, or shards.

Only their files are read: no data, no files of the user and no device are needed.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mdfl_jax.config.points import name_of, text_of
from mdfl_jax.config.sections import EngineConfig, Experiment
from mdfl_jax.core.errors import UserError
from mdfl_jax.core.metric import SCHEMA
from mdfl_jax.results.records import Record, difference, read
from mdfl_jax.storage.disk import plain
from mdfl_jax.storage.provenance import merged_provenance
from mdfl_jax.storage.study_files import WRITTEN
from mdfl_jax.study.identity import (
    DIGESTS,
    Field,
    fields_of,
    in_words,
    not_in_runs,
    point_digests,
    typed,
)
from mdfl_jax.study.study import runs_per_batch
from mdfl_jax.study.whole import (
    Source,
    gathered,
    publish,
    records_by_run,
    replace_study,
    restricted,
)

Axes = dict[tuple[str, ...], list[tuple[Any, ...]]]
MOST_NAMED = 8  # the points with missing runs that one line for the user names


def merge(
    folders: Sequence[Path],
    out: Path,
    partial: bool = False,
    overwrite: bool = False,
    log: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Write the study that several workdirs hold together.

    The whole study has each combination of the values that the axes have in any part, under each seed of any part. It
    has the name, the title and so on of the first part.

    Args:
      folders: The workdirs, each with a finished study or a part of one.
      out: The workdir to write.
      partial: Whether runs may be missing.
      overwrite: Whether ``out`` may hold an earlier study, which may be one of the parts.
      log: A function that takes lines for the user.

    Returns:
      The content of summary.json.

    Raises:
      UserError: If a folder holds no finished study, if the studies are of different kinds, if two of them disagree
        about a run, if runs are missing, or if ``out`` holds something. Nothing is written then.
    """
    publish(out)
    if not overwrite and (there := [name for name in WRITTEN if (out / name).exists()]):
        raise UserError(f"--workdir={out}: it holds {there[0]} of a study; choose another, or add --overwrite")
    sources = [Source(folder, read(folder)) for folder in dict.fromkeys(folders)]
    for source in sources[1:]:
        _check_alike(sources[0], source)
    records = _records(sources)
    manifest = _whole(sources)
    wanted = [(p, seed, name) for p, name in enumerate(point_digests(manifest, False)) for seed in manifest["seeds"]]
    found = [(p, seed) for p, seed, name in wanted if (name, seed) in records]
    if missing := [(p, seed) for p, seed, name in wanted if (name, seed) not in records]:
        said = f"{len(missing)} of {len(wanted)} runs are missing: {_listed(manifest, missing)}"
        if not partial:
            raise UserError(f"{said}; add their workdirs, or --partial to write what is there")
        log(said)
    manifest = restricted(manifest, found)
    manifest["runs_per_batch"] = _batch_sizes(manifest)
    stored = gathered(manifest, records, sources, with_numbers=False)
    try:
        return replace_study(out, stored, sources)
    except OSError as error:
        raise UserError(f"--workdir={out}: {error.strerror or error}") from error


def _check_alike(first: Source, other: Source) -> None:
    """Check that two workdirs hold parts of one study: fields that no sweep varies, rounds and files are the same."""
    manifests = [source.stored.manifest for source in (first, other)]
    here, there = (fields_of(manifest["config"]) for manifest in manifests)
    free = not_in_runs().union({"seeds", "first_seed", "sweep"}, *(_swept(manifest) for manifest in manifests))
    paths = [path for path in dict.fromkeys([*here, *there]) if path not in free and here.get(path) != there.get(path)]
    folders = (f"in {other.workdir}", f"in {first.workdir}")
    words = f"{other.workdir} and {first.workdir} cannot be merged: "
    if paths:
        fields = (Field(path, there.get(path), here.get(path), *folders) for path in paths)
        raise UserError(words + in_words(fields))
    for entry in DIGESTS:
        ours, theirs = (manifest["config"].get(entry) or {} for manifest in manifests)
        for name in ours:
            if name in theirs and ours[name] != theirs[name]:
                raise UserError(words + str(Field(name, theirs[name], ours[name], *folders)))


def _swept(manifest: Mapping[str, Any]) -> set[str]:
    return {path for point in manifest["points"] for path in point["overrides"]}


def _records(sources: Sequence[Source]) -> dict[tuple[str, int], Record]:
    """Return the records of all runs, and check that workdirs with the same run agree about it to the bit."""
    records: dict[tuple[str, int], Record] = {}
    origin: dict[tuple[str, int], Path] = {}
    for source in sources:
        names = dict(zip(point_digests(source.stored.manifest, False), source.stored.manifest["points"]))
        for run, record in records_by_run(source.stored, with_numbers=False):
            if run in records and (what := difference(records[run], record)):
                raise UserError(
                    f"{source.workdir} and {origin[run]} disagree about point {names[run[0]]['id']!r}, seed {run[1]}: "
                    f"{what} is not the same"
                )
            records.setdefault(run, record)
            origin.setdefault(run, source.workdir)
    return records


def _axes(manifest: Mapping[str, Any]) -> Axes:
    """Return the axes of a part's sweep with the values that its points have, those that are missing included."""
    texts = filter(None, (text.strip() for text in str(manifest["config"].get("sweep") or "").split(";")))
    axes: Axes = {tuple(path.strip() for path in text.partition("=")[0].split("+")): [] for text in texts}
    for paths, values in axes.items():
        points = manifest.get("whole", manifest)["points"]
        values.extend(dict.fromkeys(tuple(_hashable(point["overrides"][path]) for path in paths) for point in points))
    return axes


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _common_axes(sources: Sequence[Source]) -> Axes:
    """Return the axes of the whole sweep. A part that does not vary a field has the value of its configuration."""
    parts = [_axes(source.stored.manifest) for source in sources]
    axes: Axes = {paths: [] for part in parts for paths in part}
    every = list(itertools.chain(*axes))
    if twice := [path for path in every if every.count(path) > 1]:
        raise UserError(f"{twice[0]} is tied to another field in the sweep of one part and not in that of another")
    for paths, values in axes.items():
        for source, part in zip(sources, parts):
            fields = fields_of(source.stored.manifest["config"])
            own = part.get(paths) or [tuple(_hashable(fields.get(path)) for path in paths)]
            values.extend(value for value in own if value not in values)
    return axes


def _whole(sources: Sequence[Source]) -> dict[str, Any]:
    """Return the content of config.json of the whole study."""
    manifests = [source.stored.manifest for source in sources]
    first, axes = manifests[0], _common_axes(sources)
    sweep = "; ".join(
        "+".join(paths)
        + "="
        + ",".join("+".join(text_of(typed(p, v)) for p, v in zip(paths, value)) for value in values)
        for paths, values in axes.items()
    )
    seeds = [(int(of["first_seed"]), int(of["seeds"])) for of in (fields_of(m["config"]) for m in manifests)]
    begin, end = min(start for start, _ in seeds), max(start + count for start, count in seeds)
    if all(manifest["config"].get("sweep") == first["config"].get("sweep") for manifest in manifests):
        sweep = first["config"].get("sweep") or ""
    config = {**first["config"], "sweep": sweep, "first_seed": begin, "seeds": end - begin}
    for entry in DIGESTS:
        if together := {name: value for m in manifests for name, value in (m["config"].get(entry) or {}).items()}:
            config[entry] = together
    combinations = itertools.product(*axes.values())
    overrides = [dict(zip(itertools.chain(*axes), itertools.chain(*values))) for values in combinations]
    points = [{"id": name_of({p: typed(p, v) for p, v in of.items()}), "overrides": plain(of)} for of in overrides]
    known = {
        name: point for m in manifests for name, point in zip(point_digests(m, False), m["points"])
    }  # for what the configuration alone does not tell
    whole = {"config": config, "points": points}
    for name, point in zip(point_digests(whole, False), points):
        point.update({key: known[name][key] for key in ("numbers", "program") if name in known and key in known[name]})
    return {
        "schema": SCHEMA,
        **{name: first.get(name) for name in ("name", "title")},
        "status": "running",
        **whole,
        "seeds": list(range(begin, end)),
        "pretrained": list(dict.fromkeys(line for manifest in manifests for line in manifest.get("pretrained") or ())),
        **merged_provenance(manifests),
    }


def _batch_sizes(manifest: Mapping[str, Any]) -> list[int]:
    """Return the sizes of the batches of each program, as one command for the whole study would choose them."""
    config = manifest["config"]
    engine = EngineConfig(runs_per_batch=int((config.get("engine") or {}).get("runs_per_batch") or 0))
    experiment = Experiment(seeds=int(config["seeds"]), engine=engine)
    programs = [point.get("program", "") for point in manifest["points"]]
    return [runs_per_batch(experiment, programs.count(program)) for program in dict.fromkeys(programs)]


def _listed(manifest: Mapping[str, Any], runs: Sequence[tuple[int, int]]) -> str:
    """Return the runs in words, by sweep point."""
    points: dict[str, list[int]] = {}
    for p, seed in runs:
        points.setdefault(manifest["points"][p]["id"], []).append(seed)
    words = [f"point {name!r}, seeds {', '.join(map(str, seeds))}" for name, seeds in points.items()]
    more = [f"and {len(words) - MOST_NAMED} more points"] if len(words) > MOST_NAMED else []
    return "; ".join([*words[:MOST_NAMED], *more])
