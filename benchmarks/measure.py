"""Timing of compiled functions: compile apart from run, blocked, interleaved, with the machine's name."""

import json
import platform
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax

from mdfl_jax import target
from mdfl_jax.experiments.results.provenance import commit

RESULTS = Path(__file__).parent / "results"
REPEATS = 9


def compiled(function: Callable[..., Any], *args: Any) -> tuple[Any, float]:
    """The jitted function for these arguments, and the seconds that compiling took."""
    start = time.perf_counter()
    jitted = function if hasattr(function, "lower") else jax.jit(function)
    program = jitted.lower(*args).compile(target.compiler_options())
    return program, time.perf_counter() - start


def interleaved(variants: dict[str, Callable[[], Any]], repeats: int = REPEATS) -> dict[str, list[float]]:
    """Seconds of each call, the variants taking turns, so that drift of the machine meets all of them alike."""
    for call in variants.values():
        jax.block_until_ready(call())
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(repeats):
        for name, call in variants.items():
            start = time.perf_counter()
            jax.block_until_ready(call())
            seconds[name].append(time.perf_counter() - start)
    return seconds


def spread(seconds: list[float]) -> dict[str, float]:
    """Median, least and largest."""
    return {"median": statistics.median(seconds), "min": min(seconds), "max": max(seconds)}


def machine() -> dict[str, Any]:
    """Where and with what it was measured."""
    device = jax.devices()[0]
    return {
        "device": f"{device.platform} {device.device_kind}",
        "devices": jax.device_count(),
        "machine": platform.machine(),
        "jax": version("jax"),
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d"),
    }


def report(suite: str, rows: list[dict[str, Any]], variant: str = "") -> Path:
    """Prints one JSON object a row and writes them to results/<suite>[-<variant>]-<platform>.json."""
    for row in rows:
        print(json.dumps({"suite": suite, **row}), flush=True)
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{suite}{variant and '-'}{variant}-{jax.devices()[0].platform}.json"
    path.write_text(json.dumps({"suite": suite, **machine(), "rows": rows}, indent=2) + "\n")
    return path
