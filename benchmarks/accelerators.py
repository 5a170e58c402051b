"""Compile the shipped studies for TPUs and GPUs, and record the memory and the time that the compiler estimates.

python -m benchmarks.accelerators [--target=tpu-v5e,h100] [--study=madfl,digits|papers] [--effort=full]

No device is needed; the extras aot-tpu and aot-gpu are. No data is needed either: if MDFL_DATA_DIR is not set, stand-in
images of the right shapes are used. All figures are estimates of a compiler: memory on every device, and on TPUs also
seconds and the share of the peak, by the compiler's schedule. Each row describes the first program of a config, with
one run per chip or with as many runs as a chip maps together.
"""

import datetime
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from absl import flags

from benchmarks.papers.devices import STUDIES as PAPERS
from mdfl_jax.cli import common
from mdfl_jax.contrib.estimates.dry_run import in_a_child
from mdfl_jax.core.errors import UserError, unknown_name
from mdfl_jax.storage.provenance import commit

_TARGET = flags.DEFINE_string("target", "", "Devices to compile for, separated by commas.")
_EFFORT = flags.DEFINE_enum("effort", "quick", ["least", "quick", "full"], "How hard a TPU's compiler tries.")
_STUDY = flags.DEFINE_string("study", "", "Names of `STUDIES`, separated by commas; papers: all of the papers.")

RESULTS = Path(__file__).parent / "results"
CIFAR = "configs/cifar_resnet.py"
BFLOAT16 = "--config.engine.precision=bfloat16"
STUDIES = {
    "digits": ["configs/digits.py"],
    "madfl_t2_bfloat16": ["configs/madfl.py:t2", BFLOAT16],
    "madfl": [f"{CIFAR}:madfl"],
    "dadfl": [f"{CIFAR}:dadfl"],
    "fedmobile": [f"{CIFAR}:fedmobile"],
    "fedmobile_float32": [f"{CIFAR}:fedmobile", "--config.engine.precision=float32"],
    "pame": [f"{CIFAR}:pame"],
} | {name: ["configs/{}.py:{}".format(*name.split(":"))] for name in PAPERS}
LARGEST = {"pame:f9_10000": -1}  # of which another program than the first stands for all: that of most nodes
IMAGES = {"mnist": (60_000, 28, 28), "fashion_mnist": (60_000, 28, 28), "cifar10": (50_000, 32, 32, 3)}


def stand_ins(folder: Path) -> None:
    """Write stand-in .npz files with the shapes of the public data sets, for compiling and timing."""
    rng = np.random.default_rng(0)
    for name, shape in IMAGES.items():
        arrays: dict[str, Any] = {
            f"{kind}_{split}": rng.integers(0, 256, size, np.uint8)
            if kind == "x"
            else np.arange(size[0], dtype=np.uint8) % 10
            for split, size in (("train", shape), ("test", (10_000, *shape[1:])))
            for kind in "xy"
        }
        np.savez(folder / f"{name}.npz", **arrays)


def row_of(study: str, target: str) -> dict[str, Any]:
    """Compile the first program of a study for a target; return the row of estimates."""
    config, *rest = STUDIES[study]
    asked = ["--dry_run", f"--target={target}", f"--effort={_EFFORT.value}"]
    found = in_a_child(LARGEST.get(study, 0), [f"--config={config}", *asked, *rest])
    kept = {key: value for key, value in found.items() if key not in ("plan", "count")}
    return {"study": study, "target": target, "command": " ".join([config, *rest]), "commit": commit()} | kept


def main() -> int:
    """Compile each study for each target; write results/accelerators-<target>.json again after every row."""
    names = _STUDY.value.split(",") if _STUDY.value else list(STUDIES)
    if names == ["papers"]:
        names = list(PAPERS)
    for name in names:
        if name not in STUDIES:
            raise UserError(f"--study={name}: {unknown_name('study', name, STUDIES)}")
    with tempfile.TemporaryDirectory() as folder:
        if "MDFL_DATA_DIR" not in os.environ:
            stand_ins(Path(folder))
            os.environ["MDFL_DATA_DIR"] = folder
        for target in (_TARGET.value or "tpu-v5e,h100").split(","):  # the flag may name several targets
            path = RESULTS / f"accelerators-{target.replace(':', '-')}.json"
            rows = {row["study"]: row for row in json.loads(path.read_text())["rows"]} if path.exists() else {}
            for name in names:
                rows[name] = row_of(name, target) | {"date": datetime.date.today().isoformat()}
                print(json.dumps(rows[name]), flush=True)
                told = {"what": "a compiler's estimates for a device that was not at hand", "rows": list(rows.values())}
                path.write_text(json.dumps(told, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    common.run_command(main)
