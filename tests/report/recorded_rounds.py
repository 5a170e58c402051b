"""Adds the records of the rounds to a synthetic workdir, as the simulator writes them: links, meetings and so on."""

from pathlib import Path

import numpy as np


def linked(position: np.ndarray, radius: float) -> np.ndarray:
    """Who hears whom at some places: [..., N, 2] -> [..., N, N] bool, by the distance of every two clients."""
    far = np.linalg.norm(position[..., :, None, :] - position[..., None, :, :], axis=-1)
    return (far <= radius) & ~np.eye(position.shape[-2], dtype=bool)


def add_records(folder: Path, *, radius: float = 3.0, server: bool = False, one_way: bool = False) -> Path:
    """Adds records to history.npz of a workdir of `write_workdir`, for all points and seeds.

    There are links within the radius, of which some fail in one direction if ``one_way``; clients that are absent now
    and then; destinations of mobile clients, two centres, and with ``server`` meetings and relays.
    """
    with np.load(folder / "history.npz") as file:
        arrays = dict(file)
    for p in sorted({key.split("/")[0] for key in arrays if "/" in key}):
        rng = np.random.default_rng(int(p))
        position = arrays[f"{p}/position"][:, :-1].astype(float)
        seeds, rounds, clients = position.shape[:3]
        present = rng.random((seeds, rounds, clients)) < 0.95
        hears = linked(position, radius) & present[..., None] & present[..., None, :]
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
        if server:
            met = rng.random((seeds, rounds, clients)) < 0.2
            relay = np.where(rng.random(met.shape) < 0.1, (np.arange(clients) + 1) % clients, -1).astype(np.int16)
            arrays |= {f"{p}/met_server": met, f"{p}/relay_upload": relay, f"{p}/relay_download": np.roll(relay, 1, 1)}
    np.savez(folder / "history.npz", **arrays)
    return folder
