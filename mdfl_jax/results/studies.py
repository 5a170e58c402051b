"""Which runs a study has: from its config.json, or from the records alone."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mdfl_jax.core.errors import UserError
from mdfl_jax.core.outcomes import enumerated, name_of, seeds_of
from mdfl_jax.results.records import RunRecord
from mdfl_jax.storage.study_files import CONFIG, STUDY_SCHEMA, read_config, require, run_files, run_name, run_path


def runs_in(manifest: Mapping[str, Any]) -> Iterator[tuple[int, int, str]]:
    """Yield (index of the point, seed, name of the run) for each run of a config.json that has a name."""
    for p, point in enumerate(manifest["points"]):
        for seed, run in zip(seeds_of(manifest, p), point["runs"]):
            if run:
                yield p, seed, run


def read_study(workdir: Path) -> dict[str, Any]:
    """Return the content of a study's config.json, or the like made of its records if it is not there.

    Raises:
      UserError: If the folder holds no study, or if a file cannot be read.
    """
    if not workdir.is_dir():
        why = "it is a file, not the folder of a study" if workdir.exists() else "no such directory"
        raise UserError(f"{workdir}: {why}")
    if (workdir / CONFIG).is_file():
        return read_config(workdir)
    records = [RunRecord(path) for _, path in run_files(workdir)]
    if not records:
        raise UserError(f"{workdir}: it holds no study: there is no config.json")
    try:
        found = study_of(records)
        float(found["config"]["target"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{workdir}: there is no config.json, and its records make no study: {error!r}") from None
    return found


def study_of(records: list[RunRecord]) -> dict[str, Any]:
    """Return the content of config.json for the study that has these runs.

    Its points are told by the fields in which they differ. Its name, title and so on are those of the first run. It has
    as many rounds as the longest of these runs, so that runs with fewer are not there yet.
    """
    most = max(int(record.rounds[-1]) for record in records)
    of_points: dict[str, dict[int, str]] = {}  # the names of the runs by seed; not all need be there
    records_of: dict[str, RunRecord] = {}
    for record in records:
        settings = record.name.rpartition("-s")[0]
        of_points.setdefault(settings, {})[record.seed] = run_name(settings, record.seed, most)
        records_of.setdefault(settings, record)
    configs = [of.header["config"] for of in records_of.values()]
    differ = [path for path in configs[0] if any(of.get(path) != configs[0][path] for of in configs)]
    seeds = sorted({seed for of in of_points.values() for seed in of})
    first = records[0]
    counts = {"rounds": most, "first_seed": seeds[0], "seeds": len(seeds), "sweep": ""}
    config: dict[str, Any] = {}
    for path, value in {**first.header["other"], **configs[0], **counts}.items():
        *sections, name = path.split(".")
        section = config
        for part in sections:
            section = section.setdefault(part, {})
            if not isinstance(section, dict):
                raise UserError(f"{first.path}: no study has the field {path}")
        section[name] = value
    points = []
    for of, own in zip(of_points.values(), configs):
        overrides = {path: own.get(path) for path in differ}
        point = {"id": name_of(overrides), "overrides": overrides, "runs": [of[seed] for seed in sorted(of)]}
        points.append(point | ({"seeds": sorted(of)} if sorted(of) != seeds else {}))
    require(config, ("target", "name", "title"), first.path)
    made = first.header["made"]
    head = {"schema": STUDY_SCHEMA, "name": config.get("name"), "title": config.get("title"), "status": "finished"}
    return {**head, "config": config, "points": points, "seeds": seeds, **made}


DATA = "{data}"  # in a title: the data set in use
DATA_IN_WORDS = {
    "digits": "handwritten digits",
    "mnist": "MNIST",
    "fashion_mnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "svhn": "SVHN",
}


def title_of(manifest: Mapping[str, Any]) -> str:
    """Return the title of a study with the name of the data in use, else its name; "" if it has neither.

    >>> title_of({"title": "Clients learn {data}", "config": {"data": {"name": "cifar10"}}, "points": []})
    'Clients learn CIFAR-10'
    """
    title = str(manifest.get("title") or manifest.get("name") or "")
    if DATA not in title:
        return title
    usual = ((manifest.get("config") or {}).get("data") or {}).get("name")
    used = dict.fromkeys(str(point["overrides"].get("data.name", usual)) for point in manifest.get("points") or ())
    names = [DATA_IN_WORDS.get(name, name.replace("_", " ")) for name in used or [str(usual)]]
    return title.replace(DATA, enumerated(names))


def read_records(workdir: Path, manifest: Mapping[str, Any]) -> list[list[RunRecord]]:
    """Return the records of each sweep point of a config.json that are there, in the order of the seeds.

    Raises:
      UserError: If a record is damaged, or if it is not of the seed that config.json says.
    """
    found: list[list[RunRecord]] = [[] for _ in manifest["points"]]
    for p, seed, run in runs_in(manifest):
        path = run_path(workdir, run)
        if path.is_file():
            record = RunRecord(path)
            if record.seed != seed:
                raise UserError(f"{path}: it is of seed {record.seed}, and config.json says {seed}")
            found[p].append(record)
    return found


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
    there = []
    for p, of_point in own.items():
        if of_point:
            names = [run for seed, run in zip(seeds, points[p]["runs"]) if seed in of_point]
            there.append(points[p] | {"runs": names} | ({"seeds": of_point} if of_point != shared else {}))
    whole = {"points": [{key: point[key] for key in ("id", "overrides")} for point in points], "seeds": seeds}
    return {**manifest, "points": there, "seeds": shared, "whole": whole}
