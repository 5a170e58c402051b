"""The histories of small studies, kept in the repository: what a change of the code must not change unnoticed.

Command:   python -m tests.golden          makes tests/golden.npz anew, after a change that is meant
           python -m tests.golden plane    makes the named studies alone, as those of a new movement

The studies have every family of movement and one algorithm: what the others draw is pinned by tests/reference, which
is given the places, the partition and the first models. Whole numbers (bits, messages, links)
must be equal on every machine and with every version of JAX. Floats are compared within `TOLERANCE`: compilers and
versions sum in another order, and an accuracy may move by a test sample.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).with_name("golden.npz")
TOLERANCE = {"rtol": 1e-2, "atol": 0.02}
KEPT = ("accuracy", "loss", "consensus_distance", "bits_sent", "messages", "links", "position", "uploads", "downloads")
GRID = "static,random_movement,waypoint,dam,dcm"
PLANE = "random_walk,random_waypoint,gauss_markov,levy_walk,group,patrol,manhattan,random_direction"
SHORT = {"seeds": 1, "rounds": 2, "eval_every": 1, "algorithm.batch_size": 4}
STUDIES: dict[str, dict[str, Any]] = {
    "grid": {"sweep": f"network.mobility={GRID}"},
    "met": {"sweep": "network.mobility=dam,dcm; motion.knowledge=met"},
    "strategies": {"sweep": "network.mobility=age_aware,cover_tour,coordinated,spectral"},
    "plane": {"sweep": f"network.mobility={PLANE}", "network.radius": 150.0, "network.link_failure": 0.1},
    "dpsgd": {"network.graph": "complete", "network.num_mobile": 0, "algorithm.lr": 0.05},
}
"""The changes of the tiny configuration of every study."""


def history(name: str, folder: Path) -> dict[str, np.ndarray]:
    """Runs a study into a folder, and returns the arrays of its history.npz that are kept."""
    from mdfl_jax.study import make_study
    from tests.tiny import run_study, tiny_config

    config = tiny_config(**{"network.mobility": "static"} | SHORT | STUDIES[name])
    run_study(make_study(config), folder)
    with np.load(folder / "history.npz") as found:
        return {key: found[key] for key in found.files if key.rpartition("/")[2] in KEPT}


def main(names: list[str]) -> int:
    """Makes the file anew, or what it has of some studies."""
    arrays: dict[str, np.ndarray] = {}
    if names:
        with np.load(FILE) as kept:
            arrays = {key: kept[key] for key in kept.files if key.partition("/")[0] not in names}
    for name in names or STUDIES:
        with tempfile.TemporaryDirectory() as folder:
            arrays |= {f"{name}/{key}": array for key, array in history(name, Path(folder)).items()}
        print(name, flush=True)
    np.savez_compressed(FILE, **arrays)
    print(f"{FILE}: {len(arrays)} arrays, {FILE.stat().st_size / 1024:.0f} KiB")
    return 0


if __name__ == "__main__":
    os.environ["JAX_PLATFORMS"] = "cpu"
    sys.exit(main(sys.argv[1:]))
