"""Changes the files of a synthetic workdir: its numbers, its entries, and the records of its rounds."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mdfl_jax.results.results import Results


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
    """Makes a finished study look as if it ran: some lines, the last of them incomplete, and no other results."""
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


def edit(folder: Path, file: str = "summary", **changes: Any) -> Path:
    """Changes entries of summary.json or config.json. A function gets the old value and returns the new one."""
    path = folder / f"{file}.json"
    tree = json.loads(path.read_text())
    for key, value in changes.items():
        tree[key] = value(tree[key]) if callable(value) else value
    path.write_text(json.dumps(tree))
    return folder


def of_summary(summary: dict[str, Any], config: dict[str, Any] | None = None) -> Results:
    """The results that summary.json alone tells."""
    return Results({"config": config or {}, "seeds": []}, summary, [], {}, None)


def declare(folder: Path, name: str, unit: str, scale: float = 1.0, where: tuple[str, ...] = ()) -> Path:
    """Declares a metric of the study itself in summary.json."""
    own = {"name": name, "key": name, "title": f"{name} ({unit})", "scale": scale, "where": list(where), "unit": unit}
    return edit(
        folder, metrics=[*json.loads((folder / "summary.json").read_text()).get("metrics", ()), own | {"shape": []}]
    )


def add_records(
    folder: Path, *, radius: float = 3.0, server: bool = False, one_way: bool = False, attacked: bool = False
) -> Path:
    """Adds records to history.npz of a workdir of `write_workdir`, for all points and seeds.

    Links within the radius, some failing in one direction if ``one_way``; absent clients; destinations, two centres,
    with ``server`` meetings and relays, and with ``attacked`` attackers and rejected models.
    """
    with np.load(folder / "history.npz") as file:
        arrays = dict(file)
    for p in sorted({key.split("/")[0] for key in arrays if "/" in key}):
        rng = np.random.default_rng(int(p))
        position = arrays[f"{p}/position"][:, :-1].astype(float)
        seeds, rounds, clients = position.shape[:3]
        present = rng.random((seeds, rounds, clients)) < 0.95
        far = np.linalg.norm(position[..., :, None, :] - position[..., None, :, :], axis=-1)
        hears = (far <= radius) & ~np.eye(clients, dtype=bool) & present[..., None] & present[..., None, :]
        if one_way:
            hears &= rng.random(hears.shape) < 0.8
        mobile = np.broadcast_to(arrays[f"{p}/is_mobile"][:, None, :, None], position.shape)
        goal = arrays[f"{p}/position"][:, np.minimum(np.arange(rounds) + 3, rounds)]
        centre = np.full(position.shape, np.nan)
        centre[:, :, :2] = [[2.0, 3.0], [8.0, 5.0]]
        arrays |= {
            f"{p}/links": np.packbits(hears, axis=-1),
            f"{p}/present": present,
            f"{p}/destination": np.where(mobile, goal, np.nan).astype(np.float32),
            f"{p}/centre": centre.astype(np.float32),
        }
        if attacked:
            rejected = hears & (rng.random(hears.shape) < 0.3)
            bad = np.broadcast_to(np.arange(clients) % 5 == 1, arrays[f"{p}/accuracy"].shape)
            arrays |= {f"{p}/rejected": np.packbits(rejected, axis=-1), f"{p}/attacker": bad}
        if server:
            met = rng.random((seeds, rounds, clients)) < 0.2
            relay = np.where(rng.random(met.shape) < 0.1, (np.arange(clients) + 1) % clients, -1).astype(np.int16)
            arrays |= {f"{p}/met_server": met, f"{p}/relay_upload": relay, f"{p}/relay_download": np.roll(relay, 1, 1)}
    np.savez(folder / "history.npz", **arrays)
    return folder
