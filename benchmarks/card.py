"""Measure rounds of shipped studies on the accelerator at hand: python -m benchmarks.card [--rows=madfl;t2] [--write]

A row is a study with some settings and options of the compiler, and has a process of its own. All processes compile at
the same time; when all have, one after another is timed. The figures of a row: seconds of a round (median, least,
most), the share of the peak in bfloat16 that the card's maker states, whatever the precision of the row, and of the
card's own bfloat16 product, the dearest kernels, the seconds of an evaluation and of compiling, and the peak of the
memory in MiB beside what `--dry_run` plans. The seconds of a round are those of one run: of runs that are mapped
together, their share.

The data need not be there: stand-in images of the right shapes are used, unless MDFL_DATA_DIR is set.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from absl import flags
from filelock import FileLock

from benchmarks import measure
from benchmarks.accelerators import stand_ins
from benchmarks.suites import matrix_product
from mdfl_jax.cli import common
from mdfl_jax.core import devices
from mdfl_jax.core.errors import UserError, unknown_name

STUDIES = {
    "madfl": ["configs/cifar_resnet.py:madfl"],
    "dadfl": ["configs/cifar_resnet.py:dadfl"],
    "t2": ["configs/madfl.py:t2"],
    "digits": ["configs/digits.py"],
    "pame": ["configs/cifar_resnet.py:pame"],
    "fedmobile": ["configs/cifar_resnet.py:fedmobile"],
    "thesis in small": ["configs/thesis.py:t1,scale=small"],
    "madfl in small": ["configs/madfl.py:f3,scale=small"],
}
BFLOAT16 = {"engine.precision": "bfloat16"}
TF32 = {"engine.precision": "tensorfloat32"}
TRITON = {"xla_gpu_enable_triton_gemm": True}


class Row(NamedTuple):
    """A measurement.

    Attributes:
      study: a name of `STUDIES`.
      fields: settings of the study.
      options: options of the compiler, beside those that the engine sets.
      rounds: the rounds of a timed call.
      runs: the runs that are on the card.
    """

    study: str
    fields: Mapping[str, Any] = MappingProxyType({})
    options: Mapping[str, Any] = MappingProxyType({})
    rounds: int = 2
    runs: int = 1


ROWS = {
    "madfl, bfloat16": Row("madfl"),
    "madfl, Triton's products": Row("madfl", options=TRITON),
    "madfl, without command buffers": Row("madfl", options={"xla_gpu_enable_command_buffer": ""}),
    "madfl, patches": Row("madfl", {"engine.convolution": "patches"}, rounds=1),
    "madfl, clients mapped together": Row("madfl", {"engine.mapping": "vmap"}, rounds=1),
    "madfl, two runs mapped together": Row("madfl", {"engine.runs_at_once": 2}, rounds=1, runs=2),
    "madfl, float32": Row("madfl", {"engine.precision": "float32"}, rounds=1),
    "madfl, TF32": Row("madfl", TF32, rounds=1),
    "dadfl, bfloat16": Row("dadfl", rounds=1),
    "dadfl, folded": Row("dadfl", {"engine.convolution": "folded"}, rounds=1),
    "dadfl, with remat": Row("dadfl", {"engine.remat": True}, rounds=1),
    "t2, bfloat16": Row("t2", BFLOAT16),
    "t2, bfloat16, Triton's products": Row("t2", BFLOAT16, TRITON),
    "t2, bfloat16, library": Row("t2", BFLOAT16 | {"engine.convolution": "library"}),
    "t2, bfloat16, patches": Row("t2", BFLOAT16 | {"engine.convolution": "patches"}),
    "t2, bfloat16, space to depth": Row("t2", BFLOAT16 | {"engine.convolution": "space_to_depth"}),
    "t2, TF32": Row("t2", TF32),
    "t2, float32": Row("t2"),
    "digits, float32": Row("digits", rounds=50, runs=8),
    "digits, Triton's products": Row("digits", options=TRITON, rounds=50, runs=8),
    "digits, library": Row("digits", {"engine.convolution": "library"}, rounds=50, runs=8),
    "digits, space to depth": Row("digits", {"engine.convolution": "space_to_depth"}, rounds=50, runs=8),
    "digits, one run at a time": Row("digits", {"engine.runs_at_once": 1}, rounds=50, runs=8),
    "digits, all runs of the study together": Row("digits", rounds=50, runs=24),
    "pame, float32": Row("pame", rounds=5),
    "fedmobile, bfloat16": Row("fedmobile", rounds=5),
    "madfl in small, twenty runs": Row("madfl in small", rounds=20, runs=20),
    "madfl in small, library": Row("madfl in small", {"engine.convolution": "library"}, rounds=20, runs=20),
    "thesis in small, eight runs": Row("thesis in small", rounds=20, runs=8),
    "thesis in small, twenty runs": Row("thesis in small", rounds=20, runs=20),
}
# What a child's environment says: the name of its row, the file for what it finds, and the number of all rows.
CHILD, FOUND, MANY = "MDFL_CARD_ROW", "MDFL_CARD_FOUND", "MDFL_CARD_ROWS"
KERNELS = 15  # that are named, of those that take the most time
LEAST_SECONDS, LEAST_CALLS, MOST_CALLS = 3.0, 5, 50
SIZE = {"cpu": 512}  # of the products by which the device's own rate is measured; of accelerators 8,192

_ROWS = flags.DEFINE_string("rows", "", "Names of rows, or of studies for all of their rows, separated by ';'.")


def timed(call: Callable[[], Any]) -> list[float]:
    """Return the seconds of as many calls as `LEAST_SECONDS` take by one before them, which is not counted."""
    (first,) = measure.interleaved({"": call}, 1)[""]
    return measure.interleaved({"": call}, min(max(int(LEAST_SECONDS / first), LEAST_CALLS), MOST_CALLS))[""]


def product_rate() -> float:
    """Return the FLOPs a second of a bfloat16 product of a square matrix of random numbers with itself."""
    size = SIZE.get(jax.default_backend(), 8192)
    return 2 * size**3 / measure.spread(timed(matrix_product(size, jnp.bfloat16)))["median"]


def peak() -> float:
    """Return the peak in bfloat16 that the card's maker states, in FLOPs a second; 0 for a card that is not known."""
    called = jax.devices()[0].device_kind.lower()
    return next((kind.peak for name, kind in devices.KINDS.items() if kind.called == called or name in called), 0.0)


