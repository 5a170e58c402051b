"""Check that a change of the code does not change the results of small studies of every kind.

Command:   python -m benchmarks.golden record FOLDER     runs the studies with the present code
           python -m benchmarks.golden compare FOLDER    runs them again, and names every array that differs

Results are equal bit by bit only on the same machine with the same packages; otherwise they differ by rounding. So
record the folder with the old code on the machine where you will compare the new code, and do not commit it. Images are
drawn at random, so no data directory is needed.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

STUDIES = {
    "grid": "digits.py --config.sweep=network.mobility=static,random_movement,dam,dcm",
    "met": "met_digits.py --config.sweep=network.mobility=dam,dcm --config.motion.knowledge=met",
    "plane": "waypoint_digits.py --config.sweep=network.mobility=random_walk,random_waypoint,gauss_markov,levy_walk,"
    "group,patrol,manhattan,random_direction --config.network.contact=swept --config.network.link_failure=0.1",
    "trace": "trace_digits.py",
    "graph": "graphs_digits.py --config.sweep=network.graph=ring,random_regular",
    "pame": "pame.py:f8 --config.sweep=algorithm.name=pame,dpsgd,dfedsam,beer,anq_nids;algorithm.lr=0.3,1"
    " --config.select=algorithm.lr --config.network.num_clients=8 --config.data.dimension=50"
    " --config.graph.probability=0.5",
    "fedmobile": "fedmobile_digits.py --config.algorithm.upload_from=2 --config.server.interval=10",
    "roadside": "fedmobile_roadside.py:town --config.sweep=algorithm.name=fedmobile",
    "regression": "pame.py:f3 --config.sweep=algorithm.transmission=0.2,0.5 --config.data.dimension=100"
    " --config.data.samples_per_client=1000",
    "rivals": "digits.py --config.sweep=algorithm.name=choco,dcd_psgd,dfedavgm,epidemic,gradient_tracking,nids"
    ",squarm_sgd --config.model.name=linear --config.network.graph=complete --config.algorithm.batch_size=16",
    "resnet": "cifar_resnet.py:small --config.sweep= --config.baseline= --config.seeds=1 --config.data.crop=2"
    " --config.engine.client_devices=2 --config.data.limit_train=600 --config.data.limit_test=100"
    " --config.model.base_width=4",
}
"""The arguments of `mdfl sweep` for each study. `SHORT` reduces the number of rounds."""

SHORT = {
    "pame": "--config.rounds=60 --config.eval_every=20",
    "regression": "--config.rounds=60 --config.eval_every=20",
    "resnet": "--config.rounds=4 --config.eval_every=2",
}
LEFT_OUT = ("compile_seconds", "run_seconds")  # these differ from run to run


def run(name: str, folder: Path, images: Path) -> None:
    """Run one study; write its results to `folder / name`."""
    short = SHORT.get(name, "--config.rounds=20 --config.eval_every=10").split()
    seeds = [] if "config.seeds" in STUDIES[name] else ["--config.seeds=2"]
    config, *rest = STUDIES[name].split(" ")
    command = [sys.executable, "-m", "launch.sweep", f"--config=configs/{config}", *rest, *short, *seeds]
    environment = os.environ | {"MDFL_DATA_DIR": str(images), "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "2"}
    subprocess.run(
        [*command, f"--workdir={folder / name}", "--overwrite", "--noreport"],
        env=environment, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip


def images_in(folder: Path) -> None:
    """Write a small cifar10.npz of random images."""
    draw = np.random.default_rng(0)
    shape = lambda n: draw.integers(0, 256, (n, 32, 32, 3), np.uint8)  # noqa: E731
    label = lambda n: draw.integers(0, 10, n, np.uint8)  # noqa: E731
    np.savez(folder / "cifar10.npz", x_train=shape(600), y_train=label(600), x_test=shape(100), y_test=label(100))


def differences(old: Path, new: Path) -> list[str]:
    """Compare two results of one study; return one message for each array or file that differs."""
    before, after = np.load(old / "history.npz"), np.load(new / "history.npz")
    found = [f"array {key} is gone" for key in before.files if key not in after.files]
    found += [f"array {key} is new" for key in after.files if key not in before.files]
    for key in set(before.files) & set(after.files):
        a, b = before[key], after[key]
        if a.dtype != b.dtype or a.shape != b.shape or a.tobytes() != b.tobytes():
            found.append(f"array {key} differs{_by_how_much(a, b)}")
    for file in ("metrics.jsonl", "summary.json"):
        a, b = (_plain((path / file).read_text(), file) for path in (old, new))
        found += [] if a == b else [f"{file} differs"]
    return found


def _by_how_much(a: np.ndarray, b: np.ndarray) -> str:
    """Return the largest difference of arrays of floats, the smaller one of absolute and relative for each element."""
    if a.dtype != b.dtype or a.shape != b.shape or a.dtype.kind != "f" or (np.isnan(a) != np.isnan(b)).any():
        return ""
    difference = np.abs(a.astype(float) - b)
    return f" by {np.nanmax(np.minimum(difference, difference / np.maximum(np.abs(a), 1e-30))):.0e}"


def _plain(text: str, file: str) -> list[Any]:
    if not file.endswith("l"):
        return [_without(json.loads(text))]
    lines = [_without(json.loads(line)) for line in text.splitlines()]
    return sorted(lines, key=lambda line: [str(line.get(key)) for key in ("point", "seed", "round")])


def _without(value: Any) -> Any:
    """Return the same JSON value without the keys of `LEFT_OUT`."""
    if isinstance(value, dict):
        return {k: _without(v) for k, v in value.items() if k not in LEFT_OUT}
    return [_without(v) for v in value] if isinstance(value, list) else value


def main() -> int:
    """Record or compare the studies; return status 1 if something differs."""
    if len(sys.argv) < 3 or sys.argv[1] not in ("record", "compare"):
        print(__doc__, file=sys.stderr)
        return 2
    kept, names = Path(sys.argv[2]), sys.argv[3:] or list(STUDIES)
    bad = 0
    with tempfile.TemporaryDirectory() as scratch:
        images_in(Path(scratch))
        into = kept if sys.argv[1] == "record" else Path(scratch)
        for name in names:
            run(name, into, Path(scratch))
            found = [] if into is kept else differences(kept / name, into / name)
            print(f"{name}: {'; '.join(found) or ('recorded' if into is kept else 'equal')}", flush=True)
            bad += bool(found)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
