"""Writes the files of a finished study, or of a part of one, from its records."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mdfl_jax.results.records import Record, Stored
from mdfl_jax.results.summary import history_arrays, summarize
from mdfl_jax.storage import disk
from mdfl_jax.storage.checksums import CHECKSUMS, known_checksums, with_checksums
from mdfl_jax.storage.disk import dumps, plain, write_arrays, write_json


def lines_in_order(stored: Stored) -> Iterator[dict[str, Any]]:
    """Yield the lines of metrics.jsonl in the order in which one command writes them.

    That is batch by batch, and within a batch by evaluation and then by run. The points of a program share batches.
    """
    points = stored.manifest["points"]
    programs: dict[str, list[tuple[str, Record]]] = {}
    for point, records in zip(points, stored.records):
        programs.setdefault(point.get("program", ""), []).extend((point["id"], record) for record in records)
    sizes = stored.manifest.get("runs_per_batch") or []
    for g, runs in enumerate(programs.values()):
        size = sizes[g] if g < len(sizes) else len(runs)
        for start in range(0, len(runs), size):
            batch = runs[start : start + size]
            for e in range(len(batch[0][1].lines)):
                yield from (record.lines[e] | {"point": name} for name, record in batch)


def totals(records: list[list[Record]]) -> dict[str, float]:
    """Return the entries of config.json about the seconds of a study."""
    every = [record for of_point in records for record in of_point]
    return {
        "compile_seconds": sum(record.compile_seconds for record in every),
        "run_seconds": sum(record.run_seconds for record in every),
    }


def write_results(folder: Path, stored: Stored, with_lines: bool = True) -> dict[str, Any]:
    """Write summary.json, history.npz, metrics.jsonl and at last config.json, and return the summary.

    Args:
      folder: The folder, which must exist.
      stored: The records of the study, and its config.json, whose status becomes "finished".
      with_lines: Whether to write metrics.jsonl, which a running study has written already.

    Raises:
      DiskError: If a file cannot be written.
    """
    summary = summarize(stored)
    if with_lines:
        disk.write(folder / "metrics.jsonl", lambda part: _write_lines(part, stored))
    write_json(folder / "summary.json", summary)
    write_arrays(folder / "history.npz", history_arrays(stored.records))
    _write_manifest(folder, stored.manifest | totals(stored.records) | {"status": "finished"})
    return summary


def _write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write config.json with the checksums of the other texts, which are there already."""
    write_json(folder / "config.json", with_checksums(plain(dict(manifest)), folder))


def _write_lines(path: Path, stored: Stored) -> None:
    with path.open("w") as file:
        file.writelines(dumps(line) + "\n" for line in lines_in_order(stored))


def rewrite(folder: Path, stored: Stored, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Write summary.json and config.json anew for other values of fields on which no run depends.

    Args:
      folder: The folder of the finished study.
      stored: What it holds.
      wanted: The entries of config.json that are new. The points have the same ids and the same order.

    Returns:
      The content of summary.json.
    """
    again = stored._replace(manifest=stored.manifest | dict(wanted))
    summary = summarize(again)
    of_others = {name: of for name, of in known_checksums(stored.manifest).items() if name != "summary.json"}
    write_json(folder / "config.json", stored.manifest | {CHECKSUMS: of_others})  # true of either summary.json
    write_json(folder / "summary.json", summary)
    _write_manifest(folder, again.manifest)
    return summary
