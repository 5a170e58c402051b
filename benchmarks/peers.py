"""Run the same small experiments in other tools and here: python -m benchmarks.peers --environments=FOLDER [--write]

Each other tool gets a virtual environment of its own in FOLDER, which is made if it is not there; decent-bench needs
Python 3.13 on the path. `peer_scripts/` has what a user of each tool would write; each script runs as a process of its
own on the same arrays. Torch's wheel for CPUs needs an index that has it: --pip="--extra-index-url=...".
"""

import contextlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
from absl import flags
from sklearn.datasets import load_digits

from benchmarks import measure
from benchmarks.house import ROOT, code_lines
from mdfl_jax.cli import common
from mdfl_jax.core.errors import UserError

_ENVIRONMENTS = flags.DEFINE_string("environments", "", "Folder of the tools' virtual environments.")
_PIP = flags.DEFINE_string("pip", "", "Further arguments of pip install, such as an index.")
_REPEATS = flags.DEFINE_integer(
    "repeats", 3, "Processes of each kind, of which the least seconds count.", lower_bound=1
)
_ONLY = flags.DEFINE_list("only", [], "Scripts to run, as ring_decent_bench; the others' rows stay as they are.")

SCRIPTS = Path(__file__).parent / "peer_scripts"
FILE = measure.RESULTS / "peers.json"
OURS = "mdfl_jax"
VARIABLES = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1"}
"""Tools report to nobody; torch has one thread, because threads that wait for each other would count as work."""


class Tool(NamedTuple):
    """What a tool needs: the requirements of pip, and a version of Python if it is not the one that runs this."""

    requirements: tuple[str, ...]
    python: str = ""


class Script(NamedTuple):
    """A script by its experiment and tool, its rounds, of ours the further ones after warm-up, and its many seeds."""

    experiment: str
    tool: str
    rounds: int
    further: int = 0
    seeds: int = 8

    @property
    def path(self) -> Path:
        """The file of the script."""
        return SCRIPTS / f"{self.experiment}_{self.tool}.py"


TORCH = "torch==2.13.0+cpu"
TOOLS = {
    "decent_bench": Tool(("decent-bench==0.3.0",), "3.13"),
    "gossipy": Tool(("gossipy-dfl==0.0.1", TORCH, "torchvision==0.28.0")),
    "fluke": Tool(("fluke-fl==0.8.1", TORCH)),
    "flwr": Tool(("flwr[simulation]==1.42.0", TORCH)),
    "byzfl": Tool(("byzfl==0.0.11", TORCH)),
}
RUNS = (
    Script("ring", "decent_bench", 500),
    Script("ring", OURS, 500, 5_000),
    Script("push", "gossipy", 50),
    Script("push", OURS, 50, 5_000),
    Script("fedavg", "fluke", 10),
    Script("fedavg", "flwr", 10, seeds=2),  # a round takes ten seconds of waiting
    Script("fedavg", OURS, 10, 100),
    Script("rules", "byzfl", 20),
    Script("rules", OURS, 20),
)
OPERATORS = """
if not _has_ops():  # benchmarks/peers.py: the wheel's operators need CUDA; the import needs these two names
    for _name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{_name}", "(Tensor a, Tensor b, float c) -> Tensor")
"""


