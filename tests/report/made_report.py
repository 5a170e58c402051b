"""Changes the files of a synthetic workdir, for tests of what the report makes of them."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def change(
    folder: Path,
    lines: Callable[[dict[str, Any]], dict[str, Any] | None] = lambda row: row,
    arrays: Callable[[dict[str, Any]], dict[str, Any]] = lambda arrays: arrays,
) -> Path:
    """Changes the lines of metrics.jsonl, of which an empty one is left out, and the arrays of history.npz."""
    file = folder / "metrics.jsonl"
    rows = [lines(json.loads(line)) for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows if row))
    with np.load(folder / "history.npz") as history:
        kept = arrays(dict(history))
    np.savez(folder / "history.npz", **kept)
    return folder


def unfinish(folder: Path, keep: Callable[[dict[str, Any]], bool] = lambda line: True, torn: bool = True) -> Path:
    """Makes a finished study look as if it ran: no summary, no records, some lines, and the last of them incomplete."""
    manifest = json.loads((folder / "config.json").read_text())
    manifest |= {"status": "running"}
    manifest["config"] |= {"baseline": "network.mobility=static", "target": 0.6}
    (folder / "config.json").write_text(json.dumps(manifest))
    (folder / "summary.json").unlink()
    (folder / "history.npz").unlink()
    shutil.rmtree(folder / "runs")
    lines = [line for line in (folder / "metrics.jsonl").read_text().splitlines() if keep(json.loads(line))]
    text = "".join(f"{line}\n" for line in lines) + (lines[-1][:40] if torn and lines else "")
    (folder / "metrics.jsonl").write_text(text)
    return folder
