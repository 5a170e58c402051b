"""How a study was made: its command, commit, versions, devices and times, for the end of the page."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from mdfl_jax.report import tables
from mdfl_jax.report.read import Run


class Entry(NamedTuple):
    """One line of how a study was made; a text that is code may have a button that copies it."""

    name: str
    text: str | None
    is_code: bool = False
    is_copied: bool = False


class Making(NamedTuple):
    """How one study was made: its name (empty if the page has one study), its entries and its configuration as JSON."""

    name: str
    entries: list[Entry]
    config: str


def making(run: Run) -> list[Making]:
    """Return how a study was made, or each of the studies that are compared."""
    studies = {str(study.workdir): study for study in run.studies} or {"": run}
    return [Making(name, _entries(study), _config(study)) for name, study in studies.items()]


def _entries(run: Run) -> list[Entry]:
    made = run.manifest
    devices = [f"{count} x {name}" if count > 1 else name for name, count in _kinds(made.get("devices") or [])]
    seconds = [f"{tables.number(made.get(f'{part}_seconds'))} s to {part}" for part in ("compile", "run")]
    versions = ", ".join(f"{name} {version}" for name, version in (made.get("versions") or {}).items())
    files = "summary.json, metrics.jsonl, history.npz, tables/summary.csv, tables/summary.md, figures/*.pdf"
    return [
        Entry("Command", made.get("command"), is_code=True, is_copied=True),
        Entry("Commit", made.get("commit"), is_code=True, is_copied=True),
        Entry("Versions", versions),
        Entry("Devices", ", ".join(devices)),
        Entry("Time", ", ".join(seconds)),
        Entry("Seeds", _ranges(made["seeds"])),
        Entry("Status", made.get("status")),
        Entry("Files beside this page", files, is_code=True),
    ]


def _ranges(seeds: Sequence[Any]) -> str:
    """Return numbers with runs of consecutive ones shortened.

    >>> _ranges([0, 1, 2, 5, 7, 8])
    '0 to 2, 5, 7, 8'
    """
    runs: list[list[Any]] = []
    for seed in seeds:
        if runs and isinstance(seed, int) and runs[-1][-1] == seed - 1:
            runs[-1].append(seed)
        else:
            runs.append([seed])
    return ", ".join(f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)


def _config(run: Run) -> str:
    return json.dumps({"config": run.config, "points": run.manifest.get("points")}, indent=2)


def _kinds(devices: list[Any]) -> list[tuple[str, int]]:
    """Return the kinds of devices with the number of each kind, so that eight cores need only one line."""
    return list(Counter(str(device).rstrip("0123456789").rstrip("_:") or str(device) for device in devices).items())
