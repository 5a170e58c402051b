"""Measure what is compiled before the first round of each shipped study: python -m benchmarks.compile [--write]

Each study is prepared in a process of its own, without a cache. With --before=FOLDER, another version of the source is
measured in turn with this one. Lines, functions and programs do not depend on how busy the machine is; of the seconds,
believe those of a quiet machine. Images are drawn at random, so no data directory is needed.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from absl import flags

from benchmarks import measure
from mdfl_jax.cli import common

STUDIES = (
    "digits", "digits_lstm", "own_rule", "waypoint_digits", "trace_digits", "met_digits", "costs", "graphs_digits",
    "thesis_digits", "madfl:f2,scale=small", "cifar_resnet:small", "text_transformer", "fedmobile_digits",
    "fedmobile_roadside", "fedmobile:f3_variants", "fedmobile:f4,scale=smoke", "pame:f3",
    "pame:f8,scale=smoke", "pame:f11,scale=smoke",
)  # fmt: skip
IMAGES = {"mnist": (28, 28), "fashion_mnist": (28, 28), "cifar10": (32, 32, 3)}
IN_ONE = ("parameter", "constant", "bitcast", "get-tuple-element", "tuple", "while", "call", "conditional", "copy")
SUMS = ("programs", "lines", "functions", "trace_seconds", "wall_seconds", "cpu_seconds")

_STUDIES = flags.DEFINE_list("studies", list(STUDIES), "Shipped studies, as in pame:f3.")
_BEFORE = flags.DEFINE_string("before", "", "Folder of another version of the source, measured too.")
_ONLY = flags.DEFINE_string("only", "", "Measure this study in this process, and print its rows (for the parent).")


def functions(text: str) -> int:
    """Count the functions of machine code of a compiled program: the instructions outside of fusions that need one."""
    merged, found = set[str](), dict[str, int]()
    name = ""
    for line in text.splitlines():
        if head := re.match(r"(?:ENTRY )?%?(\S+) .*\{$", line):
            name = head[1]
        elif instruction := re.match(r"\s+(?:ROOT )?%?\S+ = (?:\([^=]*?\)|\S+) ([a-z\-]+)\(", line):
            kind = instruction[1]
            if kind not in ("while", "call", "conditional"):
                merged |= set(re.findall(r"(?:calls|to_apply)=%?([\w.\-]+)", line))
            found[name] = found.get(name, 0) + (kind not in IN_ONE)
    return sum(count for computation, count in found.items() if computation not in merged)


def images(folder: Path) -> None:
    """Write small files of random images in the place of the data sets that are not shipped."""
    draw = np.random.default_rng(0)
    for name, shape in IMAGES.items():
        arrays: dict[str, Any] = {}
        for part, size in (("train", 6000), ("test", 1000)):
            arrays[f"x_{part}"] = draw.integers(0, 256, (size, *shape), np.uint8)
            arrays[f"y_{part}"] = draw.integers(0, 10, size, np.uint8)
        np.savez(folder / f"{name}.npz", **arrays)


class Watch:
    """Adds up what JAX compiles in this process."""

    def __init__(self) -> None:
        self.sums = dict.fromkeys(SUMS, 0.0)
        self.compiled: list[tuple[Any, Any]] = []
        self.begin = time.perf_counter(), time.process_time()
        jax.monitoring.register_event_duration_secs_listener(self._spent)
        compile_one: Callable[..., Any] = jax.stages.Lowered.compile

        def compiled(lowered: Any, *args: Any, **kwargs: Any) -> Any:
            program = compile_one(lowered, *args, **kwargs)
            self.compiled.append((lowered, program))
            return program

        jax.stages.Lowered.compile = compiled  # type: ignore[method-assign, assignment]

    def _spent(self, event: str, duration_secs: float, **_: Any) -> None:
        self.sums["programs"] += event.endswith("backend_compile_duration")
        if event.endswith(("jaxpr_trace_duration", "jaxpr_to_mlir_module_duration")):
            self.sums["trace_seconds"] += duration_secs

    def lap(self) -> dict[str, float]:
        """Return the sums since the last lap, with the seconds on the wall and of all cores."""
        now = time.perf_counter(), time.process_time()
        self.sums["wall_seconds"], self.sums["cpu_seconds"] = (b - a for a, b in zip(self.begin, now))
        for lowered, program in self.compiled:  # the clocks stand still
            self.sums["lines"] += lowered.as_text().count("\n")
            self.sums["functions"] += functions(program.as_text())
        found, self.compiled = dict(self.sums), []
        self.sums = dict.fromkeys(SUMS, 0.0)
        self.begin = time.perf_counter(), time.process_time()
        return found


def programs_of(study_name: str) -> list[dict[str, Any]]:
    """Prepare a study and start the first batch of each of its groups; return a row for each of these steps."""
    import importlib

    from mdfl_jax.engine.programs import Compiler
    from mdfl_jax.study import make_study
    from mdfl_jax.study.runner import Program, steps

    name, _, argument = study_name.partition(":")
    module = importlib.import_module(f"configs.{name}")
    watch = Watch()
    study = make_study(module.get_config(*([argument] if argument else [])))
    rows: list[dict[str, Any]] = [{"study": study_name, "points": "preparing", **watch.lap()}]
    compiler = Compiler()
    for group in study.groups:
        first = next(group.batches(group.runs(study.seeds)))
        program = Program(study, group, compiler, group.runs_per_batch)
        next(steps(program, first))
        points = f"{study.points[group.points[0]].id} ({len(group.points)})"
        rows.append({"study": study_name, "points": points, **watch.lap()})
    return rows


def measured(study: str, tree: Path, data: str) -> list[dict[str, Any]]:
    """Return the rows of a study, from a process of its own with the source in a folder."""
    command = [sys.executable, str(Path(__file__).resolve()), f"--only={study}"]
    environment = os.environ | {"PYTHONPATH": str(tree), "MDFL_DATA_DIR": data}
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
    if done.returncode:
        print(f"{study}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return []
    return json.loads(done.stdout.splitlines()[-1])


def table(rows: list[dict[str, Any]]) -> str:
    """Return the sums over the programs of each study, and over all studies, as a table."""
    lines = [f"{'study':<22}{'version':<9}" + "".join(f"{name.replace('_seconds', ' s'):>11}" for name in SUMS)]
    kinds = list(dict.fromkeys((row["study"], row["version"]) for row in rows))
    for study, version in [*kinds, *(("all", version) for version in dict.fromkeys(v for _, v in kinds))]:
        own = [row for row in rows if row["version"] == version and study in ("all", row["study"])]
        sums = [sum(row[name] for row in own) for name in SUMS]
        lines.append(f"{study:<22}{version:<9}" + "".join(f"{x:>11,.{int(i > 2)}f}" for i, x in enumerate(sums)))
    return "\n".join(lines)


def main() -> int:
    """Measure all studies, or one of them in this process."""
    if _ONLY.value:
        common.setup_jax("")
        print(json.dumps(programs_of(_ONLY.value)))
        return 0
    trees = {"before": Path(_BEFORE.value).resolve()} if _BEFORE.value else {}
    trees["now"] = Path(__file__).resolve().parents[1]
    rows = []
    with tempfile.TemporaryDirectory() as data:
        images(Path(data))
        for study in _STUDIES.value:
            for version, tree in trees.items():
                found = [{"version": version, **row} for row in measured(study, tree, data)]
                rows += found
                print(table(found).splitlines()[1] if found else f"{study}: left out", flush=True)
    measure.report("compile", rows)
    print(table(rows))
    return 0


if __name__ == "__main__":
    common.run_command(main)