def environment(tool: str, folder: Path) -> Path:
    """Return the Python of a tool's environment, which is made first if it is not whole.

    Raises:
      UserError: if the Python that it needs is not there, or pip cannot install it.
    """
    needed, place = TOOLS[tool], folder / tool
    python = place / "bin" / "python"
    if (place / "whole").is_file():
        return python
    base = shutil.which(f"python{needed.python}") if needed.python else sys.executable
    if base is None:
        raise UserError(f"{tool} needs python{needed.python} on the path")
    subprocess.run([base, "-m", "venv", "--clear", place], check=True)
    install = ("-m", "pip", "install", "--quiet", *shlex.split(_PIP.value), *needed.requirements)
    said = subprocess.run([str(python), *install], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if said.returncode:
        raise UserError(f"pip cannot install {tool}: {(said.stderr.strip().splitlines() or ['it said nothing'])[-1]}")
    for path in place.glob("lib/python*/site-packages/torchvision/extension.py"):
        path.write_text(path.read_text() + OPERATORS)
    (place / "whole").touch()
    return python


def versions(python: Path, tool: str) -> dict[str, str]:
    """Return the versions of Python, of a tool and of what it computes with, in its environment."""
    names = [one.partition("==")[0].partition("[")[0] for one in TOOLS[tool].requirements] if tool in TOOLS else ["jax"]
    code = (
        "import json, sys, platform; from importlib.metadata import version\n"
        "print(json.dumps({'python': platform.python_version()} | {n: version(n) for n in sys.argv[1:]}))"
    )
    command = [str(python), "-c", code, *names, "numpy"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def write_arrays(folder: Path) -> None:
    """Write the arrays of the experiments, of scikit-learn's digits; every fifth sample is a test sample.

    In ring.npz the eight clients hold sorted labels, odd or even, of pixels and a constant; in fedavg.npz, images that
    are dealt in turn. rules.npy has twenty vectors of 100,000 normal numbers.
    """
    x, y = load_digits(return_X_y=True)
    x, test = (x / 16).astype(np.float32), np.arange(len(x)) % 5 == 0
    order = np.argsort(y[~test], kind="stable")
    with_one = np.concatenate([x, np.ones((len(x), 1), np.float32)], axis=1)
    odd, images, train = (y % 2 == 1)[:, None], x.reshape(-1, 8, 8, 1), int(sum(~test))
    np.savez(
        folder / "ring.npz",
        x_train=with_one[~test][order],
        y_train=odd[~test][order],
        owner=np.arange(train) * 8 // train,
        x_test=with_one[test],
        y_test=odd[test],
    )
    np.savez(
        folder / "fedavg.npz",
        x_train=images[~test],
        y_train=y[~test],
        owner=np.arange(train) % 8,
        x_test=images[test],
        y_test=y[test],
    )
    np.save(folder / "rules.npy", np.random.default_rng(0).normal(size=(20, 100_000)).astype(np.float32))


def timed(python: Path, path: Path, *arguments: int, folder: Path, cache: Path | None = None) -> dict[str, Any]:
    """Run a script; return its wall and CPU seconds, with those of all its descendants, and what its last line says.

    The CPU seconds are also polled, because Ray's workers are not counted by their parents.

    Args:
      python: the Python that runs it.
      path: the script.
      *arguments: its arguments.
      folder: the folder in which it runs.
      cache: of our scripts, the folder of the compiled programs.

    Raises:
      UserError: if it fails.
    """
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | VARIABLES
    if cache is not None:
        variables |= {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(cache)}
    command, seen, ended = [*map(str, (python, path, *arguments))], dict[psutil.Process, float](), threading.Event()
    begin = time.perf_counter()
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(command, cwd=folder, env=variables, stdout=said, stderr=errors)
        poller = threading.Thread(target=poll, args=(psutil.Process(child.pid), seen, ended))
        poller.start()
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - begin
        ended.set()
        poller.join()
        for file in (said, errors):
            file.seek(0)
        lines, wrong = said.read().splitlines(), errors.read().strip().splitlines()
    if status:
        raise UserError(f"{path.name} failed: {wrong[-1] if wrong else 'it says nothing'}")
    cpu = max(usage.ru_utime + usage.ru_stime, sum(seen.values()))
    return {"cpu": cpu, "wall": wall, "said": json.loads(lines[-1])}


def poll(child: psutil.Process, seen: dict[psutil.Process, float], ended: threading.Event) -> None:
    """Note the CPU seconds of a process and of its descendants, until it has ended."""
    while not ended.wait(0.1):
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in (child, *child.children(recursive=True)):
                spent = process.cpu_times()
                seen[process] = spent.user + spent.system


def least(runs: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Return the least CPU and wall seconds of runs."""
    return {kind: round(min(run[kind] for run in runs), 3) for kind in ("cpu", "wall")}


def measured(script: Script, python: Path, folder: Path) -> dict[str, Any]:
    """Return the seconds of whole processes by seeds, the rounds a CPU second after warm-up, and the results.

    A round after warm-up is of the difference between two processes: of the other tools, which run seeds one after
    another, with many seeds and with one; of ours, with further rounds and without.
    """
    run = partial(timed, python, script.path, folder=folder)
    if script.tool != OURS:
        of = {seeds: [run(script.rounds, seeds) for _ in range(_REPEATS.value)] for seeds in (1, script.seeds)}
        whole = {seeds: least(runs) for seeds, runs in of.items()}
        rate = {1: (script.seeds - 1) * script.rounds / (whole[script.seeds]["cpu"] - whole[1]["cpu"])}
        found = {"whole": whole, "rounds_a_cpu_second": rate, "result": of[script.seeds][-1]["said"]}
        return {"rounds": script.rounds, **found}
    caches = [folder / f"cache{k}" for k in range(_REPEATS.value)]
    cold, cache = least([run(script.rounds, 1, cache=cache) for cache in caches]), caches[-1]
    run(script.rounds, 8, cache=cache)  # compiles
    whole, rate = {}, {}
    for seeds in (1, 8):
        short = [run(script.rounds, seeds, cache=cache) for _ in range(_REPEATS.value)]
        total = script.rounds + script.further
        long = [run(total, seeds, cache=cache) for _ in range(_REPEATS.value + 1)]  # the first one compiles
        whole[seeds] = least(short)
        rate[seeds] = seeds * script.further / (least(long)["cpu"] - whole[seeds]["cpu"])
    found = {"cold": cold, "whole": whole, "rounds_a_cpu_second": rate, "result": short[-1]["said"]}
    return {"rounds": script.rounds, "further": script.further, **found}


def called(script: Script, python: Path, folder: Path) -> dict[str, Any]:
    """Return the least milliseconds of one call of each rule for arrays, and the norms of their results."""
    cache = folder / "cache" if script.tool == OURS else None
    runs = [
        timed(python, script.path, script.rounds, folder=folder, cache=cache)["said"] for _ in range(_REPEATS.value)
    ]
    milliseconds = {rule: {kind: min(run[rule][kind] for run in runs) for kind in ("cpu", "wall")} for rule in runs[0]}
    return {"milliseconds": milliseconds, "result": {rule: of["norm"] for rule, of in runs[-1].items()}}


def main() -> int:
    """Make the environments, run the scripts, and print their rows; write them with --write.

    Raises:
      UserError: if no folder is given.
    """
    if not _ENVIRONMENTS.value:
        raise UserError("--environments=FOLDER is needed: where the tools are installed")
    folder = Path(_ENVIRONMENTS.value).absolute()
    rows = []
    for script in RUNS:
        if _ONLY.value and script.path.stem not in _ONLY.value:
            continue
        row: dict[str, Any] = {"experiment": script.experiment, "tool": script.tool, "date": time.strftime("%Y-%m-%d")}
        with tempfile.TemporaryDirectory() as there:
            write_arrays(Path(there))
            try:
                python = Path(sys.executable) if script.tool == OURS else environment(script.tool, folder)
                measure_one = called if script.experiment == "rules" else measured
                row |= {"lines": code_lines(script.path), "versions": versions(python, script.tool)}
                row |= {"repeats": _REPEATS.value, "load_before": round(os.getloadavg()[0], 1)}
                row |= measure_one(script, python, Path(there))
            except UserError as error:
                row["failed"] = str(error)
        print(json.dumps(row), flush=True)
        rows.append(row)
    if measure.WRITE.value:
        write(rows)
    return 0


def write(rows: list[dict[str, Any]]) -> None:
    """Put rows into the results file, in the order of the scripts, in the place of earlier rows of theirs."""
    before = json.loads(FILE.read_text())["rows"] if FILE.is_file() else []
    found = {(row["experiment"], row["tool"]): row for row in (*before, *rows)}
    kept = [found[key] for script in RUNS if (key := (script.experiment, script.tool)) in found]
    FILE.write_text(json.dumps({**measure.machine(), "cores": os.cpu_count(), "rows": kept}, indent=2) + "\n")
    print(FILE)


if __name__ == "__main__":
    common.run_command(main)
