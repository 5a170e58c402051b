"""Makes the result files from the histories of runs: metrics.jsonl, history.npz and summary.json.

Statistics are over seeds, and differences are paired by seed: points with the same seed share data, places and model.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from mdfl_jax.exchange.message_bits import total_bits
from mdfl_jax.experiments.results.at_target import to_target
from mdfl_jax.experiments.results.mobile_static import group_line, group_summary
from mdfl_jax.experiments.results.step_sizes import select
from mdfl_jax.metrics import BUILT_IN
from mdfl_jax.metrics.declare import SCHEMA
from mdfl_jax.metrics.history import Metrics
from mdfl_jax.simulation import RunFacts


class PointHistory(NamedTuple):
    """The history of one sweep point under all seeds.

    Attributes:
      metrics: NumPy leaves [S, E, ...]. ``position`` is [S, R + 1, N, 2], or [S, 0, N, 2] if it was not recorded.
      facts: NumPy leaves [S, ...].
      double_bits: The bits of one message as PaME counts them, in double precision; None if that count is not defined.
      compile_seconds: The seconds of compiling for this point. Of points that share a program, only the first has them.
      run_seconds: The seconds of its rounds. Runs that were on the devices together share their seconds equally.
    """

    metrics: Metrics
    facts: RunFacts
    double_bits: float | None
    compile_seconds: float
    run_seconds: float


def interval(values: Sequence[float] | np.ndarray) -> dict[str, Any]:
    """Returns mean, standard deviation and half-width of the 95 % interval (Student t) of values [S] over the seeds.

    >>> interval([0.5])
    {'mean': 0.5, 'std': None, 'ci95': None}
    """
    values = np.asarray(values, np.float64)
    mean = float(values.mean())
    if len(values) < 2:
        return {"mean": mean, "std": None, "ci95": None}
    with np.errstate(invalid="ignore"):  # values of diverged runs are not finite
        std = float(values.std(ddof=1))
    return {"mean": mean, "std": std, "ci95": float(stats.t.ppf(0.975, len(values) - 1)) * std / math.sqrt(len(values))}


def with_seeds(values: Sequence[float] | np.ndarray) -> dict[str, Any]:
    """Returns the `interval` of values [S] over the seeds, and the values themselves as 'per_seed'."""
    return interval(values) | {"per_seed": [float(v) for v in values]}


def _unmeasured(values: np.ndarray) -> bool:
    """Whether a metric [S, E, ...] was not measured: all its values before the first round are NaN."""
    return bool(np.isnan(values[:, 0]).all())


def _at_end(metrics: Metrics) -> dict[str, Any]:
    """Returns what summary.json says of the metrics themselves: their values at the end, over the seeds."""
    entries: dict[str, Any] = {}
    for metric in metrics.declared:
        if metric.summary and not metric.by_round:
            values = metric.on_host(metrics[metric.name])  # [S, E, ...]
            measured = not (metric.optional and _unmeasured(values))
            entries[metric.in_files] = with_seeds([metric.number(v) for v in values[:, -1]]) if measured else None
    return entries


def _times(messages: float, size: float | None) -> float | None:
    return None if size is None else float(messages * size)


def _diverged(history: PointHistory, seeds: Sequence[int], rounds: np.ndarray) -> dict[str, int]:
    """Returns the first evaluated round at which the models were not finite, for each seed that diverged."""
    metrics = history.metrics
    broken = ~(np.isfinite(metrics.consensus_distance) & np.isfinite(metrics.mean_model_loss))
    if not _unmeasured(metrics.objective):
        broken |= ~np.isfinite(metrics.objective)
    return {str(seed): int(rounds[np.argmax(row)]) for seed, row in zip(seeds, broken) if row.any()}


def accuracy_of(metrics: Metrics, judged: str) -> np.ndarray:
    """Returns the accuracy of runs, [S, E] float64, by which points are compared.

    Args:
      metrics: A history with NumPy leaves [S, E, ...].
      judged: "clients" for the mean over the clients, "global" for the judged model.
    """
    if judged == "global":
        return metrics.mean_model_accuracy.astype(np.float64)
    return metrics.accuracy.mean(axis=2, dtype=np.float64)


def summarize_point(
    history: PointHistory, seeds: Sequence[int], target: float, judged: str = "clients"
) -> dict[str, Any]:
    """Returns the entry of one point in summary.json, without its name and its difference to the baseline.

    Args:
      history: The history of the point.
      seeds: The seeds, in the order of the first axis of the history.
      target: The accuracy whose first round is reported.
      judged: Whose accuracy is reported: "clients", or "global" for the global model.
    """
    metrics, rounds = history.metrics, history.metrics.round[0]
    accuracy = accuracy_of(metrics, judged)  # [S, E]
    bits = total_bits(metrics.bits)  # [S, E, N]
    messages = metrics.messages.astype(np.float64)
    worst, mobile = metrics.accuracy.min(axis=2), history.facts.is_mobile
    moved = metrics.distance_moved[:, -1][mobile]
    return {
        "final_accuracy": with_seeds(accuracy[:, -1]),
        "best_accuracy": with_seeds(accuracy.max(axis=1)),
        "worst_client_accuracy": None if _unmeasured(worst) else with_seeds(worst[:, -1]),
        **_at_end(metrics),
        **to_target(metrics, accuracy, target),
        "bits_sent_per_client": float(bits[:, -1].mean()),
        "double_bits_per_client": _times(float(messages[:, -1].mean()), history.double_bits),
        "messages_per_client": float(messages[:, -1].mean()),
        "distance_moved_per_mobile_client": float(moved.mean()) if moved.size else 0.0,
        **group_summary(metrics, mobile, with_seeds),
        "diverged": _diverged(history, seeds, rounds),
        "compile_seconds": history.compile_seconds,
        "run_seconds": history.run_seconds,
    }


def summarize(
    points: Sequence[Any],
    histories: Sequence[PointHistory],
    baselines: Sequence[int | None],
    seeds: Sequence[int],
    target: float,
    baseline: str,
    select_by: str = "",
    judged: str = "clients",
) -> dict[str, Any]:
    """Returns the content of summary.json as a tree.

    Args:
      points: The sweep points, with ``id`` and ``overrides``.
      histories: The history of each point.
      baselines: For each point the index of the point that it is compared with, or None.
      seeds: The seeds, in the order of the histories' first axis.
      target: The accuracy whose first round is reported.
      baseline: The name of the baseline.
      select_by: The field whose best value is chosen, see `mdfl_jax.experiments.results.step_sizes`; empty: none.
      judged: Whose accuracy is reported: "clients", or "global" for the global model.
    """
    entries = []
    for point, history in zip(points, histories):
        entry = {"id": point.id, "overrides": point.overrides}
        entries.append(entry | summarize_point(history, seeds, target, judged))
    for entry, other in zip(entries, baselines):
        entry["baseline"] = None if other is None else entries[other]["id"]
        entry["difference_to_baseline"] = None
        if other is not None:
            pair = (entry["final_accuracy"]["per_seed"], entries[other]["final_accuracy"]["per_seed"])
            difference = interval(np.subtract(*pair))
            entry["difference_to_baseline"] = {"mean": difference["mean"], "ci95": difference["ci95"]}
    selected = {"selected": select(entries, select_by)} if select_by else {}
    own = {metric.name: metric for h in histories for metric in h.metrics.declared if metric not in BUILT_IN}
    described = {"metrics": [metric.described._asdict() for metric in own.values()]} if own else {}
    return {"schema": SCHEMA, "baseline": baseline, "target": target, "points": entries} | selected | described


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
        for metric in metrics.declared:
            if metric.by_round:
                continue
            values = metric.on_host(metrics[metric.name][e])
            line[metric.in_files] = metric.number(values)
            line |= {f"{metric.in_files}_{name}": of(values) for name, of in metric.more.items()}
            if metric.name == "bits":  # the count of PaME is written as well
                line["double_bits"] = _times(line["messages"], double_bits)
        yield line | group_line(metrics, e, is_mobile)


def history_arrays(histories: Sequence[PointHistory]) -> dict[str, np.ndarray]:
    """Returns the arrays of history.npz: 'rounds' [E], and for the p-th point 'p/KEY'.

    KEY is each metric that was measured, [S, E, ...], and each fact of `mdfl_jax.simulation.RunFacts`, [S, ...].
    """
    arrays: dict[str, np.ndarray] = {"rounds": histories[0].metrics.round[0]}
    for p, history in enumerate(histories):
        for metric in history.metrics.declared:
            values = history.metrics[metric.name]
            if values.shape[1] and not (metric.optional and _unmeasured(values)):
                arrays[f"{p}/{metric.in_files}"] = metric.on_host(values)
        arrays |= {f"{p}/{name}": value for name, value in history.facts._asdict().items()}
    return arrays


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
    """Writes a tree as JSON, through a temporary file, so that a reader never sees an incomplete file."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(dumps(value, indent=2) + "\n")
    temporary.replace(path)


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes arrays as .npz, through a temporary file, so that a reader never sees an incomplete file."""
    temporary = path.with_suffix(".tmp")
    with temporary.open("wb") as file:  # np.savez would add .npz to a name
        np.savez(file, **arrays)  # type: ignore[arg-type]
    temporary.replace(path)
