"""Time compiled functions: compiling apart from running, variants in turn, with a description of the machine."""

import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
from absl import flags

from mdfl_jax.core import devices, rng
from mdfl_jax.storage.provenance import commit

RESULTS = Path(__file__).parent / "results"
REPEATS = 9

WRITE = flags.DEFINE_bool("write", False, "Replace the results file of this suite, which the docs quote.")


def compiled(function: Callable[..., Any], *args: Any) -> tuple[Any, float]:
    """Compile a function for these arguments; return the program and the seconds that compiling took."""
    start = time.perf_counter()
    jitted = function if hasattr(function, "lower") else jax.jit(function)
    with rng.small_threefry():  # as in a study
        lowered = jitted.lower(*args)
    program = lowered.compile(devices.compiler_options())
    return program, time.perf_counter() - start


def interleaved(variants: dict[str, Callable[[], Any]], repeats: int = REPEATS) -> dict[str, list[float]]:
    """Time the variants in turn, so that a drift of the machine's speed affects all of them equally.

    Args:
      variants: The calls by name. Each is called once before the timing starts.
      repeats: The number of timed calls of each variant.

    Returns:
      The seconds of every timed call, by name. A call ends when its results are ready.
    """
    for call in variants.values():
        jax.block_until_ready(call())
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(repeats):
        for name, call in variants.items():
            start = time.perf_counter()
            jax.block_until_ready(call())
            seconds[name].append(time.perf_counter() - start)
    return seconds


def process(command: list[str]) -> tuple[float, float]:
    """Run a command without its standard output; return its wall seconds and its peak resident memory in MiB.

    The system counts the memory of this process too, if it is larger at the moment when the command starts.
    """
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - start
    if status:
        raise SystemExit(f"{shlex.join(command)} failed with status {os.waitstatus_to_exitcode(status)}")
    return seconds, usage.ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def spread(seconds: list[float]) -> dict[str, float]:
    """Return the median, the minimum and the maximum."""
    return {"median": statistics.median(seconds), "min": min(seconds), "max": max(seconds)}


def machine() -> dict[str, Any]:
    """Describe the machine, the devices and the versions of this measurement."""
    device = jax.devices()[0]
    return {
        "device": f"{device.platform} {device.device_kind}",
        "devices": jax.device_count(),
        "machine": platform.machine(),
        "jax": version("jax"),
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d"),
    }


def report(suite: str, rows: list[dict[str, Any]], variant: str = "") -> None:
    """Print each row as a JSON object, and `write` them."""
    for row in rows:
        print(json.dumps({"suite": suite, **row}), flush=True)
    write(suite, rows, variant)


def write(suite: str, rows: list[dict[str, Any]], variant: str = "") -> None:
    """With --write, write the rows to results/<suite>[-<variant>]-<platform>.json."""
    if WRITE.value:
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"{suite}{variant and '-'}{variant}-{jax.devices()[0].platform}.json"
        path.write_text(json.dumps({"suite": suite, **machine(), "rows": rows}, indent=2) + "\n")
        print(path)