def kernels(call: Any) -> list[dict[str, Any]]:
    """Return the kernels that take the most time of a call on a GPU, with their milliseconds and numbers."""
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            jax.block_until_ready(call())
        profile = jax.profiler.ProfileData.from_file(str(next(Path(folder).rglob("*.xplane.pb"))))
    seconds: Counter[str] = Counter()
    number: Counter[str] = Counter()
    for plane in profile.planes:
        for line in plane.lines if plane.name.startswith("/device:GPU") else ():
            for event in line.events if (line.name or "").startswith("Stream") else ():
                seconds[event.name] += event.duration_ns
                number[event.name] += 1
    return [{"kernel": name, "ms": ns / 1e6, "count": number[name]} for name, ns in seconds.most_common(KERNELS)]


def wait_for_all(path: Path) -> None:
    """Wait until each row has compiled its programs or has ended. The files of the rows say so, beside ``path``."""
    path.with_suffix(".compiled").touch()
    while len({each.stem for each in path.parent.glob("[0-9]*.*")}) < int(os.environ[MANY]):
        time.sleep(0.5)


def measure_row(row: Row, path: Path) -> dict[str, Any]:
    """Compile the programs of a row's study, wait for the card, and time a turn of its runs."""
    from mdfl_jax.config.resolve import as_config
    from mdfl_jax.contrib.estimates.here import round_flops
    from mdfl_jax.engine.programs import Compiler
    from mdfl_jax.study import make_study
    from mdfl_jax.study.memory import MIB, need_of
    from mdfl_jax.study.runner import Program
    from mdfl_jax.study.study import Run

    config = as_config(STUDIES[row.study][0])
    config.eval_every, config.rounds = row.rounds, 2 * row.rounds
    config.update_from_flattened_dict({"engine.runs_per_batch": row.runs, **row.fields})
    devices.compiler_options = partial(_options, devices.compiler_options, row.options)
    study = make_study(config)
    group = study.groups[0]
    chosen = [Run(point, seed) for seed in study.seeds for point in group.points][: row.runs]
    program = Program(study, group, Compiler(), row.runs)
    program.take(chosen)
    program.compile()
    made: Any = program.programs
    steps, compiled = zip(*((call.func.__self__, call.args[0]) for call in (made.rounds, made.evaluate)))
    plan, flops = need_of(steps, compiled).total, round_flops(study, group)
    wait_for_all(path)
    with FileLock(path.parent / "lock"):
        program.start()
        data, turn, clients = program.placement.data, program.runs[0], program.carry[0].clients
        state, program.carry = [program.carry[0]._replace(clients=None), None], None

        def rounds() -> Any:
            state[:] = made.rounds(data, *turn, clients, state[0])
            return state[0]

        seconds = timed(rounds)
        stats = jax.devices()[0].memory_stats() or {}
        evaluation = timed(lambda: made.evaluate(data, turn.keys, clients, *state))
        rate, dearest = product_rate(), kernels(rounds)
    together = row.runs if program.placement.mapped else 1
    a_round = measure.spread([each / row.rounds / together for each in seconds])
    rates = {"share_of_peak": peak(), "share_of_product": rate}
    return {
        "seconds_per_round": a_round,
        **{name: flops / a_round["median"] / each for name, each in rates.items() if each},
        "teraflop_per_second": flops / a_round["median"] / 1e12,
        "product_teraflop_per_second": rate / 1e12,
        "gigaflop_a_round": flops / 1e9,
        "runs_mapped_together": together,
        "kernels_of_a_call": dearest,
        "evaluation_seconds": measure.spread(evaluation)["median"] / together,
        "compile_seconds": program.compile_seconds,
        "planned_mib": plan / MIB,
        "peak_mib": stats.get("peak_bytes_in_use", 0) / MIB,
    }


