"""Writes the files of a study: the lines of metrics.jsonl, strict JSON, and arrays."""

import json
import math
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mdfl_jax.storage import disk
from mdfl_jax.core.metric import SCHEMA
from mdfl_jax.metrics.history import Metrics
from mdfl_jax.results import samples
from mdfl_jax.results.mobile_static import group_line

FAST = 1  # the level of compression
SAMPLE = 2**16  # the numbers from which it is seen whether compression pays


def unmeasured(values: np.ndarray) -> bool:
    """Tells whether a metric [S, E, ...] was not measured: all its values before the first round are NaN."""
    return bool(np.isnan(values[:, 0]).all())


def _times(messages: float, size: float | None) -> float | None:
    return None if size is None else float(messages * size)


def accuracy_of(metrics: Mapping[str, np.ndarray], judged: str) -> np.ndarray:
    """Returns the accuracy of runs, [S, E] float64, by which points are compared.

    Args:
      metrics: The metrics of the runs by name, NumPy arrays [S, E, ...].
      judged: "clients" for the mean over the clients, "global" for the judged model.
    """
    if judged == "global":
        return metrics["mean_model_accuracy"].astype(np.float64)
    return samples.mean_over_clients(metrics["accuracy"], metrics.get(samples.KEY))


def metric_lines(
    point: str, seed: int, metrics: Metrics, is_mobile: np.ndarray, double_bits: float | None
) -> Iterator[dict[str, Any]]:
    """Yields the lines of metrics.jsonl of one run, one for each evaluation.

    Args:
      point: The id of the sweep point.
      seed: The seed.
      metrics: The metrics of the run, NumPy leaves [E, ...].
      is_mobile: [N] bool, which clients are mobile.
      double_bits: The bits of one message as PaME counts them, or None.
    """
    for e in range(len(metrics.round)):
        line: dict[str, Any] = {"schema": SCHEMA, "point": point, "seed": seed, "round": int(metrics.round[e])}
        weights = samples.weights_at(metrics, e)
        for metric in metrics.declared:
            if metric.by_round:
                continue
            values = metric.on_host(metrics[metric.name][e])
            line[metric.in_files] = metric.number(values, weights)
            more = {name: metric.reduced(of, values, weights) for name, of in metric.more.items()}
            line |= {f"{metric.in_files}_{name}": value for name, value in more.items()}
            if metric.name == "bits":  # the count of PaME is written as well
                line["double_bits"] = _times(line["messages"], double_bits)
        yield line | group_line(metrics, e, is_mobile)


def plain(value: Any) -> Any:
    """Converts a tree for strict JSON: NumPy numbers to Python's, NaN to null, infinities to 'inf' and '-inf'."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def dumps(value: Any, indent: int | None = None) -> str:
    """Returns a tree as JSON text, after `plain`."""
    return json.dumps(plain(value), allow_nan=False, indent=indent)


def write_json(path: Path, value: Any) -> None:
    """Writes a tree as JSON, as `mdfl_jax.storage.disk.write` does.

    Raises:
      DiskError: If it cannot be written.
    """
    disk.write_text(path, dumps(value, indent=2) + "\n")


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes arrays as .npz, as `mdfl_jax.storage.disk.write` does.

    Arrays that become much shorter, such as links and places on a grid, are compressed. NumPy reads them alike.

    Raises:
      DiskError: If it cannot be written.
    """
    disk.write(path, lambda part: _write_zip(part, arrays), sum(array.nbytes for array in arrays.values()))


def _write_zip(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    with zipfile.ZipFile(path, "w", compresslevel=FAST) as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy")  # without the time, so that equal arrays make equal files
            entry.compress_type = zipfile.ZIP_DEFLATED if _shrinks(array) else zipfile.ZIP_STORED
            with archive.open(entry, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)


def _shrinks(array: np.ndarray) -> bool:
    """Tells from the beginning of an array whether its compressed bytes are less than half as many."""
    sample = np.ascontiguousarray(array.reshape(-1)[:SAMPLE]).tobytes()
    return len(sample) > 1000 and len(zlib.compress(sample, FAST)) < len(sample) / 2