def _options(of_engine: Any, own: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
    return {**(of_engine(*args, **kwargs) or {}), **own} or None


def child() -> int:
    """Measure the row that the environment names, and write what was found."""
    path = Path(os.environ[FOUND])
    try:
        found = measure_row(ROWS[os.environ[CHILD]], path)
    except Exception as error:  # compilers raise many types
        found = {"failure": " ".join(f"{type(error).__name__}: {error}".split())[:600]}
    path.write_text(json.dumps(found))
    return 0


def in_a_child(name: str, folder: Path, many: int) -> dict[str, Any]:
    """Measure a row in a process of its own, which may abort."""
    path = folder / f"{list(ROWS).index(name)}.json"
    own = {CHILD: name, FOUND: str(path), MANY: str(many), "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.card"], env=os.environ | own, capture_output=True, text=True, check=False
    )
    if path.exists():
        found = json.loads(path.read_text())
    else:
        found = {"failure": f"status {done.returncode}: {' '.join(done.stderr.split())[-600:]}"}
        path.touch()
    row = ROWS[name]
    asked = {"study": STUDIES[row.study][0], "fields": dict(row.fields), "options": dict(row.options)}
    made = {"variant": name, **asked, "rounds": row.rounds, **found}
    print(json.dumps(made), flush=True)
    return made


def names_of(text: str) -> list[str]:
    """Return the rows that a text names."""
    names: dict[str, None] = {}
    for word in filter(None, text.split(";")):
        found = [name for name, row in ROWS.items() if word in (name, row.study)]
        if not found:
            raise UserError(f"--rows={word}: {unknown_name('row', word, [*ROWS, *STUDIES])}")
        names |= dict.fromkeys(found)
    return list(names) or list(ROWS)


def main() -> int:
    """Measure the rows in processes of their own."""
    if CHILD in os.environ:
        return child()
    names = names_of(_ROWS.value)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(len(names)) as pool:
        if "MDFL_DATA_DIR" not in os.environ:
            stand_ins(Path(folder))
            os.environ["MDFL_DATA_DIR"] = folder
        rows = list(pool.map(lambda name: in_a_child(name, Path(folder), len(names)), names))
    measure.write("card", rows)
    return 0


if __name__ == "__main__":
    common.run_command(main)
